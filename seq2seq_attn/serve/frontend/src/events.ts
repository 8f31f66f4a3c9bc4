/** Server-sent events as they arrive. The browser's EventSource sends no body, so the stream is read here. */

export interface ServerEvent {
  name: string;
  data: unknown;
}

export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const parts = rest.split("\n\n");
      rest = parts.pop()!;
      for (const part of parts) yield parse(part);
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => undefined); // the server stops decoding
  }
}

/** One event, as this server writes it: a line with its name, and one with its data in JSON. */
function parse(text: string): ServerEvent {
  const fields = new Map(
    text.split("\n").map((line) => {
      const colon = line.indexOf(": ");
      return [line.slice(0, colon), line.slice(colon + 2)] as const;
    }),
  );
  return { name: fields.get("event") ?? "message", data: JSON.parse(fields.get("data") ?? "null") };
}
