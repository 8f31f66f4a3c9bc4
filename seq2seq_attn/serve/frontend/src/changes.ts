/** The changes of a visit as entries of the browser's history, so that its Back and Forward undo and redo them. */

/** A change by the reader. Changes of one subject that follow each other at once are one entry. */
export interface Change {
  subject: string;
  label: string;
}

/** The entries of the browser's history, each with the labels up to its own as its state. */
export interface Trail {
  readonly labels: readonly string[]; // the oldest first
  readonly place: number; // of the entry that is shown
}

/** With another entry after the one that is shown; what was undone is gone, as in the browser. */
export const added = ({ labels, place }: Trail, label: string): Trail =>
  ({ labels: [...labels.slice(0, place + 1), label], place: place + 1 });

/** At an entry with these labels; later entries stay known if it is one of the trail. */
export function arrived({ labels }: Trail, found: readonly string[]): Trail {
  const isKnown = found.length <= labels.length && found.every((label, i) => label === labels[i]);
  return { labels: isKnown ? labels : found, place: found.length - 1 };
}

const PAUSE = 100; // milliseconds: while a weight is dragged, the address would change more often than browsers allow
const TOGETHER = 1000; // milliseconds between changes that are one entry

export class Changes {
  trail: Trail;
  private address = ""; // of the last change
  private pending: Change | null = null; // has no entry yet
  private last = { subject: "", time: 0 };
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isPressed = false;

  /** `update` hears of another trail. */
  constructor(
    private readonly history: Pick<History, "state" | "pushState" | "replaceState" | "go">,
    private readonly update: () => void,
  ) {
    this.trail = arrived({ labels: [], place: 0 }, labelsOf(history.state) ?? ["start"]); // after a reload, those before it
  }

  /** The address of the present entry, which is no change. */
  begin(address: string): void {
    this.address = address;
    this.write("replaceState");
  }

  /** Notes a change; null: only what is looked at, which belongs to the entry before. */
  note(change: Change | null, address: string): void {
    if (change && this.pending && change.subject !== this.pending.subject) this.flush();
    this.pending = change ?? this.pending;
    this.address = address;
    this.wait();
  }

  /** While a pointer is down, changes are one entry. */
  press(isDown: boolean): void {
    this.isPressed = isDown;
    if (!isDown && this.timer !== undefined) this.wait();
  }

  /** Enters what is pending. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { pending, last } = this;
    this.pending = null;
    if (!pending) return this.write("replaceState");
    const isOneEntry = pending.subject === last.subject && Date.now() - last.time < TOGETHER;
    const { labels, place } = this.trail;
    this.trail = added(isOneEntry ? { labels, place: place - 1 } : this.trail, pending.label);
    this.last = { subject: pending.subject, time: Date.now() };
    this.write(isOneEntry ? "replaceState" : "pushState");
  }

  /** Goes to an entry of the trail, as Back and Forward do. */
  go(place: number): void {
    if (this.timer !== undefined) this.flush();
    const by = Math.max(0, Math.min(place, this.trail.labels.length - 1)) - this.trail.place;
    if (by !== 0) this.history.go(by);
  }

  /** The browser shows another entry; one without labels is an address that was typed or followed. */
  arrive(state: unknown, address: string): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    [this.pending, this.last, this.address] = [null, { subject: "", time: 0 }, address];
    const labels = labelsOf(state);
    this.trail = labels ? arrived(this.trail, labels) : added(this.trail, "another link");
    this.write("replaceState");
  }

  private wait(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.isPressed || this.flush(), PAUSE);
  }

  private write(how: "pushState" | "replaceState"): void {
    const { labels, place } = this.trail;
    this.history[how]({ labels: labels.slice(0, place + 1) }, "", `#${this.address}`);
    this.update();
  }
}

function labelsOf(state: unknown): readonly string[] | null {
  const { labels } = (state ?? {}) as { labels?: readonly string[] };
  return labels ?? null;
}
