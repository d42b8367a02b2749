import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Liveness, LogListener } from "../api/live";
import { store } from "../lib/store";
import { read, type Source, type SourceState, type Wish } from "./follow";

const source: Source = { pod: { cluster: "beijing", namespace: "shop", name: "web-1" }, container: "web" };
const wish: Wish = { follow: true, previous: false, tailLines: 500 };
const body = (text: string) => new Response(text, { status: 200 });
const refused = (code: number) => new Response(JSON.stringify({ code, reason: "No", message: "no" }), { status: code });

/** A line that is played by hand. */
class HandLine {
  liveness = store<Liveness>({ state: "live" });
  logs: { path: string; listener: LogListener; stopped: boolean }[] = [];
  follow = (path: string, listener: LogListener) => {
    const log = { path, listener, stopped: false };
    this.logs.push(log);
    return () => {
      log.stopped = true;
    };
  };
  get last() {
    const log = this.logs[this.logs.length - 1];
    if (!log) throw new Error("nothing is followed");
    return log;
  }
  says(text: string) {
    this.last.listener.text(new TextEncoder().encode(text));
  }
}

const open: AbortController[] = [];
const start = (answer: (url: string) => Response | Promise<Response>, options: Wish = wish, of: Source = source) => {
  const stop = new AbortController();
  open.push(stop);
  const line = new HandLine();
  const asked: string[] = [];
  const lines: string[] = [];
  const states: SourceState["is"][] = [];
  vi.stubGlobal("fetch", async (url: string) => {
    asked.push(url);
    return answer(url);
  });
  const reader = {
    lines: (more: string[]) => lines.push(...more),
    state: (state: SourceState) => states.push(state.is),
  };
  const done = read(of, options, reader, stop.signal, line);
  const said = () => lines.map((one) => one.split(" ")[1]);
  return { asked, lines, said, states, done, stop, line };
};
const never = () => new Promise<Response>(() => {});

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

  it("follows over the live line, whatever a piece is cut at", async () => {
    const run = start(never);
    expect(run.line.last.path).toContain("follow=true");
    run.line.last.listener.open();
    run.line.says("2026-01-01T00:00:01Z a\n2026-01-01T00:00:01Z ");
    const bytes = new TextEncoder().encode("日\n");
    run.line.last.listener.text(bytes.slice(0, 2));
    run.line.last.listener.text(bytes.slice(2));
    expect(run.said()).toEqual(["a", "日"]);
    expect(run.states).toEqual(["reading", "following"]);
    run.line.last.listener.over({ is: "ended" });
    await run.done;
    expect(run.states.at(-1)).toBe("ended");
    expect(run.asked).toEqual([]);
  });

  it("goes on where it was after the line was cut, showing no line twice and losing none", async () => {
    const run = start(never);
    run.line.says("2026-01-01T00:00:01.1Z a\n2026-01-01T00:00:01.2Z b\n2026-01-01T00:00:01.3Z ha");
    run.line.last.listener.over({ is: "cut" });
    await vi.advanceTimersByTimeAsync(2_500);
    expect(run.line.logs).toHaveLength(2);
    expect(run.line.last.path).toContain("sinceTime=2026-01-01T00%3A00%3A01.2Z");
    expect(run.line.last.path).not.toContain("tailLines");
    run.line.says("2026-01-01T00:00:01.1Z a\n2026-01-01T00:00:01.2Z b\n2026-01-01T00:00:01.3Z half\n");
    expect(run.said()).toEqual(["a", "b", "half"]);
  });

  it("asks again and again while there is no line, and moves to the line when it is back", async () => {
    const answers = ["2026-01-01T00:00:01.1Z a\n", "2026-01-01T00:00:01.1Z a\n2026-01-01T00:00:01.3Z c\n"];
    const run = start(() => body(answers.shift() ?? ""));
    run.line.last.listener.over({ is: "cut" });
    run.line.liveness.set({ state: "stale", since: 0 });
    await vi.advanceTimersByTimeAsync(4_500);
    expect(run.asked[0]).not.toContain("follow");
    expect(run.asked[1]).toContain("sinceTime=2026-01-01T00%3A00%3A01.1Z");
    expect(run.said()).toEqual(["a", "c"]);
    run.line.liveness.set({ state: "live" });
    await vi.advanceTimersByTimeAsync(2_500);
    expect(run.line.logs).toHaveLength(2);
  });

  it("is asked for by the clock when the server has no room for one more", async () => {
    const run = start(() => body("2026-01-01T00:00:01.1Z a\n"));
    run.line.last.listener.over({ is: "failed", code: 429, reason: "TooManyRequests", message: "full" });
    await vi.advanceTimersByTimeAsync(2_500);
    expect([run.line.logs.length, run.asked.length]).toEqual([1, 1]);
    expect(run.said()).toEqual(["a"]);
  });

  it("says why a log cannot be read, and asks again only where that can help", async () => {
    const run = start(() => refused(403));
    run.line.last.listener.over({ is: "failed", code: 403, reason: "Forbidden", message: "no longer" });
    await run.done;
    expect(run.states).toEqual(["reading", "failed"]);
    const away = start(() => refused(503));
    away.line.last.listener.over({ is: "failed", code: 503, reason: "ClusterUnreachable", message: "away" });
    await vi.advanceTimersByTimeAsync(2_500);
    expect(away.line.logs).toHaveLength(2);
    away.line.last.listener.open();
    expect(away.states).toEqual(["reading", "failed", "following"]);
  });

  it("stops reading when nobody looks any more", async () => {
    const run = start(never);
    run.stop.abort();
    await run.done;
    expect(run.line.last.stopped).toBe(true);
  });
});
