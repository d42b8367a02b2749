// The command that does the same as a click: for learning, scripts and tickets. Words are quoted for a POSIX shell.
import type { ObjectRef, PodRef } from "../api/paths";

const PLAIN = /^[A-Za-z0-9_./:=@%+,-]+$/;
export const quote = (word: string): string => (PLAIN.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);
const line = (...words: (string | false | undefined)[]): string =>
  words
    .filter((word): word is string => typeof word === "string" && word !== "")
    .map(quote)
    .join(" ");

export interface LogWish {
  container?: string;
  previous?: boolean;
  follow?: boolean;
  sinceSeconds?: number;
  tailLines?: number;
  timestamps?: boolean;
}

export function logCommand(program: "muster" | "kubectl", pod: PodRef, wish: LogWish): string {
  const muster = program === "muster";
  return line(
    program,
    "logs",
    pod.name,
    "-n",
    pod.namespace,
    ...(muster ? ["--cluster", pod.cluster] : ["--context", pod.cluster]),
    ...(wish.container ? ["-c", wish.container] : []),
    wish.follow && "-f",
    wish.previous && "-p",
    wish.sinceSeconds !== undefined && `--since=${wish.sinceSeconds}s`,
    wish.tailLines !== undefined && `--tail=${wish.tailLines}`,
    wish.timestamps && "--timestamps",
  );
}

export function shellCommand(program: "muster" | "kubectl", pod: PodRef, container: string): string {
  return program === "muster"
    ? line("muster", "terminal", pod.name, "-n", pod.namespace, "--cluster", pod.cluster, "-c", container)
    : line(
        "kubectl",
        "exec",
        "-it",
        pod.name,
        "-n",
        pod.namespace,
        "--context",
        pod.cluster,
        "-c",
        container,
        "--",
        "sh",
      );
}

export function getCommand(ref: ObjectRef): string {
  const kind = ref.group ? `${ref.plural}.${ref.group}` : ref.plural;
  const where = ref.namespace ? ["-n", ref.namespace] : [];
  return line("kubectl", "get", kind, ref.name, ...where, "--context", ref.cluster, "-o", "yaml");
}

export const deleteCommand = (ref: ObjectRef): string => {
  const kind = ref.group ? `${ref.plural}.${ref.group}` : ref.plural;
  return line(
    "kubectl",
    "delete",
    kind,
    ref.name,
    ...(ref.namespace ? ["-n", ref.namespace] : []),
    "--context",
    ref.cluster,
  );
};

export const importCommand = (name: string): string =>
  line("muster", "cluster", "import", name || "NAME", "--kubeconfig", "FILE");
