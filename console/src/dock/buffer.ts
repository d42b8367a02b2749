// Log lines of several pods in one bounded buffer, in the order of time as far as it is known. Pure but for the listeners.
import { ansi, type Run } from "./ansi";

export interface Line {
  /** Grows by one for every line ever added; never used again. */
  n: number;
  source: number;
  /** RFC 3339 as the server sent it; empty when it sent none. */
  time: string;
  /** Comparable: seconds and nanoseconds as padded text. */
  order: string;
  text: string;
  /** Where it is coloured; most lines are not. */
  runs?: Run[];
}

export const MOST_LINES = 200_000;
/** A longer line is cut: no screen shows it, and one line must not be able to fill the memory. */
export const LONGEST_LINE = 16_384;

const STAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ?/;

/** Takes the timestamp off a line; what follows it is still as it was written. */
export function split(raw: string): { time: string; order: string; text: string } {
  const found = STAMP.exec(raw);
  if (!found) return { time: "", order: "", text: raw.slice(0, LONGEST_LINE) };
  const [whole, seconds = "", fraction = "", zone = "Z"] = found;
  const base = zone === "Z" ? seconds : new Date(`${seconds}${zone}`).toISOString().slice(0, 19);
  return {
    time: whole.trimEnd(),
    order: `${base}.${fraction.padEnd(9, "0").slice(0, 9)}`,
    text: raw.slice(whole.length, whole.length + LONGEST_LINE),
  };
}

/** Cuts a stream of text into lines; what has no end yet waits for more. */
export class Lines {
  private rest = "";
  push(chunk: string): string[] {
    const parts = (this.rest + chunk).split("\n");
    this.rest = parts.pop() ?? "";
    // A line without an end is let go in pieces, or it would grow for ever.
    if (this.rest.length > LONGEST_LINE * 4) {
      parts.push(this.rest);
      this.rest = "";
    }
    return parts.map((part) => (part.endsWith("\r") ? part.slice(0, -1) : part));
  }
  end(): string[] {
    const last = this.rest;
    this.rest = "";
    return last ? [last] : [];
  }
}

export class LogBuffer {
  lines: Line[] = [];
  dropped = 0;
  version = 0;
  private next = 0;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly most = MOST_LINES) {}

  /** Adds lines of one source. A line that is older than the last ones is put where it belongs, if that is not far. */
  add(source: number, raw: readonly string[]): void {
    if (raw.length === 0) return;
    let disordered = false;
    let last = this.lines[this.lines.length - 1]?.order ?? "";
    const from = this.lines.length;
    for (const one of raw) {
      const { text: written, ...when } = split(one);
      const { text, runs } = ansi(written);
      const line: Line = { n: this.next, source, ...when, text, ...(runs.length > 0 && { runs }) };
      // A line without a time belongs to the line before it (a stack trace, say).
      if (!line.order) line.order = this.lastOrder(source, last);
      this.next += 1;
      if (line.order < last) disordered = true;
      else last = line.order;
      this.lines.push(line);
    }
    if (disordered) this.settle(from);
    const over = this.lines.length - this.most;
    if (over > 0) {
      // Dropping a tenth at once keeps the cost per line constant.
      const drop = Math.max(over, Math.floor(this.most / 10));
      this.lines = this.lines.slice(drop);
      this.dropped += drop;
    }
    this.changed();
  }

  clear(): void {
    this.lines = [];
    this.dropped = 0;
    this.changed();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  };

  private lastOrder(source: number, otherwise: string): string {
    for (let n = this.lines.length - 1; n >= Math.max(0, this.lines.length - 500); n -= 1) {
      const line = this.lines[n];
      if (line?.source === source) return line.order;
    }
    return otherwise;
  }

  /** Sorts the tail from the first place that the new lines can belong to; equal times keep their order of arrival. */
  private settle(from: number): void {
    let oldest = this.lines[from]?.order ?? "";
    for (let n = from; n < this.lines.length; n += 1) {
      const order = this.lines[n]?.order ?? "";
      if (order < oldest) oldest = order;
    }
    let start = from;
    while (start > 0 && (this.lines[start - 1]?.order ?? "") > oldest) start -= 1;
    const tail = this.lines.slice(start).sort((a, b) => (a.order < b.order ? -1 : a.order > b.order ? 1 : a.n - b.n));
    for (const [n, line] of tail.entries()) this.lines[start + n] = line;
  }

  private changed(): void {
    this.version += 1;
    for (const listener of this.listeners) listener();
  }
}

export interface Search {
  text: string;
  regex: boolean;
  /** Lines that do not match are shown. */
  inverse: boolean;
}

/** A test for lines, or why the pattern cannot be read. */
export function matcher(search: Search): { test: RegExp | null; wrong: string } {
  if (!search.text) return { test: null, wrong: "" };
  const source = search.regex ? search.text : search.text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  try {
    return { test: new RegExp(source, "i"), wrong: "" };
  } catch (error) {
    return { test: null, wrong: error instanceof Error ? error.message : String(error) };
  }
}

export function select(lines: readonly Line[], search: Search): readonly Line[] {
  const { test } = matcher(search);
  if (!test) return lines;
  return lines.filter((line) => test.test(line.text) !== search.inverse);
}

/** Cuts a line into pieces that match and pieces that do not. */
export function highlight(text: string, test: RegExp | null): { text: string; hit: boolean }[] {
  if (!test) return [{ text, hit: false }];
  const every = new RegExp(test.source, "gi");
  const pieces: { text: string; hit: boolean }[] = [];
  let from = 0;
  for (const found of text.matchAll(every)) {
    if (found[0] === "" || pieces.length > 100) break;
    if (found.index > from) pieces.push({ text: text.slice(from, found.index), hit: false });
    pieces.push({ text: found[0], hit: true });
    from = found.index + found[0].length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), hit: false });
  return pieces;
}
