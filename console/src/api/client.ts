// Calls to the gateway: one door that adds the CSRF proof, reads refusals and notices the end of the session.
import type { RefusalBody, Session } from "./types";

/** A refusal, or no answer at all (`code` 0). `message` says what failed and why. */
export class Refusal extends Error {
  constructor(
    readonly code: number,
    readonly reason: string,
    message: string,
    readonly details: Record<string, unknown> = {},
    readonly requestId: string | null = null,
    /** What was asked, for the bug report: "GET /api/cluster/all". */
    readonly asked = "",
  ) {
    super(message);
    this.name = "Refusal";
  }
}

let csrf = "";
let onSessionEnd: (refusal: Refusal) => void = () => {};

export const setCsrf = (value: string) => {
  csrf = value;
};

/** Called when an answer says that nobody is logged in (any more). */
export const whenSessionEnds = (then: (refusal: Refusal) => void) => {
  onSessionEnd = then;
};

export interface Ask {
  method?: "GET" | "POST" | "PUT" | "DELETE" | "PATCH";
  /** An object is sent as JSON, a string as YAML. */
  body?: object | string;
  signal?: AbortSignal;
  /** A GET that does something (exec) needs the proof as well. */
  proof?: boolean;
  /** Answers that say 401 are the caller's business (login, the first look at the session). */
  quiet401?: boolean;
}

const PATIENCE_MS = 30_000;

/** Sends a request and gives back its successful answer; everything else is a `Refusal`. */
export async function ask(path: string, options: Ask = {}): Promise<Response> {
  const method = options.method ?? "GET";
  const headers: Record<string, string> = { accept: "application/json" };
  if (method !== "GET" || options.proof) headers["x-muster-csrf"] = csrf;
  if (options.body !== undefined) {
    headers["content-type"] = typeof options.body === "string" ? "application/yaml" : "application/json";
  }
  const asked = `${method} ${path}`;
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers,
      credentials: "same-origin",
      ...(options.body !== undefined && {
        body: typeof options.body === "string" ? options.body : JSON.stringify(options.body),
      }),
      ...(options.signal && { signal: options.signal }),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    const timeout = error instanceof DOMException && error.name === "TimeoutError";
    throw new Refusal(0, timeout ? "Timeout" : "Unreachable", String(error), {}, null, asked);
  }
  if (answer.ok) return answer;
  const refusal = await readRefusal(answer, asked);
  if (refusal.code === 401 && !options.quiet401) onSessionEnd(refusal);
  throw refusal;
}

async function readRefusal(answer: Response, asked: string): Promise<Refusal> {
  const requestId = answer.headers.get("x-request-id");
  let body: Partial<RefusalBody> = {};
  try {
    body = (await answer.json()) as Partial<RefusalBody>;
  } catch {
    // Not ours: a proxy in between, say.
  }
  const message = body.message ?? `${answer.status} ${answer.statusText}`;
  return new Refusal(answer.status, body.reason ?? "Unknown", message, body.details ?? {}, requestId, asked);
}

export async function askJson<T>(path: string, options: Ask = {}): Promise<T> {
  const limit = AbortSignal.timeout(PATIENCE_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  const answer = await ask(path, { ...options, signal });
  if (answer.status === 204) return undefined as T;
  return (await answer.json()) as T;
}

export const get = <T>(path: string, signal?: AbortSignal) => askJson<T>(path, signal ? { signal } : {});
export const post = <T>(path: string, body: object = {}) => askJson<T>(path, { method: "POST", body });

/** The one WebSocket address form: same host, ws for http and wss for https. */
export const socketUrl = (path: string) => {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return `${scheme}//${location.host}${path}`;
};

export const ticket = async () => (await post<{ ticket: string }>("/wapi/v1/ticket")).ticket;

export const session = () => askJson<Session>("/wapi/v1/session", { quiet401: true });
export const login = (user: string, password: string) =>
  askJson<Session>("/wapi/v1/login", { method: "POST", body: { user, password }, quiet401: true });
export const setup = (token: string, user: string, password: string) =>
  askJson<Session>("/wapi/v1/setup", { method: "POST", body: { token, user, password }, quiet401: true });
export const logout = () => post<void>("/wapi/v1/logout");
export const changePassword = (old: string, next: string) => post<void>("/wapi/v1/password", { old, new: next });
