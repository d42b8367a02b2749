// What a pod is in one line: how many containers are ready, how often they started again, and why it is not well.
import type { FlatRow, Json } from "./types";

export interface PodFacts {
  cluster: string;
  namespace: string;
  name: string;
  ready: string;
  restarts: number;
  /** Running, CrashLoopBackOff, Completed, Terminating…: the word kubectl shows. */
  word: string;
  well: "good" | "busy" | "bad" | "done";
  why: string;
  node: string;
  ip: string;
  created: string;
  containers: string[];
  labels: Record<string, string>;
  owner: string;
}

/** Fields of a list of pods that `podFacts` needs; lists carry no more than this. */
export const POD_FIELDS =
  "cluster,name,namespace,created,deleting,phase,labels,owner,spec.nodeName,status.podIP,status.reason,status.message,status.containerStatuses,status.initContainerStatuses";

export type Fields = { [key: string]: Json | undefined };
export const asFields = (value: Json | undefined): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
export const asList = (value: Json | undefined): Json[] => (Array.isArray(value) ? value : []);
export const asText = (value: Json | undefined): string => (typeof value === "string" ? value : "");
const asNumber = (value: Json | undefined): number => (typeof value === "number" ? value : 0);

export function podFacts(row: FlatRow): PodFacts {
  const spec = asFields(row.spec);
  const status = asFields(row.status);
  const own = asList(status.containerStatuses).map(asFields);
  const init = asList(status.initContainerStatuses).map(asFields);
  const ready = own.filter((one) => one.ready === true).length;
  const declared = asList(spec.containers).length;
  const trouble = [...init, ...own].map(reasonOf).find((found) => found !== null);
  const phase = asText(status.phase) || row.phase || "Unknown";

  let word = asText(status.reason) || phase;
  let why = asText(status.message) || row.phaseMessage || "";
  if (trouble) ({ word, why } = { word: trouble.word, why: trouble.why || why });
  if (word === "Succeeded") word = "Completed";
  if (row.deleting) word = "Terminating";
  return {
    cluster: row.cluster,
    namespace: row.namespace ?? "",
    name: row.name,
    ready: `${ready}/${own.length || declared || 0}`,
    restarts: own.reduce((sum, one) => sum + asNumber(one.restartCount), 0),
    word,
    well: wellness(word, phase, ready, own.length, row.deleting !== undefined),
    why,
    node: asText(spec.nodeName),
    ip: asText(status.podIP),
    created: row.created ?? "",
    containers: own.map((one) => asText(one.name)).filter(Boolean),
    labels: row.labels ?? {},
    owner: row.owner ?? "",
  };
}

/** Why a container waits or has failed; nothing to say of one that runs, starts, or ended well. */
function reasonOf(container: Fields): { word: string; why: string } | null {
  const state = asFields(container.state);
  const waiting = asFields(state.waiting);
  const reason = asText(waiting.reason);
  if (reason && reason !== "PodInitializing" && reason !== "ContainerCreating") {
    return { word: reason, why: asText(waiting.message) };
  }
  const ended = asFields(state.terminated);
  if (state.terminated && asNumber(ended.exitCode) !== 0) {
    return {
      word: asText(ended.reason) || "Error",
      why: asText(ended.message) || `exit code ${asNumber(ended.exitCode)}`,
    };
  }
  return null;
}

function wellness(word: string, phase: string, ready: number, of: number, deleting: boolean): PodFacts["well"] {
  if (deleting) return "busy";
  if (phase === "Succeeded") return "done";
  if (phase === "Running" && word === "Running") return ready === of ? "good" : "busy";
  if (phase === "Pending" && (word === "Pending" || word === "ContainerCreating")) return "busy";
  return "bad";
}
