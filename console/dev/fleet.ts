// A FAKE fleet for developing the console without a server: invented clusters, pods and events. Nothing of it is in the product.
import type { AuditRow, ClusterRow, Controller, EventRow, Kind, KubeObject, ReleaseRow } from "../src/api/types";

const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

export interface FakeFleet {
  clusters: ClusterRow[];
  objects: Map<string, { cluster: string; plural: string; group: string; object: KubeObject }>;
  events: EventRow[];
  releases: ReleaseRow[];
  kinds: Kind[];
  controllers: Controller[];
  audit: AuditRow[];
}

const kind = (
  group: string,
  version: string,
  plural: string,
  name: string,
  namespaced: boolean,
  shortNames: string[] = [],
): Kind => ({
  group: group || "core",
  version,
  plural,
  kind: name,
  namespaced,
  verbs: ["get", "list", "watch", "create", "update", "patch", "delete"],
  shortNames,
});

export const KINDS: Kind[] = [
  kind("", "v1", "pods", "Pod", true, ["po"]),
  kind("", "v1", "nodes", "Node", false, ["no"]),
  kind("", "v1", "namespaces", "Namespace", false, ["ns"]),
  kind("", "v1", "services", "Service", true, ["svc"]),
  kind("", "v1", "configmaps", "ConfigMap", true, ["cm"]),
  kind("", "v1", "secrets", "Secret", true),
  kind("apps", "v1", "deployments", "Deployment", true, ["deploy"]),
  kind("apps", "v1", "statefulsets", "StatefulSet", true, ["sts"]),
  kind("apps", "v1", "daemonsets", "DaemonSet", true, ["ds"]),
  kind("batch", "v1", "jobs", "Job", true),
  kind("batch", "v1", "cronjobs", "CronJob", true, ["cj"]),
  kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false),
  kind("demo.wukong.com", "v1", "ats", "At", true),
];

const CLUSTERS: [string, ClusterRow["state"], string][] = [
  ["beijing", "Running", "cn-north"],
  ["shanghai", "Running", "cn-east"],
  ["guangzhou", "Unreachable", "cn-south"],
];
const APPS = ["web", "cart", "payments", "search"];

/** An invented fleet; the same every time but for the clock. */
export function fakeFleet(): FakeFleet {
  const fleet: FakeFleet = {
    clusters: [],
    objects: new Map(),
    events: [],
    releases: [],
    kinds: KINDS,
    controllers: controllers(),
    audit: audit(),
  };
  const add = (cluster: string, group: string, plural: string, object: KubeObject) => {
    const at = [cluster, group, plural, object.metadata.namespace ?? "", object.metadata.name].join("/");
    fleet.objects.set(at, { cluster, group, plural, object });
  };
  for (const [n, [name, state, region]] of CLUSTERS.entries()) {
    for (const namespace of ["default", "kube-system", "shop"]) {
      add(name, "", "namespaces", {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: namespace, creationTimestamp: ago(9e5) },
        status: { phase: "Active" },
      });
    }
    for (let node = 1; node <= 3; node += 1)
      add(name, "", "nodes", fakeNode(`${name}-node-${node}`, node === 3 && n === 1));
    for (const [a, app] of APPS.entries()) {
      const broken = app === "payments" && n === 1;
      add(name, "apps", "deployments", fakeDeployment(app, 3, broken ? 2 : 3));
      add(name, "", "services", {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: app, namespace: "shop", creationTimestamp: ago(8e5) },
        spec: { clusterIP: `10.96.${n}.${a + 10}` },
      });
      for (let pod = 0; pod < 3; pod += 1)
        add(name, "", "pods", fakePod(app, `${name}-node-${pod + 1}`, n * 100 + a * 10 + pod, broken && pod === 2));
      fleet.releases.push({
        cluster: name,
        namespace: "shop",
        name: app,
        chart: app,
        chartVersion: "1.4.2",
        appVersion: "3.1",
        revision: a + 2,
        status: "deployed",
        updated: ago(7200),
      });
    }
    fleet.events.push(
      {
        cluster: name,
        namespace: "shop",
        kind: "Pod",
        object: podName("web", n * 100),
        reason: "Started",
        type: "Normal",
        message: "Started container web",
        count: 1,
        last: ago(240),
      },
      {
        cluster: name,
        namespace: "shop",
        kind: "Deployment",
        object: "web",
        reason: "ScalingReplicaSet",
        type: "Normal",
        message: "Scaled up replica set web-7d4b to 3",
        count: 1,
        last: ago(300),
      },
    );
    fleet.clusters.push({
      name,
      cluster: name,
      state,
      ready: true,
      version: "v1.35.2",
      latencyMs: state === "Running" ? 1.4 + n : 0,
      since: ago(state === "Running" ? 86_000 : 340),
      ...(state !== "Running" && { error: "the API did not answer within 2 s" }),
      labels: { region, "sym-ldc": `${region}-1` },
      origin: `Secret muster-system/${name}`,
      simulated: true,
      nodes: 3,
      nodesReady: n === 1 ? 2 : 3,
      pods: 12,
      podsReady: n === 1 ? 11 : 12,
      cpu: { allocatable: 24, requested: 9.6 + n * 5 },
      memory: { allocatable: 96 * 1024 ** 3, requested: (30 + n * 22) * 1024 ** 3 },
    });
  }
  fleet.events.push(
    {
      cluster: "shanghai",
      namespace: "shop",
      kind: "Pod",
      object: podName("payments", 122),
      reason: "BackOff",
      type: "Warning",
      message: "Back-off restarting failed container payments in pod payments-6c9f",
      count: 41,
      last: ago(20),
    },
    {
      cluster: "shanghai",
      namespace: "default",
      kind: "Node",
      object: "shanghai-node-3",
      reason: "NodeNotReady",
      type: "Warning",
      message: "Node shanghai-node-3 status is now: NodeNotReady",
      count: 1,
      last: ago(610),
    },
  );
  for (const [n, phase] of ["PENDING", "RUNNING", "DONE"].entries()) {
    add("meta", "demo.wukong.com", "ats", {
      apiVersion: "demo.wukong.com/v1",
      kind: "At",
      metadata: { name: `at-${n}`, namespace: "default", creationTimestamp: ago(500) },
      spec: { schedule: ago(-60), command: "echo YAY" },
      status: { phase },
    });
  }
  add("meta", "", "secrets", {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "beijing", namespace: "muster-system", creationTimestamp: ago(9e5) },
    type: "muster.dev/member",
    data: { kubeconfig: "aW52ZW50ZWQ=" },
  });
  return fleet;
}

const podName = (app: string, n: number) => `${app}-7d4b9c-${(n * 7919 + 46_656).toString(36).slice(-5)}`;

function fakePod(app: string, node: string, n: number, broken: boolean): KubeObject {
  const state = broken
    ? { waiting: { reason: "CrashLoopBackOff", message: "back-off 5m0s restarting failed container" } }
    : { running: { startedAt: ago(7000 + n) } };
  const containers = [
    { name: app, image: `registry.example/${app}:3.1` },
    { name: "proxy", image: "registry.example/proxy:1.0" },
  ];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: podName(app, n),
      namespace: "shop",
      creationTimestamp: ago(7200 + n * 60),
      resourceVersion: "1",
      labels: { app, "sym-group": n % 3 === 0 ? "blue" : n % 3 === 1 ? "green" : "canary" },
      ownerReferences: [{ kind: "ReplicaSet", name: `${app}-7d4b9c`, controller: true }],
    },
    spec: { nodeName: node, containers },
    status: {
      phase: "Running",
      podIP: `10.244.${n % 200}.${(n % 50) + 2}`,
      conditions: [{ type: "Ready", status: broken ? "False" : "True", lastTransitionTime: ago(600) }],
      containerStatuses: containers.map(({ name }, at) => ({
        name,
        ready: !(broken && at === 0),
        restartCount: broken && at === 0 ? 41 : 0,
        state: at === 0 ? state : { running: { startedAt: ago(7000) } },
      })),
    },
  };
}

function fakeDeployment(app: string, replicas: number, ready: number): KubeObject {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: app, namespace: "shop", creationTimestamp: ago(86_400), resourceVersion: "7", labels: { app } },
    spec: {
      replicas,
      selector: { matchLabels: { app } },
      template: {
        metadata: { labels: { app } },
        spec: { containers: [{ name: app, image: `registry.example/${app}:3.1` }] },
      },
    },
    status: {
      replicas,
      readyReplicas: ready,
      conditions: [
        {
          type: "Available",
          status: ready === replicas ? "True" : "False",
          reason: "MinimumReplicasAvailable",
          message: "Deployment has minimum availability.",
          lastTransitionTime: ago(3600),
        },
      ],
    },
  };
}

const fakeNode = (name: string, lost: boolean): KubeObject => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name, creationTimestamp: ago(9e5), labels: { "node-role.kubernetes.io/worker": "" } },
  spec: {},
  status: {
    conditions: [
      {
        type: "Ready",
        status: lost ? "Unknown" : "True",
        reason: "KubeletReady",
        message: "",
        lastTransitionTime: ago(600),
      },
    ],
    addresses: [{ type: "InternalIP", address: "10.0.0.11" }],
    allocatable: { cpu: "8", memory: "32Gi" },
    nodeInfo: { kubeletVersion: "v1.35.2" },
  },
});

const controllers = (): Controller[] => [
  {
    name: "at",
    group: "demo.wukong.com",
    version: "v1",
    kind: "At",
    enabled: true,
    synced: true,
    concurrency: 4,
    queue: { ready: 0, delayed: 2, running: 1 },
    errors: 7,
    retries: 5,
    failing: 1,
    lastError: { key: "shop/nightly", message: "the API answered 503: away", at: ago(40) },
    graph: {
      phases: [{ name: "PENDING" }, { name: "RUNNING" }, { name: "DONE", terminal: true }],
      edges: [
        { from: "PENDING", to: "RUNNING", on: "success" },
        { from: "RUNNING", to: "DONE", on: "success" },
      ],
    },
  },
  {
    name: "redismigration",
    group: "demo.wukong.com",
    version: "v1",
    kind: "RedisMigration",
    enabled: false,
    synced: false,
    concurrency: 1,
    queue: { ready: 0, delayed: 0, running: 0 },
    errors: 0,
    retries: 0,
    failing: 0,
    graph: {
      phases: [
        { name: "Preflight" },
        { name: "Copying" },
        { name: "Switching" },
        { name: "Rollback" },
        { name: "Succeeded", terminal: true },
        { name: "Failed", terminal: true },
      ],
      edges: [
        { from: "Preflight", to: "Copying", on: "success" },
        { from: "Preflight", to: "Failed", on: "failure" },
        { from: "Copying", to: "Switching", on: "success" },
        { from: "Copying", to: "Rollback", on: "failure" },
        { from: "Copying", to: "Rollback", on: "cancel" },
        { from: "Switching", to: "Succeeded", on: "success" },
        { from: "Switching", to: "Rollback", on: "failure" },
        { from: "Rollback", to: "Failed", on: "success" },
      ],
    },
  },
];

const audit = (): AuditRow[] =>
  Array.from({ length: 130 }, (_, n) => ({
    time: ago(n * 97),
    requestId: `${(n + 4_096).toString(16)}c0ffee-1234`,
    user: "system:muster:gateway",
    impersonatedUser: n % 5 === 0 ? "ann" : "admin",
    verb: ["create", "update", "patch", "delete"][n % 4] ?? "get",
    group: n % 2 ? "apps" : "",
    resource: n % 2 ? "deployments" : "secrets",
    namespace: "shop",
    name: n % 2 ? "web" : "beijing",
    path: "/apis/apps/v1/namespaces/shop/deployments/web",
    code: n % 11 === 0 ? 403 : 200,
    source: "127.0.0.1:53122",
    userAgent: "muster-gateway/0.1.0",
  }));
