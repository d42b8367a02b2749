// Reads the log of one container: its history, then what comes. Browsers open six connections to a plain-HTTP host, so only a few logs are
// streamed at once; the others are asked again every two seconds from where they ended.
import { ask, type Refusal } from "../api/client";
import { type PodRef, podLogFile, podLogs } from "../api/paths";
import { Lines, split } from "./buffer";

export interface Source {
  pod: PodRef;
  container: string;
  /** A file inside the container instead of its output. */
  file?: string;
}

export interface Wish {
  follow: boolean;
  previous: boolean;
  tailLines: number;
  sinceSeconds?: number;
}

export interface Reader {
  lines(lines: string[]): void;
  state(state: SourceState): void;
}

export type SourceState =
  | { is: "reading" }
  | { is: "following" }
  | { is: "ended" }
  | { is: "failed"; error: Refusal | Error };

export const MOST_STREAMS = 3;
const AGAIN_MS = 2_000;
let streams = 0;

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });

/** Runs until the log ends, fails, or `signal` says stop. */
export async function read(source: Source, wish: Wish, reader: Reader, signal: AbortSignal): Promise<void> {
  const streamed = wish.follow && streams < MOST_STREAMS;
  if (streamed) streams += 1;
  try {
    if (streamed) await stream(source, wish, reader, signal);
    else await poll(source, wish, reader, signal);
    if (!signal.aborted) reader.state({ is: "ended" });
  } catch (error) {
    if (!signal.aborted) reader.state({ is: "failed", error: error as Error });
  } finally {
    if (streamed) streams -= 1;
  }
}

function address(source: Source, wish: Wish, follow: boolean, sinceTime?: string): string {
  const { pod, container, file } = source;
  if (file) return podLogFile(pod, { container, path: file, tail: wish.tailLines, follow });
  return podLogs(pod, {
    container,
    timestamps: true,
    follow,
    previous: wish.previous,
    tailLines: sinceTime ? undefined : wish.tailLines,
    sinceSeconds: sinceTime ? undefined : wish.sinceSeconds,
    sinceTime,
  });
}

async function stream(source: Source, wish: Wish, reader: Reader, signal: AbortSignal): Promise<void> {
  const answer = await ask(address(source, wish, true), { signal });
  reader.state({ is: "following" });
  await drain(answer, (lines) => reader.lines(lines));
}

async function poll(source: Source, wish: Wish, reader: Reader, signal: AbortSignal): Promise<void> {
  let last = "";
  let lastTime: string | undefined;
  let seen = false;
  reader.state({ is: "reading" });
  while (!signal.aborted) {
    const answer = await ask(address(source, wish, false, lastTime), { signal });
    await drain(answer, (lines) => {
      // The server knows whole seconds only: what was read already comes again.
      const fresh = lines.filter((line) => {
        const { order } = split(line);
        return !order || !last || order > last;
      });
      for (const line of fresh) {
        const { order, time } = split(line);
        if (order > last) [last, lastTime] = [order, time];
      }
      if (fresh.length > 0) seen = true;
      reader.lines(fresh);
    });
    // Without times nothing says where to go on.
    if (!wish.follow || source.file || (seen && !lastTime)) return;
    reader.state({ is: "following" });
    await pause(AGAIN_MS, signal);
  }
}

async function drain(answer: Response, take: (lines: string[]) => void): Promise<void> {
  const body = answer.body;
  if (!body) return;
  const lines = new Lines();
  const text = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  for (;;) {
    const { done, value } = await text.read();
    if (done) break;
    take(lines.push(value));
  }
  take(lines.end());
}
