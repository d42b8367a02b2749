// Colours that programs write into their logs: read into runs of text with a look, everything else a terminal would obey is left out. Pure.

/** A part of a line that looks different. */
export interface Run {
  from: number;
  to: number;
  /** Names of classes: `ansi-1 strong`. */
  look: string;
}

/** A line that changes its colour more often than this is shown plain from there on. */
const MOST_RUNS = 200;

// CSI … final byte; OSC, DCS, PM, APC, SOS … until BEL or ST (one that never ends hides nothing); ESC with one letter; the same as single characters (C1).
const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it is about them
  /\u001b\[([0-9;:]*)([ -/]*)([@-~])|\u001b\[[0-9;:<=>? -/]*[@-~]?|\u001b[\]PX^_][^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-~]?|\u009b[0-9;:<=>? -/]*[@-~]?/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is about them
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

interface Look {
  color: number | null;
  strong: boolean;
  slanted: boolean;
  under: boolean;
}

const PLAIN: Look = { color: null, strong: false, slanted: false, under: false };

/** The text without anything but text, and how its parts look. */
export function ansi(raw: string): { text: string; runs: Run[] } {
  // Most lines have nothing of the kind.
  if (raw.search(CONTROL) < 0) return { text: raw, runs: [] };
  const runs: Run[] = [];
  let [text, look, from] = ["", PLAIN, 0];
  const add = (piece: string) => {
    const clean = piece.replace(CONTROL, "");
    const start = text.length;
    text += clean;
    const words = named(look);
    if (!clean || !words || runs.length >= MOST_RUNS) return;
    const last = runs[runs.length - 1];
    if (last && last.to === start && last.look === words) last.to = text.length;
    else runs.push({ from: start, to: text.length, look: words });
  };
  for (const found of raw.matchAll(SEQUENCE)) {
    add(raw.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[3] === "m" && !found[2]) look = after(look, found[1] ?? "");
  }
  add(raw.slice(from));
  return { text, runs };
}

const named = ({ color, strong, slanted, under }: Look): string =>
  [color !== null && `ansi-${color}`, strong && "ansi-strong", slanted && "ansi-slanted", under && "ansi-under"]
    .filter(Boolean)
    .join(" ");

function after(look: Look, parameters: string): Look {
  const numbers = parameters.split(/[;:]/).map((one) => Number(one) || 0);
  let next = look;
  for (let n = 0; n < numbers.length; n += 1) {
    const code = numbers[n] ?? 0;
    if (code === 0) next = PLAIN;
    else if (code === 1) next = { ...next, strong: true };
    else if (code === 3) next = { ...next, slanted: true };
    else if (code === 4) next = { ...next, under: true };
    else if (code === 22) next = { ...next, strong: false };
    else if (code === 23) next = { ...next, slanted: false };
    else if (code === 24) next = { ...next, under: false };
    else if (code >= 30 && code <= 37) next = { ...next, color: code - 30 };
    else if (code >= 90 && code <= 97) next = { ...next, color: code - 82 };
    else if (code === 39) next = { ...next, color: null };
    else if (code === 38 || code === 48) {
      // Backgrounds are left out: nothing says that the text on them can be read.
      const wide = numbers[n + 1] === 2;
      const color = wide
        ? nearest(numbers[n + 2] ?? 0, numbers[n + 3] ?? 0, numbers[n + 4] ?? 0)
        : indexed(numbers[n + 2] ?? 0);
      if (code === 38) next = { ...next, color };
      n += wide ? 4 : 2;
    }
  }
  return next;
}

/** One of 256 colours as one of the sixteen that have a token. */
function indexed(n: number): number {
  if (n < 16) return n;
  if (n >= 232) return nearest(n * 10 - 2312, n * 10 - 2312, n * 10 - 2312);
  const step = (of: number) => (of === 0 ? 0 : of * 40 + 55);
  const at = n - 16;
  return nearest(step(Math.floor(at / 36)), step(Math.floor(at / 6) % 6), step(at % 6));
}

function nearest(red: number, green: number, blue: number): number {
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  if (most - least < 48) return most > 170 ? 15 : most > 110 ? 7 : 8;
  const middle = (most + least) / 2;
  const bits = (red > middle ? 1 : 0) + (green > middle ? 2 : 0) + (blue > middle ? 4 : 0);
  return most > 190 ? bits + 8 : bits;
}

export interface Piece {
  text: string;
  hit: boolean;
  look: string;
}

/** Cuts pieces that were found, or not, where the look changes. */
export function dressed(pieces: readonly { text: string; hit: boolean }[], runs: readonly Run[]): Piece[] {
  if (runs.length === 0) return pieces.map((piece) => ({ ...piece, look: "" }));
  const out: Piece[] = [];
  let [at, next] = [0, 0];
  for (const { text, hit } of pieces) {
    const end = at + text.length;
    let from = at;
    while (from < end) {
      while ((runs[next]?.to ?? end + 1) <= from) next += 1;
      const run = runs[next];
      const inside = run !== undefined && run.from <= from;
      const to = Math.min(end, inside ? run.to : (run?.from ?? end));
      out.push({ text: text.slice(from - at, to - at), hit, look: inside ? run.look : "" });
      from = to;
    }
    at = end;
  }
  return out;
}
