import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MOST_STREAMS, read, type Source, type SourceState, type Wish } from "./follow";

const source: Source = { pod: { cluster: "beijing", namespace: "shop", name: "web-1" }, container: "web" };
const wish: Wish = { follow: true, previous: false, tailLines: 500 };
const body = (text: string) => new Response(text, { status: 200 });

const open: AbortController[] = [];
const start = (answer: (url: string) => Response | Promise<Response>, options: Wish = wish) => {
  const stop = new AbortController();
  open.push(stop);
  const asked: string[] = [];
  const lines: string[] = [];
  const states: SourceState["is"][] = [];
  vi.stubGlobal("fetch", (url: string, { signal }: { signal: AbortSignal }) => {
    asked.push(url);
    const stopped = new Promise<never>((_, fail) => {
      signal.addEventListener("abort", () => fail(new DOMException("stopped", "AbortError")));
    });
    return Promise.race([answer(url), stopped]);
  });
  const reader = {
    lines: (more: string[]) => lines.push(...more),
    state: (state: SourceState) => states.push(state.is),
  };
  const done = read(source, options, reader, stop.signal);
  return { asked, lines, states, done, stop };
};

describe("reading a log", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(async () => {
    for (const one of open.splice(0)) one.abort();
    await vi.advanceTimersByTimeAsync(5_000);
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("asks for history with times and ends when it is not followed", async () => {
    const run = start(() => body("2026-01-01T00:00:01Z a\n2026-01-01T00:00:02Z b\n"), { ...wish, follow: false });
    await run.done;
    expect(run.asked).toEqual([
      "/api/cluster/beijing/namespace/shop/pods/web-1/logs?container=web&timestamps=true&tailLines=500",
    ]);
    expect(run.lines).toHaveLength(2);
    expect(run.states).toEqual(["reading", "ended"]);
  });

  it("streams a few logs and asks for the others again from where they ended, showing no line twice", async () => {
    const never = () => new Promise<Response>(() => {});
    for (let n = 0; n < MOST_STREAMS; n += 1) start(never);
    const answers = [
      "2026-01-01T00:00:01.1Z a\n2026-01-01T00:00:01.2Z b\n",
      "2026-01-01T00:00:01.1Z a\n2026-01-01T00:00:01.2Z b\n2026-01-01T00:00:01.3Z c\n",
    ];
    const run = start(() => body(answers.shift() ?? ""));
    await vi.advanceTimersByTimeAsync(2_500);
    expect(run.asked[0]).not.toContain("follow");
    expect(run.asked[1]).toContain("sinceTime=2026-01-01T00%3A00%3A01.2Z");
    expect(run.lines.map((line) => line.split(" ")[1])).toEqual(["a", "b", "c"]);
  });

  it("says why a log cannot be read", async () => {
    const run = start(
      () => new Response(JSON.stringify({ code: 403, reason: "Forbidden", message: "no" }), { status: 403 }),
    );
    await run.done;
    expect(run.states).toEqual(["failed"]);
  });
});
