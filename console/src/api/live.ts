// One WebSocket per tab. The server says which list or object has changed, and the page fetches again what it shows; logs that are followed
// come over it, too, as a browser has only six connections to a host.
import { store } from "../lib/store";
import { socketUrl, ticket } from "./client";

export type Liveness = { state: "off" | "connecting" | "live" } | { state: "stale"; since: number };

interface Notice {
  id?: string;
  event: "changed" | "denied" | "gone" | "ping" | "open" | "ended" | "failed";
  message?: string;
  code?: number;
  reason?: string;
}

/** How a log ended: there is no more of it, it may not or cannot be read, or the line was cut. */
export type LogEnd = { is: "ended" } | { is: "failed"; code: number; reason: string; message: string } | { is: "cut" };

export interface LogListener {
  open(): void;
  text(bytes: Uint8Array): void;
  /** Said once; nothing comes after it. */
  over(how: LogEnd): void;
}

interface Log {
  listener: LogListener;
  /** Bytes that arrived, and how many of them the server knows of. */
  taken: number;
  told: number;
}

type Listener = (event: "changed" | "denied" | "gone", message?: string) => void;

interface Subscription {
  id: string;
  path: string;
  listeners: Set<Listener>;
}

export interface Wires {
  open(): Promise<WebSocket>;
  now(): number;
  /** What says that the tab, or the machine, was asleep or off the net and is back. */
  wakes?(): readonly (readonly [EventTarget, string])[];
  /** Whether nobody looks: then there is time. */
  isHidden?(): boolean;
}

const browser: Wires = {
  async open() {
    const proof = await ticket();
    const socket = new WebSocket(socketUrl("/wapi/v1/stream"));
    socket.addEventListener("open", () => socket.send(JSON.stringify({ ticket: proof })));
    return socket;
  },
  now: () => Date.now(),
  wakes: () => [
    [window, "online"],
    [window, "pageshow"],
    [document, "visibilitychange"],
    [document, "resume"],
  ],
  isHidden: () => document.visibilityState === "hidden",
};

/** The server pings every 15 s; silence for longer than this means that the line is dead. */
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** The server sends 256 KiB of a log ahead of what it knows to have arrived. */
const TELL_EVERY = 64 * 1024;

export class Live {
  readonly liveness = store<Liveness>({ state: "off" });
  private readonly byPath = new Map<string, Subscription>();
  private readonly logs = new Map<string, Log>();
  private socket: WebSocket | null = null;
  private wanted = false;
  private pause = FIRST_PAUSE_MS;
  private lastHeard = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setInterval> | undefined;
  private next = 0;
  /** Grows with every start and stop, so that a late answer of an earlier one is thrown away. */
  private era = 0;

  constructor(private readonly wires: Wires = browser) {}

  start(): void {
    if (this.wanted) return;
    this.wanted = true;
    this.era += 1;
    this.watchdog = setInterval(() => this.checkSilence(), 5_000);
    for (const [target, event] of this.wires.wakes?.() ?? []) target.addEventListener(event, this.woken);
    void this.connect();
  }

  stop(): void {
    this.wanted = false;
    this.era += 1;
    clearTimeout(this.timer);
    clearInterval(this.watchdog);
    for (const [target, event] of this.wires.wakes?.() ?? []) target.removeEventListener(event, this.woken);
    this.socket?.close();
    this.socket = null;
    this.cutLogs();
    this.liveness.set({ state: "off" });
  }

  /** Listens to changes of a list or object. Gives back how to stop. */
  subscribe(path: string, listener: Listener): () => void {
    let entry = this.byPath.get(path);
    if (!entry) {
      this.next += 1;
      entry = { id: `s${this.next}`, path, listeners: new Set() };
      this.byPath.set(path, entry);
      this.send({ subscribe: { id: entry.id, path } });
    }
    const subscription = entry;
    subscription.listeners.add(listener);
    return () => {
      subscription.listeners.delete(listener);
      if (subscription.listeners.size > 0 || this.byPath.get(path) !== subscription) return;
      this.byPath.delete(path);
      this.send({ unsubscribe: subscription.id });
    };
  }

  /** Reads a log until it ends or the line is cut. Gives back how to stop. */
  follow(path: string, listener: LogListener): () => void {
    this.next += 1;
    const id = `l${this.next}`;
    this.logs.set(id, { listener, taken: 0, told: 0 });
    if (this.socket?.readyState === 1) this.send({ follow: { id, path } });
    else queueMicrotask(() => this.endLog(id, { is: "cut" }));
    return () => {
      if (this.logs.delete(id)) this.send({ unsubscribe: id });
    };
  }

  private endLog(id: string, how: LogEnd): void {
    const log = this.logs.get(id);
    this.logs.delete(id);
    log?.listener.over(how);
  }

  private cutLogs(): void {
    for (const id of [...this.logs.keys()]) this.endLog(id, { is: "cut" });
  }

  /** A piece of a log: a byte with the length of the id, the id, the text. */
  private take(frame: Uint8Array): void {
    const start = 1 + (frame[0] ?? 0);
    const id = new TextDecoder().decode(frame.subarray(1, start));
    const log = this.logs.get(id);
    if (!log) return;
    log.listener.text(frame.subarray(start));
    log.taken += frame.length - start;
    if (log.taken - log.told < TELL_EVERY) return;
    log.told = log.taken;
    this.send({ took: { id, bytes: log.taken } });
  }

  private async connect(): Promise<void> {
    const era = this.era;
    if (this.liveness.get().state === "off") this.liveness.set({ state: "connecting" });
    let socket: WebSocket;
    try {
      socket = await this.wires.open();
    } catch {
      if (era === this.era) this.retry();
      return;
    }
    if (era !== this.era) {
      socket.close();
      return;
    }
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => this.opened(socket));
    socket.addEventListener("message", (message: MessageEvent) => this.heard(socket, message.data));
    socket.addEventListener("close", () => this.closed(socket));
  }

  private opened(socket: WebSocket): void {
    if (socket !== this.socket) return;
    const again = this.liveness.get().state === "stale";
    this.pause = FIRST_PAUSE_MS;
    this.lastHeard = this.wires.now();
    this.liveness.set({ state: "live" });
    for (const { id, path } of this.byPath.values()) this.send({ subscribe: { id, path } });
    // What changed while nobody listened is unknown: look at everything once.
    if (again) for (const entry of this.byPath.values()) this.tell(entry, "changed");
  }

  private heard(socket: WebSocket, data: unknown): void {
    if (socket !== this.socket) return;
    this.lastHeard = this.wires.now();
    if (data instanceof ArrayBuffer) this.take(new Uint8Array(data));
    if (typeof data !== "string") return;
    let notice: Notice;
    try {
      notice = JSON.parse(data) as Notice;
    } catch {
      return;
    }
    const { id, event, message = "" } = notice;
    if (event === "ping" || !id) return;
    if (event === "open") this.logs.get(id)?.listener.open();
    else if (event === "ended") this.endLog(id, { is: "ended" });
    else if (event === "failed")
      this.endLog(id, { is: "failed", code: notice.code ?? 0, reason: notice.reason ?? "Unknown", message });
    else for (const entry of this.byPath.values()) if (entry.id === id) this.tell(entry, event, message);
  }

  private tell(entry: Subscription, event: "changed" | "denied" | "gone", message?: string): void {
    for (const listener of entry.listeners) listener(event, message);
  }

  private closed(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.socket = null;
    this.cutLogs();
    if (this.wanted) this.retry();
  }

  private retry(): void {
    if (this.liveness.get().state !== "stale") this.liveness.set({ state: "stale", since: this.wires.now() });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.connect(), this.pause * (0.75 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
  }

  /** Back from a sleep: a line that died meanwhile is noticed now, and one that is waited for is tried now. */
  private readonly woken = (): void => {
    if (!this.wanted || this.wires.isHidden?.()) return;
    this.checkSilence();
    if (this.socket || this.liveness.get().state !== "stale") return;
    this.pause = FIRST_PAUSE_MS;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.connect(), Math.random() * FIRST_PAUSE_MS);
  };

  private checkSilence(): void {
    const quiet = this.wires.now() - this.lastHeard;
    if (this.socket?.readyState !== 1 || quiet < SILENCE_MS) return;
    const dead = this.socket;
    this.socket = null;
    dead.close();
    this.cutLogs();
    this.retry();
  }

  private send(message: object): void {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(message));
  }
}

export const live = new Live();
