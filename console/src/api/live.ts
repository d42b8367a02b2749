// One WebSocket per tab. The server says which list or object has changed; the page fetches again what it shows.
import { store } from "../lib/store";
import { socketUrl, ticket } from "./client";

export type Liveness = { state: "off" | "connecting" | "live" } | { state: "stale"; since: number };

interface Notice {
  id?: string;
  event: "changed" | "denied" | "gone" | "ping";
  message?: string;
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
}

const browser: Wires = {
  async open() {
    const proof = await ticket();
    const socket = new WebSocket(socketUrl("/wapi/v1/stream"));
    socket.addEventListener("open", () => socket.send(JSON.stringify({ ticket: proof })));
    return socket;
  },
  now: () => Date.now(),
};

/** The server pings every 15 s; silence for longer than this means that the line is dead. */
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

export class Live {
  readonly liveness = store<Liveness>({ state: "off" });
  private readonly byPath = new Map<string, Subscription>();
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
    void this.connect();
  }

  stop(): void {
    this.wanted = false;
    this.era += 1;
    clearTimeout(this.timer);
    clearInterval(this.watchdog);
    this.socket?.close();
    this.socket = null;
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
    if (socket !== this.socket || typeof data !== "string") return;
    this.lastHeard = this.wires.now();
    let notice: Notice;
    try {
      notice = JSON.parse(data) as Notice;
    } catch {
      return;
    }
    if (notice.event === "ping" || !notice.id) return;
    for (const entry of this.byPath.values()) {
      if (entry.id === notice.id) this.tell(entry, notice.event, notice.message);
    }
  }

  private tell(entry: Subscription, event: "changed" | "denied" | "gone", message?: string): void {
    for (const listener of entry.listeners) listener(event, message);
  }

  private closed(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.socket = null;
    if (this.wanted) this.retry();
  }

  private retry(): void {
    if (this.liveness.get().state !== "stale") this.liveness.set({ state: "stale", since: this.wires.now() });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.connect(), this.pause * (0.75 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
  }

  private checkSilence(): void {
    const quiet = this.wires.now() - this.lastHeard;
    if (this.socket?.readyState !== 1 || quiet < SILENCE_MS) return;
    const dead = this.socket;
    this.socket = null;
    dead.close();
    this.retry();
  }

  private send(message: object): void {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(message));
  }
}

export const live = new Live();
