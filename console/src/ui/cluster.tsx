// How a member is, in the words of the state machine.
import type { ClusterRow } from "../api/types";
import { useText } from "../i18n";
import { Status, type Tone } from "./basics";

const tones: Record<string, Tone> = { Running: "good", Connecting: "busy", Unreachable: "bad" };

export function ClusterStatus({ cluster }: { cluster: Pick<ClusterRow, "state" | "error"> }) {
  const t = useText();
  const words: Record<string, string> = t.states;
  return (
    <Status tone={tones[cluster.state] ?? "busy"} word={words[cluster.state] ?? cluster.state} why={cluster.error} />
  );
}
