import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Live, type LogListener } from "./live";

class Socket extends EventTarget {
  readyState = 0;
  sent: string[] = [];
  send(text: string) {
    this.sent.push(text);
  }
  close() {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.dispatchEvent(new Event("close"));
  }
  open() {
    this.readyState = 1;
    this.dispatchEvent(new Event("open"));
  }
  says(notice: object) {
    this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(notice) }));
  }
  reads(id: string, text: string) {
    const bytes = new TextEncoder().encode(`${String.fromCharCode(id.length)}${id}${text}`);
    this.dispatchEvent(new MessageEvent("message", { data: bytes.buffer }));
  }
}

const flush = async () => {
  await vi.advanceTimersByTimeAsync(0);
};

describe("the live line", () => {
  let sockets: Socket[];
  let line: Live;
  const last = () => sockets[sockets.length - 1] as Socket;

  beforeEach(() => {
    vi.useFakeTimers();
    sockets = [];
    line = new Live({
      open: async () => {
        const socket = new Socket();
        sockets.push(socket);
        return socket as unknown as WebSocket;
      },
      now: () => Date.now(),
    });
  });
  afterEach(() => {
    line.stop();
    vi.useRealTimers();
  });

  it("subscribes once for two readers of a path and tells both", async () => {
    line.start();
    await flush();
    last().open();
    const heard: string[] = [];
    line.subscribe("/a", (event) => heard.push(`one ${event}`));
    line.subscribe("/a", (event) => heard.push(`two ${event}`));
    expect(last().sent.map((text) => JSON.parse(text))).toEqual([{ subscribe: { id: "s1", path: "/a" } }]);
    last().says({ id: "s1", event: "changed" });
    expect(heard).toEqual(["one changed", "two changed"]);
  });

  it("unsubscribes with the last reader", async () => {
    line.start();
    await flush();
    last().open();
    const first = line.subscribe("/a", () => {});
    const second = line.subscribe("/a", () => {});
    first();
    expect(last().sent).toHaveLength(1);
    second();
    expect(JSON.parse(last().sent[1] as string)).toEqual({ unsubscribe: "s1" });
  });

  it("says since when it is stale, comes back by itself and has everything fetched again", async () => {
    line.start();
    await flush();
    last().open();
    expect(line.liveness.get()).toEqual({ state: "live" });
    const heard: string[] = [];
    line.subscribe("/a", (event) => heard.push(event));
    const then = Date.now();
    last().close();
    expect(line.liveness.get()).toEqual({ state: "stale", since: then });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sockets).toHaveLength(2);
    last().open();
    expect(line.liveness.get()).toEqual({ state: "live" });
    expect(last().sent.map((text) => JSON.parse(text))).toEqual([{ subscribe: { id: "s1", path: "/a" } }]);
    expect(heard).toEqual(["changed"]);
  });

  it("gives up a line that has been silent for too long", async () => {
    line.start();
    await flush();
    last().open();
    await vi.advanceTimersByTimeAsync(30_000);
    last().says({ event: "ping" });
    await vi.advanceTimersByTimeAsync(30_000);
    expect(line.liveness.get().state).toBe("live");
    await vi.advanceTimersByTimeAsync(20_000);
    expect(sockets.length).toBeGreaterThan(1);
  });

  it("notices at once after an hour of sleep that the line is dead, and looks at everything again", async () => {
    // F-20
    const wake = new EventTarget();
    let [now, slept] = [0, [] as Socket[]];
    line = new Live({
      open: async () => {
        const socket = new Socket();
        slept.push(socket);
        return socket as unknown as WebSocket;
      },
      now: () => now,
      wakes: () => [[wake, "resume"]],
    });
    line.start();
    await flush();
    slept[0]?.open();
    const heard: string[] = [];
    line.subscribe("/a", (event) => heard.push(event));
    wake.dispatchEvent(new Event("resume"));
    expect(slept, "a line that is well is left alone").toHaveLength(1);
    // While the tab slept no timer ran: only the clock went on.
    now += 3_600_000;
    wake.dispatchEvent(new Event("resume"));
    expect(line.liveness.get().state).toBe("stale");
    await vi.advanceTimersByTimeAsync(500);
    expect(slept).toHaveLength(2);
    slept[1]?.open();
    expect(line.liveness.get()).toEqual({ state: "live" });
    expect(heard).toEqual(["changed"]);
    line.stop();
    now += 3_600_000;
    wake.dispatchEvent(new Event("resume"));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(slept).toHaveLength(2);
  });

  const listener = (heard: string[]): LogListener => ({
    open: () => heard.push("open"),
    text: (bytes) => heard.push(new TextDecoder().decode(bytes)),
    over: (how) => heard.push(how.is),
  });

  it("reads several logs at once, and says how much of each has arrived", async () => {
    line.start();
    await flush();
    last().open();
    const [one, two]: [string[], string[]] = [[], []];
    line.follow("/one", listener(one));
    const stop = line.follow("/two", listener(two));
    expect(last().sent.map((text) => JSON.parse(text))).toEqual([
      { follow: { id: "l1", path: "/one" } },
      { follow: { id: "l2", path: "/two" } },
    ]);
    last().says({ id: "l1", event: "open" });
    last().reads("l1", "a\n");
    last().reads("l2", "x".repeat(40_000));
    last().reads("l2", "y".repeat(40_000));
    last().reads("l2", "z");
    expect(
      last()
        .sent.slice(2)
        .map((text) => JSON.parse(text)),
    ).toEqual([{ took: { id: "l2", bytes: 80_000 } }]);
    stop();
    last().reads("l2", "late");
    last().says({ id: "l1", event: "failed", code: 403, reason: "Forbidden", message: "no longer" });
    last().reads("l1", "late");
    expect(one).toEqual(["open", "a\n", "failed"]);
    expect(two).toHaveLength(3);
    expect(JSON.parse(last().sent[3] as string)).toEqual({ unsubscribe: "l2" });
  });

  it("tells every log when the line is cut, and one that begins without a line", async () => {
    line.start();
    await flush();
    const heard: string[] = [];
    line.follow("/early", listener(heard));
    await flush();
    expect(heard).toEqual(["cut"]);
    last().open();
    line.follow("/a", listener(heard));
    line.follow("/b", listener(heard));
    last().close();
    expect(heard).toEqual(["cut", "cut", "cut"]);
  });

  it("waits longer and longer, and does not connect after it was stopped", async () => {
    line = new Live({
      open: async () => {
        sockets.push(new Socket());
        throw new Error("no");
      },
      now: () => Date.now(),
    });
    line.start();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sockets.length).toBeGreaterThan(4);
    expect(sockets.length).toBeLessThan(15);
    line.stop();
    const before = sockets.length;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sockets).toHaveLength(before);
  });
});
