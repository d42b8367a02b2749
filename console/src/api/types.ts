// What the gateway answers (docs/rest.md): the one place where its shapes are written down on this side.

export interface Session {
  user: string;
  groups: string[];
  mustChange: boolean;
  csrf: string;
  demo: boolean;
  version: string;
}

/** Every refusal has this shape. */
export interface RefusalBody {
  code: number;
  reason: string;
  message: string;
  details?: Record<string, unknown>;
}

export interface OpenSession {
  id: string;
  created: string;
  used: string;
  address?: string;
  agent?: string;
  current: boolean;
}

export interface Unanswered {
  cluster: string;
  reason: string;
  message: string;
}

// A type and not an interface: it stands in rows, whose fields are JSON.
export type Stale = {
  cluster: string;
  since: string;
};

export interface List<Row> {
  items: Row[];
  count: number;
  page: number;
  pageSize: number;
  unanswered?: Unanswered[];
  stale?: Stale[];
  /** How many rows of all pages have which value, where that was asked for (`countBy`). */
  counts?: Record<string, number>;
}

export type ClusterState = "Running" | "Connecting" | "Unreachable";

export interface Amount {
  allocatable: number;
  requested: number;
}

export interface ClusterRow {
  name: string;
  cluster: string;
  state: ClusterState;
  ready: boolean;
  version?: string;
  latencyMs?: number;
  since?: string;
  error?: string;
  labels?: Record<string, string>;
  origin?: string;
  simulated?: boolean;
  nodes?: number;
  nodesReady?: number;
  pods?: number;
  podsReady?: number;
  cpu?: Amount;
  memory?: Amount;
}

export interface PodRow {
  cluster: string;
  namespace: string;
  name: string;
  app?: string;
  phase: string;
  ready: string;
  restarts: number;
  node?: string;
  ip?: string;
  created: string;
  reason?: string;
  group?: string;
  unit?: string;
  ldc?: string;
  image?: string;
  labels?: Record<string, string>;
}

export interface EventRow {
  cluster: string;
  namespace?: string;
  kind: string;
  object: string;
  reason: string;
  type: string;
  message: string;
  count: number;
  last: string;
}

export interface ReleaseRow {
  cluster: string;
  namespace: string;
  name: string;
  chart: string;
  chartVersion: string;
  appVersion: string;
  revision: number;
  status: string;
  updated: string;
}

export interface Kind {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: boolean;
  verbs: string[];
  shortNames?: string[];
}

/** A kind as APIExt knows it: with what can be done to its objects. */
export interface ExtKind extends Kind {
  actions: string[];
}

/** A flat row of any kind: metadata lifted to the top. */
export interface FlatRow {
  cluster: string;
  id?: string;
  name: string;
  namespace?: string;
  created?: string;
  deleting?: string;
  resourceVersion?: string;
  generation?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  owner?: string;
  finalizers?: string[];
  phase?: string;
  phaseMessage?: string;
  /** Since when the object is not known to be so, as its cluster cannot be asked. */
  stale?: Stale[];
  spec?: Json;
  status?: Json;
  [field: string]: Json | undefined;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json | undefined };

/** A Kubernetes object as it is. */
export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; [field: string]: Json | undefined };
  [field: string]: Json | undefined;
}

export interface Overview {
  clusters: Partial<Record<ClusterState, number>>;
  nodes: number;
  nodesReady: number;
  pods: number;
  podsReady: number;
  cpu: Amount;
  memory: Amount;
  warnings: EventRow[];
  members: ClusterRow[];
}

export interface PhaseGraph {
  phases: { name: string; terminal?: boolean }[];
  edges: { from: string; to: string; on: string }[];
}

export interface Controller {
  name: string;
  group: string;
  version: string;
  kind: string;
  enabled: boolean;
  synced: boolean;
  concurrency: number;
  queue: { ready: number; delayed: number; running: number };
  /** Reconciles that failed, and objects that were put back after a failure, since the hub began. */
  errors: number;
  retries: number;
  /** Objects whose last reconcile failed. */
  failing: number;
  lastError?: { key: string; message: string; at: string };
  graph?: PhaseGraph;
}

export interface Controllers {
  leading?: boolean;
  items: Controller[];
}

/** A line of the audit log. Who acts through the console is `impersonatedUser`. */
export interface AuditRow {
  time: string;
  requestId: string;
  user: string;
  impersonatedUser?: string;
  verb: string;
  /** The member, of what was done to one. */
  cluster?: string;
  /** Of what takes its time, such as a terminal. */
  stage?: "started" | "ended";
  group?: string;
  resource?: string;
  subresource?: string;
  namespace?: string;
  name?: string;
  path: string;
  code: number;
  source?: string;
  userAgent?: string;
  /** Why it was not done, in one word. */
  reason?: string;
  "authorization.k8s.io/reason"?: string;
}

export interface Found {
  kind: string;
  cluster?: string;
  namespace?: string;
  name: string;
  path?: string;
}

export interface ImportRequest {
  name: string;
  kubeconfig?: string;
  server?: string;
  ca?: string;
  token?: string;
  labels?: Record<string, string>;
  allow?: Allowance[];
  dryRun?: boolean;
}

/** What may be allowed of an import that is refused otherwise. */
export type Allowance = "system-roots" | "insecure" | "plain-http";

export interface ImportPreview {
  name: string;
  server?: string;
  /** How we shall say who we are: by token or certificate. */
  user?: string;
  /** Whom we believe to be the server. */
  trust?: string;
  fingerprints?: string[];
  allow?: string[];
  dryRun: boolean;
  exists?: boolean;
  imported?: boolean;
  refused: { field: string; why: string; remedy?: string }[];
}

export interface LogFile {
  name: string;
  path: string;
  size?: number;
  modified?: string;
}

export interface Restarted {
  restarted: { cluster: string; namespace: string; kind: string; name: string }[];
  failed: { cluster: string; namespace?: string; kind?: string; name?: string; message?: string; reason?: string }[];
}

export interface FieldConflict {
  field: string;
  manager: string;
}
