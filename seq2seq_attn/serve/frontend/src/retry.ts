/** Which failures pass by themselves, and how long to wait before the same question is asked again. */

import { type ApiError, asApiError } from "./api.ts";

const LONGEST = 30; // seconds

/** Why there is no answer, and the seconds until the page asks again; null: not by itself. */
export interface Failure {
  error: ApiError;
  pause: number | null;
}

/** Whether the same question may be answered later: no answer, too much to do, or an error of the server's own. */
export const mayPass = ({ status }: ApiError): boolean => status === 0 || status === 429 || status >= 500;

/** Seconds until the next attempt after this number of failures in a row; null: the page does not ask by itself. */
export function pauseAfter(error: ApiError, failures: number): number | null {
  const isAskedAgain = error.status === 0 || error.status === 429 || error.status === 503;
  return isAskedAgain ? Math.max(error.retryAfter ?? 0, Math.min(LONGEST, 2 ** (failures - 1))) : null;
}

/** The failure in a plain line. */
export function inWords(error: ApiError, pause: number | null): string {
  const text = error.message.replace(/[^.?!]$/, "$&.");
  const line = text[0]!.toUpperCase() + text.slice(1);
  return pause === null ? line : `${line} The next attempt is in ${pause} second${pause === 1 ? "" : "s"}.`;
}

/** Asks until there is an answer; null where the failure does not pass by itself, or nobody waits any more. */
export async function answerTo<Answer>(ask: () => Promise<Answer>, signal: AbortSignal, failed: (failure: Failure) => void): Promise<Answer | null> {
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      const answer = await ask();
      return signal.aborted ? null : answer;
    } catch (caught) {
      if (signal.aborted) return null;
      const error = asApiError(caught);
      const pause = pauseAfter(error, failures);
      failed({ error, pause });
      if (pause === null) return null;
      await new Promise((done) => setTimeout(done, 1000 * pause));
    }
  }
  return null;
}
