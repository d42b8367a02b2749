// Musters of the tests' own: each a process, a folder and ports that nobody else has. MUSTER_BIN names another binary.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { createConnection, createServer, type Server as Listener, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const BINARY = process.env.MUSTER_BIN ?? new URL("../../target/debug/muster", import.meta.url).pathname;
const PATIENCE_MS = 90_000;

export async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((done) => probe.listen(0, "127.0.0.1", done));
  const address = probe.address();
  await new Promise((done) => probe.close(done));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** A child that says when it is ready, and dies with the tests. */
class Program {
  said = "";
  private child: ChildProcess | null = null;

  constructor(
    private readonly words: string[],
    private readonly folder: string,
  ) {}

  async start(ready: RegExp): Promise<void> {
    const from = this.said.length;
    const child = spawn(BINARY, this.words, {
      env: { ...process.env, HOME: this.folder, MUSTER_DATA_DIR: join(this.folder, "data") },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    process.once("exit", () => child.kill("SIGKILL"));
    await new Promise<void>((done, fail) => {
      const why = (what: string) =>
        fail(new Error(`muster ${this.words.join(" ")} ${what}:\n${this.said.slice(from)}`));
      const timer = setTimeout(() => why("is not ready"), PATIENCE_MS);
      const hear = (chunk: Buffer) => {
        this.said += chunk;
        appendFileSync(join(this.folder, "log"), chunk);
        if (!ready.test(this.said.slice(from))) return;
        clearTimeout(timer);
        done();
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      child.once("error", (error) => why(`cannot start (${error.message})`));
      child.once("exit", (code) => why(`ended with ${code}`));
    });
  }

  get id(): number {
    return this.child?.pid ?? 0;
  }

  /** Stops it in the middle of whatever it does, or lets it go on. */
  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.child?.kill(signal);
  }

  async end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const child = this.child;
    this.child = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((done) => child.once("exit", done));
    child.kill(signal);
    const late = setTimeout(() => child.kill("SIGKILL"), 30_000);
    await gone;
    clearTimeout(late);
  }
}

const newFolder = () => mkdtempSync(join(tmpdir(), "muster-browser-"));

/** `muster up`. */
export class Server {
  readonly folder = newFolder();
  url = "";
  private program: Program | null = null;

  static async start(...flags: string[]): Promise<Server> {
    if (!existsSync(BINARY)) throw new Error(`there is no ${BINARY}: run cargo build -p muster, or set MUSTER_BIN`);
    const server = new Server();
    const [port, secure] = [await freePort(), await freePort()];
    server.url = `http://127.0.0.1:${port}`;
    server.program = new Program(
      [
        "up",
        `--data-dir=${join(server.folder, "data")}`,
        `--bind=127.0.0.1:${port}`,
        `--secure-port=${secure}`,
        "--metrics-bind-address=0",
        "--health-bind-address=0",
        ...flags,
      ],
      server.folder,
    );
    await server.again();
    return server;
  }

  /** The same folder and ports, after it was killed. */
  async again(): Promise<void> {
    await this.program?.start(/, ready in /);
  }

  kill = async () => this.program?.end("SIGKILL");

  async stop(): Promise<void> {
    await this.program?.end("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Of its process. */
  get id(): number {
    return this.program?.id ?? 0;
  }

  /** The link that makes the first administrator. */
  get setupLink(): string {
    return /http:\S+\/setup#t=\S+/.exec(this.program?.said ?? "")?.[0] ?? "";
  }

  /** A command of muster on this server. */
  async command(...words: string[]): Promise<string> {
    const env = { ...process.env, HOME: this.folder, MUSTER_DATA_DIR: join(this.folder, "data") };
    return (await promisify(execFile)(BINARY, words, { env, timeout: PATIENCE_MS, maxBuffer: 64 << 20 })).stdout;
  }
}

/** `muster simulate`: clusters to import. */
export class Simulated {
  readonly folder = newFolder();
  private program: Program | null = null;

  static async start(members: number, nodes: number, ...flags: string[]): Promise<Simulated> {
    const some = new Simulated();
    const place = ["--port=0", `--data-dir=${join(some.folder, "data")}`];
    some.program = new Program(
      ["simulate", `--members=${members}`, `--nodes=${nodes}`, ...place, ...flags],
      some.folder,
    );
    await some.program.start(/simulated clusters; try/);
    // It says so beside its list of them: either may come first.
    const until = Date.now() + PATIENCE_MS;
    while (some.members.length < members) {
      if (Date.now() > until) throw new Error("not all simulated clusters were named");
      await new Promise((done) => setTimeout(done, 20));
    }
    return some;
  }

  /** Names and kubeconfigs. */
  get members(): { name: string; kubeconfig: string }[] {
    const lines = (this.program?.said ?? "").split("\n").map((line) => line.split("\t"));
    return lines.flatMap(([name, , kubeconfig]) => (name && kubeconfig ? [{ name, kubeconfig }] : []));
  }

  /** They answer nobody any more, as machines that lost their power or their network. */
  freeze = () => this.program?.signal("SIGSTOP");
  thaw = () => this.program?.signal("SIGCONT");

  async stop(): Promise<void> {
    this.thaw();
    await this.program?.end("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A wire to a server that can be cut: what a browser's network does. */
export class Wire {
  url = "";
  private readonly sockets = new Set<Socket>();
  private listener: Listener | null = null;

  static async to(server: Server): Promise<Wire> {
    const wire = new Wire();
    const target = Number(new URL(server.url).port);
    wire.listener = createServer((near) => {
      const far = createConnection(target, "127.0.0.1");
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        wire.sockets.add(one);
        one.on("error", () => other.destroy());
        one.on("close", () => {
          wire.sockets.delete(one);
          other.destroy();
        });
      }
      near.pipe(far).pipe(near);
    });
    await new Promise<void>((done) => wire.listener?.listen(0, "127.0.0.1", done));
    const address = wire.listener.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    wire.url = `http://127.0.0.1:${address.port}`;
    return wire;
  }

  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    await new Promise((done) => this.listener?.close(done));
  }
}
