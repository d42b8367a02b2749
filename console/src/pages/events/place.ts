// Where the object of an event is shown.
import type { EventRow } from "../../api/types";

const PLACES: Record<string, string> = {
  Pod: "core/v1/pods",
  Node: "core/v1/nodes",
  Service: "core/v1/services",
  Namespace: "core/v1/namespaces",
  PersistentVolumeClaim: "core/v1/persistentvolumeclaims",
  Deployment: "apps/v1/deployments",
  ReplicaSet: "apps/v1/replicasets",
  StatefulSet: "apps/v1/statefulsets",
  DaemonSet: "apps/v1/daemonsets",
  Job: "batch/v1/jobs",
  CronJob: "batch/v1/cronjobs",
};

/** Nodes' events stand in a namespace although nodes do not. */
const EVERYWHERE = new Set(["Node", "Namespace"]);

/** The name alone, whether the event says `web-1` or `Pod/web-1`. */
export const objectName = (event: EventRow) => event.object.slice(event.object.lastIndexOf("/") + 1);

export function eventPlace(event: EventRow): string {
  const kind = PLACES[event.kind];
  const part = encodeURIComponent;
  if (!kind) return `/events?scope=${part(event.cluster)}&q=${part(objectName(event))}`;
  const namespace = EVERYWHERE.has(event.kind) ? "-" : event.namespace || "-";
  return `/explore/${kind}/${part(event.cluster)}/${part(namespace)}/${part(objectName(event))}`;
}
