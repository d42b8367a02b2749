// Reads the log of one container: its history, then what comes, over the tab's one live line. While there is no line (or the server has no
// room for one more log) it is asked for again every two seconds from where it ended.
import { ask, Refusal } from "../api/client";
import { type Live, type LogEnd, live } from "../api/live";
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

type Line = Pick<Live, "follow" | "liveness">;

const AGAIN_MS = 2_000;

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((done) => {
    const end = () => {
      clearTimeout(timer);
      // A log may be asked for again for days: nothing is left behind at the signal.
      signal.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });

/** How far a log was read: where to go on after a cut. */
class Place {
  private last = "";
  time: string | undefined;
  begun = false;

  /** Takes lines from here on. The server knows whole seconds only: what was read already comes again, and is left out. */
  taker(): (lines: string[]) => string[] {
    const from = this.last;
    return (lines) => {
      const fresh: string[] = [];
      for (const line of lines) {
        const { order, time } = split(line);
        if (order && order <= from) continue;
        fresh.push(line);
        if (order > this.last) [this.last, this.time] = [order, time];
      }
      if (fresh.length > 0) this.begun = true;
      return fresh;
    };
  }
}

/** Runs until the log ends, may not be read, or `signal` says stop. A server or cluster that is away is asked again while it is followed. */
export async function read(
  source: Source,
  wish: Wish,
  reader: Reader,
  signal: AbortSignal,
  line: Line = live,
): Promise<void> {
  const place = new Place();
  let full = false;
  reader.state({ is: "reading" });
  while (!signal.aborted) {
    try {
      if (wish.follow && !full && line.liveness.get().state === "live") {
        const how = await carried(address(source, wish, true, place), place, reader, signal, line);
        if (how.is === "ended") break;
        if (how.is === "failed") {
          full = how.code === 429 && !source.file;
          if (!full) throw new Refusal(how.code, how.reason, how.message);
        } else reader.state({ is: "reading" });
      } else if (!wish.follow || !source.file) {
        await once(address(source, wish, false, place), place, reader, signal);
        // Without times nothing says where to go on.
        if (!wish.follow || (place.begun && !place.time)) break;
        reader.state({ is: "following" });
      }
    } catch (error) {
      if (signal.aborted) return;
      reader.state({ is: "failed", error: error as Error });
      if (!wish.follow || !(error instanceof Refusal) || (error.code !== 0 && error.code < 502)) return;
    }
    await pause(AGAIN_MS, signal);
  }
  if (!signal.aborted) reader.state({ is: "ended" });
}

function address(source: Source, wish: Wish, follow: boolean, place: Place): string {
  const { pod, container, file } = source;
  // Who goes on without knowing where misses what came meanwhile, and shows nothing twice.
  const tail = place.begun ? 0 : wish.tailLines;
  if (file) return podLogFile(pod, { container, path: file, tail, follow });
  return podLogs(pod, {
    container,
    timestamps: true,
    follow,
    previous: wish.previous,
    tailLines: place.time ? undefined : tail,
    sinceSeconds: place.begun ? undefined : wish.sinceSeconds,
    sinceTime: place.time,
  });
}

/** Over the live line, until the log ends or the line does. */
function carried(path: string, place: Place, reader: Reader, signal: AbortSignal, line: Line): Promise<LogEnd> {
  return new Promise((done) => {
    const [lines, decoder, fresh] = [new Lines(), new TextDecoder(), place.taker()];
    const stop = line.follow(path, {
      open: () => reader.state({ is: "following" }),
      text: (bytes) => reader.lines(fresh(lines.push(decoder.decode(bytes, { stream: true })))),
      over: (how) => {
        signal.removeEventListener("abort", aborted);
        // Half a line at a cut comes again as a whole.
        if (how.is === "ended") reader.lines(fresh(lines.end()));
        done(how);
      },
    });
    const aborted = () => {
      stop();
      done({ is: "ended" });
    };
    signal.addEventListener("abort", aborted, { once: true });
  });
}

async function once(path: string, place: Place, reader: Reader, signal: AbortSignal): Promise<void> {
  const answer = await ask(path, { signal });
  const fresh = place.taker();
  await drain(answer, (lines) => reader.lines(fresh(lines)));
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
