// What a list of a kind shows beside name, cluster and age: the columns its definition names, or those everybody knows of a built-in kind.
import { useMemo } from "react";
import { useRead } from "../../api/hooks";
import { ALL, type KindRef, object, withQuery } from "../../api/paths";
import { asFields, asList, asText } from "../../api/pods";
import type { FlatRow, Json } from "../../api/types";
import { find, type Step, steps } from "../../lib/jsonpath";

export interface ServerColumn {
  name: string;
  about: string;
  /** date, integer, number, boolean, string. */
  type: string;
  /** Left out on narrow screens. */
  wide: boolean;
  path: Step[];
  /** The field of a flat row that the server is asked for, and sorts by where the path goes through no list. */
  field: string;
  sort: string | undefined;
}

const CRDS: KindRef = { group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions" };

/** Shown by every list as it is. */
const KNOWN = new Set([".metadata.name", ".metadata.namespace", ".metadata.creationTimestamp"]);
const MOST_COLUMNS = 12;

/** Of a path into an object the path into a flat row, where metadata stands at the top. */
function flat(path: Step[]): Step[] | null {
  const [first, second, ...rest] = path;
  if (first?.is !== "key" || first.key !== "metadata") return path;
  if (second?.is !== "key") return null;
  const key =
    second.key === "creationTimestamp" ? "created" : second.key === "deletionTimestamp" ? "deleting" : second.key;
  return [{ is: "key", key }, ...rest];
}

const plain = /^[\p{L}\p{N}_\-/$]+$/u;
/** A path as the server's lists write it, as far as it goes without looking into a list. */
function field(path: readonly Step[]): { field: string; whole: boolean } {
  const words: string[] = [];
  for (const step of path) {
    if (step.is !== "key" || step.key.includes('"') || step.key === "") return { field: words.join("."), whole: false };
    words.push(plain.test(step.key) ? step.key : `"${step.key}"`);
  }
  return { field: words.join("."), whole: true };
}

export function column(name: string, type: string, jsonPath: string, wide = false, about = ""): ServerColumn | null {
  if (KNOWN.has(jsonPath)) return null;
  const read = steps(jsonPath);
  const path = read && flat(read);
  if (!path) return null;
  const asked = field(path);
  if (!asked.field) return null;
  return { name, type, about, wide, path, field: asked.field, sort: asked.whole ? asked.field : undefined };
}

/** The columns that a definition names for one of its versions. */
export function columnsOf(definition: FlatRow, version: string): ServerColumn[] {
  const versions = asList(asFields(definition.spec).versions).map(asFields);
  const named = asList(versions.find((one) => one.name === version)?.additionalPrinterColumns).map(asFields);
  return named
    .flatMap((one) => {
      const wide = typeof one.priority === "number" && one.priority > 0;
      return column(asText(one.name), asText(one.type), asText(one.jsonPath), wide, asText(one.description)) ?? [];
    })
    .slice(0, MOST_COLUMNS);
}

const built = (...columns: [name: string, type: string, path: string, wide?: boolean][]): ServerColumn[] =>
  columns.flatMap(([name, type, path, wide]) => column(name, type, path, wide) ?? []);

/** Kinds whose columns no definition names. */
const BUILT_IN: Record<string, ServerColumn[]> = {
  "/services": built(
    ["Type", "string", ".spec.type"],
    ["Cluster-IP", "string", ".spec.clusterIP"],
    ["External-IP", "string", ".status.loadBalancer.ingress[*].ip", true],
    ["Ports", "string", ".spec.ports[*].port"],
  ),
  "/nodes": built(
    ["Version", "string", ".status.nodeInfo.kubeletVersion"],
    ["Internal-IP", "string", '.status.addresses[?(@.type=="InternalIP")].address'],
    ["OS image", "string", ".status.nodeInfo.osImage", true],
  ),
  "/namespaces": [],
  "/configmaps": [],
  "/secrets": built(["Type", "string", ".type"]),
  "/serviceaccounts": [],
  "/persistentvolumeclaims": built(
    ["Volume", "string", ".spec.volumeName"],
    ["Capacity", "string", ".status.capacity.storage"],
    ["Access modes", "string", ".status.accessModes"],
    ["Storage class", "string", ".spec.storageClassName", true],
  ),
  "/persistentvolumes": built(
    ["Capacity", "string", ".spec.capacity.storage"],
    ["Access modes", "string", ".spec.accessModes"],
    ["Reclaim policy", "string", ".spec.persistentVolumeReclaimPolicy", true],
    ["Claim", "string", ".spec.claimRef.name"],
  ),
  "/events": built(
    ["Type", "string", ".type"],
    ["Reason", "string", ".reason"],
    ["Object", "string", ".involvedObject.name"],
    ["Message", "string", ".message"],
  ),
  "apps/deployments": built(
    ["Up-to-date", "integer", ".status.updatedReplicas", true],
    ["Available", "integer", ".status.availableReplicas", true],
  ),
  "apps/daemonsets": built(["Up-to-date", "integer", ".status.updatedNumberScheduled", true]),
  "batch/cronjobs": built(
    ["Schedule", "string", ".spec.schedule"],
    ["Suspend", "boolean", ".spec.suspend"],
    ["Last schedule", "date", ".status.lastScheduleTime"],
  ),
  "autoscaling/horizontalpodautoscalers": built(
    ["Reference", "string", ".spec.scaleTargetRef.name"],
    ["Min", "integer", ".spec.minReplicas"],
    ["Max", "integer", ".spec.maxReplicas"],
    ["Replicas", "integer", ".status.currentReplicas"],
  ),
  "policy/poddisruptionbudgets": built(
    ["Min available", "string", ".spec.minAvailable"],
    ["Max unavailable", "string", ".spec.maxUnavailable"],
    ["Allowed disruptions", "integer", ".status.disruptionsAllowed"],
  ),
  "networking.k8s.io/ingresses": built(
    ["Class", "string", ".spec.ingressClassName"],
    ["Hosts", "string", ".spec.rules[*].host"],
    ["Address", "string", ".status.loadBalancer.ingress[*].ip"],
  ),
  "storage.k8s.io/storageclasses": built(
    ["Provisioner", "string", ".provisioner"],
    ["Reclaim policy", "string", ".reclaimPolicy"],
    ["Binding mode", "string", ".volumeBindingMode", true],
  ),
  "rbac.authorization.k8s.io/rolebindings": built(["Role", "string", ".roleRef.name"]),
  "rbac.authorization.k8s.io/clusterrolebindings": built(["Role", "string", ".roleRef.name"]),
  "coordination.k8s.io/leases": built(["Holder", "string", ".spec.holderIdentity"]),
  "apiextensions.k8s.io/customresourcedefinitions": built(
    ["Group", "string", ".spec.group"],
    ["Kind", "string", ".spec.names.kind"],
    ["Scope", "string", ".spec.scope"],
  ),
};
/** Groups of Kubernetes itself: no definition is asked for. */
const OF_KUBERNETES =
  /^(?:[a-z]*|(?:admissionregistration|apiextensions|apiregistration|authentication|authorization|certificates|coordination|discovery|events|flowcontrol\.apiserver|internal\.apiserver|networking|node|rbac\.authorization|resource|scheduling|storage|storagemigration)\.k8s\.io)$/;

/** The columns of a kind. A definition is read from one cluster that has the kind, with the reader's own rights; without them there are none. */
export function useServerColumns(kind: KindRef, scope: string, first: string | undefined): ServerColumn[] {
  const own = BUILT_IN[`${kind.group}/${kind.plural}`];
  const custom = !own && !OF_KUBERNETES.test(kind.group);
  const cluster = scope === ALL ? first : scope;
  const path = object({ ...CRDS, cluster: cluster ?? "", name: `${kind.plural}.${kind.group}` });
  const definition = useRead<FlatRow>(
    withQuery(path, { fields: "name,spec.versions.name,spec.versions.additionalPrinterColumns" }),
    { once: true, keep: false, enabled: custom && Boolean(cluster) },
  );
  const { data } = definition;
  const { version } = kind;
  return useMemo(() => own ?? (data ? columnsOf(data, version) : []), [own, data, version]);
}

const LONGEST_CELL = 300;

/** What a cell says. */
export function cellText(row: FlatRow, { path }: ServerColumn): string {
  const shown = find(row as Json, path).flatMap((value) => (Array.isArray(value) ? value : [value]));
  const words = shown.map((value) => (typeof value === "object" ? JSON.stringify(value) : String(value)));
  return words.join(", ").slice(0, LONGEST_CELL);
}
