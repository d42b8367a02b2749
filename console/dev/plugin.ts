// Puts the FAKE server behind `npm run dev` and `vite preview`. Its WebSockets speak just enough: logs, and an echoing shell.
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Connect, Plugin, PreviewServer, ViteDevServer } from "vite";
import { type Answer, Fake } from "./fake.ts";

const FACES = /^\/(api|apis|apiext|wapi)\//;

export function fakeServer(): Plugin {
  const fake = new Fake();
  const attach = (server: ViteDevServer | PreviewServer) => {
    server.middlewares.use((request, response, next) => serve(fake, request, response, next));
    server.httpServer?.on("upgrade", (request: IncomingMessage, socket: Duplex) => {
      if (FACES.test(request.url ?? "")) talk(fake, request, socket);
    });
  };
  return { name: "muster-fake-server", configureServer: attach, configurePreviewServer: attach };
}

function serve(fake: Fake, request: IncomingMessage, response: ServerResponse, next: Connect.NextFunction): void {
  const url = new URL(request.url ?? "/", "http://fake");
  if (!FACES.test(url.pathname)) {
    next();
    return;
  }
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const asked = {
      method: request.method ?? "GET",
      path: url.pathname,
      query: url.searchParams,
      body: Buffer.concat(chunks).toString(),
      cookie: (request.headers.cookie ?? "").includes("muster_session=fake"),
    };
    send(response, fake.answer(asked));
  });
}

function send(response: ServerResponse, answer: Answer): void {
  response.statusCode = answer.status;
  response.setHeader("x-request-id", "fake-0001");
  if (answer.login === true) response.setHeader("set-cookie", "muster_session=fake; HttpOnly; SameSite=Strict; Path=/");
  if (answer.login === false) response.setHeader("set-cookie", "muster_session=; Max-Age=0; Path=/");
  if (answer.body === undefined) response.end();
  else if (typeof answer.body === "string") {
    response.setHeader("content-type", "text/plain; charset=utf-8");
    response.end(answer.body);
  } else {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(answer.body));
  }
}

const MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

function talk(fake: Fake, request: IncomingMessage, socket: Duplex): void {
  const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}${MAGIC}`).digest("base64");
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
  const isShell = (request.url ?? "").includes("/terminal");
  const write = (opcode: number, payload: Buffer) => {
    const head =
      payload.length < 126
        ? Buffer.from([0x80 | opcode, payload.length])
        : Buffer.from([0x80 | opcode, 126, payload.length >> 8, payload.length & 255]);
    if (!socket.destroyed) socket.write(Buffer.concat([head, payload]));
  };
  const say = (text: string) => write(2, Buffer.concat([Buffer.from([1]), Buffer.from(text)]));
  const readLog = (message: string) => {
    const { follow } = JSON.parse(message) as { follow?: { id: string; path: string } };
    if (!follow) return;
    const url = new URL(follow.path, "http://fake");
    const asked = { method: "GET", path: url.pathname, query: url.searchParams, body: "", cookie: true };
    const text = Buffer.from(String(fake.answer(asked).body));
    write(1, Buffer.from(JSON.stringify({ id: follow.id, event: "open" })));
    const head = Buffer.from(`${String.fromCharCode(follow.id.length)}${follow.id}`);
    for (let at = 0; at < text.length; at += 30_000) write(2, Buffer.concat([head, text.subarray(at, at + 30_000)]));
  };
  const ping = setInterval(() => !isShell && write(1, Buffer.from(JSON.stringify({ event: "ping" }))), 15_000);
  let kept = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    kept = Buffer.concat([kept, chunk]);
    for (;;) {
      const message = unframe(kept);
      if (!message) return;
      kept = kept.subarray(message.size);
      if (message.opcode === 8) return void socket.end();
      if (message.opcode === 1 && isShell) say("$ ");
      if (message.opcode === 1 && !isShell) readLog(message.payload.toString());
      if (message.opcode === 2 && isShell && message.payload[0] === 0) {
        const typed = message.payload.subarray(1).toString();
        say(typed === "\r" ? "\r\n$ " : typed);
      }
    }
  });
  const end = () => clearInterval(ping);
  socket.on("close", end);
  socket.on("error", end);
}

/** One masked frame off the front of what came, if it is whole. */
function unframe(data: Buffer): { opcode: number; payload: Buffer; size: number } | null {
  if (data.length < 6) return null;
  const opcode = (data[0] ?? 0) & 15;
  let length = (data[1] ?? 0) & 127;
  let at = 2;
  if (length === 126) {
    length = data.readUInt16BE(2);
    at = 4;
  }
  if (data.length < at + 4 + length) return null;
  const mask = data.subarray(at, at + 4);
  const payload = Buffer.from(data.subarray(at + 4, at + 4 + length).map((byte, n) => byte ^ (mask[n % 4] ?? 0)));
  return { opcode, payload, size: at + 4 + length };
}
