// Addresses of the gateway, built in one place so that every part is encoded.

export const ALL = "all";
export const META = "meta";

type Parameters = Record<string, string | number | boolean | readonly string[] | undefined | null>;

const part = encodeURIComponent;

export function withQuery(path: string, parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined || value === null || value === "" || value === false) continue;
    if (Array.isArray(value)) for (const one of value) query.append(name, one);
    else query.append(name, String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

export interface KindRef {
  group: string;
  version: string;
  plural: string;
}

/** One object on one member. */
export interface ObjectRef extends KindRef {
  cluster: string;
  namespace?: string | undefined;
  name: string;
}

export interface PodRef {
  cluster: string;
  namespace: string;
  name: string;
}

export const cluster = (name: string) => `/api/cluster/${part(name)}`;
export const kinds = (scope: string) => `${cluster(scope)}/kinds`;

export function resources(scope: string, kind: KindRef, namespace?: string): string {
  const where = namespace ? `/namespaces/${part(namespace)}` : "";
  return `${cluster(scope)}/resources/${part(kind.group || "core")}/${part(kind.version)}${where}/${part(kind.plural)}`;
}

export const object = (ref: ObjectRef) => `${resources(ref.cluster, ref, ref.namespace)}/${part(ref.name)}`;

/** The meta API as plain REST: lists and actions that need no member. */
export const APIEXT = "/apiext/v1";
export function ext(kind: KindRef, namespace?: string, name?: string): string {
  const where = namespace ? `/namespaces/${part(namespace)}` : "";
  const one = name ? `/${part(name)}` : "";
  return `${APIEXT}/${part(kind.group || "core")}/${part(kind.version)}${where}/${part(kind.plural)}${one}`;
}

const pod = (ref: PodRef) => `${cluster(ref.cluster)}/namespace/${part(ref.namespace)}/pods/${part(ref.name)}`;
export const podEvents = (ref: PodRef) => `${pod(ref)}/event`;
export const podLogs = (ref: PodRef, parameters: Parameters) => withQuery(`${pod(ref)}/logs`, parameters);
export const podLogFile = (ref: PodRef, parameters: Parameters) => withQuery(`${pod(ref)}/logs/file`, parameters);
export const logFiles = (ref: PodRef, container: string, path: string) =>
  withQuery("/api/pod/logfiles", { cluster: ref.cluster, namespace: ref.namespace, pod: ref.name, container, path });
export const terminal = (ref: PodRef, container: string, command: readonly string[]) =>
  withQuery(`${cluster(ref.cluster)}/terminal`, {
    namespace: ref.namespace,
    pod: ref.name,
    container,
    command,
    tty: true,
  });

export const appPods = (scope: string, app: string) => `${cluster(scope)}/appPod/${part(app)}`;
export const releases = (scope: string, app: string) => `${appPods(scope, app)}/helm`;
export const endpoints = (scope: string, app: string) => `${cluster(scope)}/endpoints/${part(app)}`;
export const restart = (scope: string, namespace: string, app: string, group?: string) =>
  withQuery(`${cluster(scope)}/namespace/${part(namespace)}/app/${part(app)}/restart`, { group });

export const zcloud = "/apis/zcloud.cn/v1/clusters";
export const zcloudCluster = (name: string) => `${zcloud}/${part(name)}`;

export const PODS: KindRef = { group: "", version: "v1", plural: "pods" };
export const NODES: KindRef = { group: "", version: "v1", plural: "nodes" };
export const NAMESPACES: KindRef = { group: "", version: "v1", plural: "namespaces" };

/** The group as it stands in addresses of the console: the core group needs a name. */
export const groupName = (group: string) => group || "core";
export const groupOf = (name: string) => (name === "core" ? "" : name);
