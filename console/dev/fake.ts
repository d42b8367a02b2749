// The FAKE server: answers the console's calls from an invented fleet, in the shapes of src/api/types.ts. For unit tests and for looking at
// pages while no server is there; the browser tests run on the real one.
import type { EventRow, FlatRow, Json, KubeObject, List, PodRow, RefusalBody, Session } from "../src/api/types";
import { type FakeFleet, fakeFleet } from "./fleet.ts";

export interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  body: string;
  cookie: boolean;
}

export interface Answer {
  status: number;
  /** JSON, or text as it is. */
  body?: unknown;
  login?: boolean;
}

const refuse = (code: number, reason: string, message: string, details: Record<string, unknown> = {}): Answer => {
  const body: RefusalBody = { code, reason, message, details };
  return { status: code, body };
};
const ok = (body: unknown): Answer => ({ status: 200, body });

type Fields = { [key: string]: Json | undefined };
const fieldsOf = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});

export function flat(cluster: string, object: KubeObject): FlatRow {
  const { metadata, ...rest } = object;
  const status = fieldsOf(rest.status);
  const conditions = Array.isArray(status.conditions) ? status.conditions.map(fieldsOf) : [];
  const ready = conditions.find((one) => one.type === "Ready" || one.type === "Available");
  const phase =
    (status.phase as string | undefined) ??
    (ready ? (ready.status === "True" ? String(ready.type) : `Not${String(ready.type)}`) : undefined);
  const owner = Array.isArray(metadata.ownerReferences) ? fieldsOf(metadata.ownerReferences[0]) : undefined;
  return {
    cluster,
    name: metadata.name,
    ...(metadata.namespace && { namespace: metadata.namespace }),
    created: String(metadata.creationTimestamp ?? ""),
    labels: (metadata.labels ?? {}) as Record<string, string>,
    annotations: {},
    ...(owner && { owner: `${String(owner.kind)}/${String(owner.name)}` }),
    ...(phase && { phase }),
    ...(rest as Fields),
  };
}

const at = (row: unknown, path: string): string => {
  let value: unknown = row;
  for (const part of path.split(".")) value = fieldsOf(value)[part];
  return value === undefined || value === null ? "" : String(value);
};

/** Sorts, searches and pages as the server does, roughly. */
export function page<Row>(rows: Row[], query: URLSearchParams, stale: string[]): List<Row> {
  const q = (query.get("q") ?? "").toLowerCase();
  const filter = /^(\w+) (eq|ne) '?([^' ]+)'?/.exec(query.get("filter") ?? "");
  let found = rows.filter((row) => !q || JSON.stringify(row).toLowerCase().includes(q));
  if (filter) {
    const [, field = "", operator, value] = filter;
    found = found.filter((row) => (at(row, field) === value) === (operator === "eq"));
  }
  const only = query.get("cluster")?.split(",");
  if (only) found = found.filter((row) => only.includes(at(row, "cluster")));
  for (const field of (query.get("sort") ?? "").split(",").filter(Boolean).reverse()) {
    const [name, sign] = field.startsWith("-") ? [field.slice(1), -1] : [field, 1];
    found = [...found].sort((a, b) => sign * at(a, name).localeCompare(at(b, name), "en", { numeric: true }));
  }
  const pageSize = Number(query.get("pageSize") ?? 50);
  const number = Number(query.get("page") ?? 1);
  const items = found.slice((number - 1) * pageSize, number * pageSize);
  const by = query.get("countBy");
  const counts: Record<string, number> = {};
  if (by) for (const row of found) counts[at(row, by)] = (counts[at(row, by)] ?? 0) + 1;
  return {
    items,
    ...(by && { counts }),
    count: found.length,
    page: number,
    pageSize,
    unanswered: [],
    stale: stale.map((cluster) => ({ cluster, since: new Date(Date.now() - 340_000).toISOString() })),
  };
}

export class Fake {
  readonly fleet: FakeFleet = fakeFleet();
  session: Session = {
    user: "admin",
    groups: ["system:masters"],
    mustChange: true,
    csrf: "fake-csrf",
    demo: true,
    version: "0.1.0",
  };
  needsSetup = false;

  answer(asked: Asked): Answer {
    const { method, path, query } = asked;
    const key = `${method} ${path}`;
    if (key === "POST /wapi/v1/login") {
      const { user, password } = JSON.parse(asked.body) as { user: string; password: string };
      if (user !== "admin" || password !== "teleport")
        return refuse(401, "Unauthorized", "the user or the password is wrong");
      return { status: 200, body: this.session, login: true };
    }
    if (key === "POST /wapi/v1/setup")
      return { status: 200, body: { ...this.session, mustChange: false }, login: true };
    if (!asked.cookie)
      return refuse(401, "Unauthorized", "nobody is logged in", { setup: this.needsSetup, demo: true });
    if (key === "GET /wapi/v1/session") return ok(this.session);
    if (key === "POST /wapi/v1/logout") return { status: 204, login: false };
    if (key === "POST /wapi/v1/password") return { status: 204 };
    if (key === "POST /wapi/v1/ticket") return ok({ ticket: "fake" });
    if (path === "/wapi/v1/sessions") {
      const now = new Date().toISOString();
      return ok({
        count: 1,
        items: [
          { id: "one", created: now, used: now, address: "127.0.0.1", agent: "Mozilla/5.0 (invented)", current: true },
        ],
      });
    }
    if (path === "/wapi/v1/overview") return ok(this.overview());
    if (path === "/wapi/v1/events") return ok(page<EventRow>(this.fleet.events, query, []));
    if (path === "/wapi/v1/controllers")
      return ok({ count: this.fleet.controllers.length, items: this.fleet.controllers });
    if (path.startsWith("/wapi/v1/controllers/")) return this.switch(path);
    if (path === "/wapi/v1/audit") return ok(page(this.fleet.audit, query, []));
    if (path === "/wapi/v1/search") return ok(this.search(query.get("q") ?? ""));
    if (path === "/wapi/v1/member-role")
      return {
        status: 200,
        body: "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: muster\n  namespace: kube-system\n",
      };
    if (path === "/api/pod/logfiles") {
      return ok([{ name: "app.log", path: "/var/log/app.log", size: 48_213, modified: new Date().toISOString() }]);
    }
    if (path.startsWith("/apis/zcloud.cn/v1/clusters")) return this.zcloud(asked);
    if (path.startsWith("/api/cluster/")) return this.cluster(asked);
    if (path === "/apiext/v1")
      return ok({
        count: this.fleet.kinds.length,
        items: this.fleet.kinds.map((kind) => ({ ...kind, actions: kind.kind === "At" ? ["pause", "retry"] : [] })),
      });
    if (path.startsWith("/apiext/v1/"))
      return this.cluster({ ...asked, path: `/api/cluster/meta/resources${path.slice("/apiext/v1".length)}` });
    return refuse(404, "NotFound", `no such path: ${path}`);
  }

  private stale = () => this.fleet.clusters.filter((one) => one.state === "Unreachable").map((one) => one.name);

  private overview() {
    const { clusters } = this.fleet;
    const sum = (pick: (one: (typeof clusters)[number]) => number) =>
      clusters.reduce((total, one) => total + pick(one), 0);
    return {
      clusters: { Running: 2, Unreachable: 1 },
      nodes: sum((one) => one.nodes ?? 0),
      nodesReady: sum((one) => one.nodesReady ?? 0),
      pods: sum((one) => one.pods ?? 0),
      podsReady: sum((one) => one.podsReady ?? 0),
      cpu: { allocatable: sum((one) => one.cpu?.allocatable ?? 0), requested: sum((one) => one.cpu?.requested ?? 0) },
      memory: {
        allocatable: sum((one) => one.memory?.allocatable ?? 0),
        requested: sum((one) => one.memory?.requested ?? 0),
      },
      warnings: this.fleet.events.filter((event) => event.type === "Warning"),
      members: clusters,
    };
  }

  private switch(path: string): Answer {
    const [, , , , name, word] = path.split("/");
    const found = this.fleet.controllers.find((one) => one.name === name);
    if (!found) return refuse(404, "NotFound", `there is no reconciler ${name}`);
    if (word === "requeue") return ok({ count: found.queue.delayed });
    found.enabled = word === "enable";
    found.synced = found.enabled;
    return { status: 204 };
  }

  private search(q: string) {
    const clusters = this.fleet.clusters.map((one) => ({
      kind: "Cluster",
      cluster: one.name,
      namespace: "",
      name: one.name,
      path: `/api/cluster/${one.name}`,
    }));
    const objects = [...this.fleet.objects.values()]
      .filter(({ plural }) => plural === "pods" || plural === "deployments")
      .map(({ cluster, object }) => ({
        kind: object.kind,
        cluster,
        namespace: object.metadata.namespace ?? "",
        name: object.metadata.name,
        path: "",
      }));
    return [...clusters, ...objects].filter((one) => one.name.includes(q)).slice(0, 20);
  }

  private zcloud({ method, query, body, path }: Asked): Answer {
    if (query.get("action") === "import") {
      const wish = JSON.parse(body) as { name: string; kubeconfig?: string; dryRun?: boolean };
      const refused = /\bexec\b/.test(wish.kubeconfig ?? "")
        ? [
            {
              field: "users[0].user.exec",
              why: "commands of a kubeconfig are never run here",
              remedy: "import with a service account token instead",
            },
          ]
        : [];
      if (refused.length > 0 && !wish.dryRun) return refuse(422, "Invalid", "the kubeconfig is refused", { refused });
      return ok({
        name: wish.name,
        server: "https://10.0.0.1:6443",
        user: "certificate",
        trust: "its own authority",
        fingerprints: ["sha256:9f31…c2"],
        allow: [],
        dryRun: wish.dryRun ?? false,
        refused,
        imported: !wish.dryRun,
      });
    }
    if (query.get("action") === "getkubeconfig") return ok({ kubeconfig: "apiVersion: v1\nkind: Config\n" });
    if (method === "DELETE") {
      const name = decodeURIComponent(path.split("/").pop() ?? "");
      this.fleet.clusters = this.fleet.clusters.filter((one) => one.name !== name);
      return { status: 204 };
    }
    return ok({ type: "collection", resourceType: "cluster", data: this.fleet.clusters });
  }

  private cluster({ method, path, query, body }: Asked): Answer {
    const [name = "", ...rest] = path.slice("/api/cluster/".length).split("/").map(decodeURIComponent);
    const known = name === "all" || name === "meta" || this.fleet.clusters.some((one) => one.name === name);
    if (!known) return refuse(404, "NotFound", `there is no cluster ${name}`);
    const here = (cluster: string) => (name === "all" ? cluster !== "meta" : cluster === name);
    if (rest.length === 0)
      return ok(
        page(
          this.fleet.clusters.filter((one) => here(one.name)),
          query,
          [],
        ),
      );
    if (rest[0] === "kinds")
      return ok(
        this.fleet.kinds.filter((kind) => (name === "meta" ? kind.group !== "apps" : kind.group !== "demo.wukong.com")),
      );
    if (rest[0] === "appPod" && rest[2] === "helm")
      return ok(
        page(
          this.fleet.releases.filter((one) => here(one.cluster) && (rest[1] === "all" || one.name === rest[1])),
          query,
          [],
        ),
      );
    if (rest[0] === "appPod") return ok(page(this.appPods(rest[1] ?? "", here), query, this.stale()));
    if (rest[4] === "logs") return { status: 200, body: fakeLog(rest[3] ?? "") };
    if (rest[4] === "restart")
      return ok({
        restarted: [{ cluster: "beijing", namespace: rest[1], kind: "Deployment", name: rest[3] }],
        failed: [],
      });
    if (rest[0] === "resources") return this.resources(method, name, rest.slice(1), query, body, here);
    return refuse(404, "NotFound", `no such path: ${path}`);
  }

  private appPods(app: string, here: (cluster: string) => boolean): PodRow[] {
    const pods = [...this.fleet.objects.values()].filter(
      ({ cluster, plural, object }) =>
        plural === "pods" && here(cluster) && fieldsOf(object.metadata.labels).app === app,
    );
    return pods.map(({ cluster, object }) => {
      const broken = JSON.stringify(object).includes("CrashLoop");
      return {
        cluster,
        namespace: object.metadata.namespace ?? "",
        name: object.metadata.name,
        app,
        phase: "Running",
        ready: broken ? "1/2" : "2/2",
        restarts: broken ? 41 : 0,
        created: String(object.metadata.creationTimestamp),
        ...(broken && { reason: "CrashLoopBackOff" }),
        group: String(fieldsOf(object.metadata.labels)["sym-group"]),
        image: `registry.example/${app}:3.1`,
      };
    });
  }

  private resources(
    method: string,
    name: string,
    rest: string[],
    query: URLSearchParams,
    body: string,
    here: (cluster: string) => boolean,
  ): Answer {
    const [group = "", , ...more] = rest;
    const namespaced = more[0] === "namespaces" && more.length > 2;
    const [plural = "", object, action] = namespaced ? more.slice(2) : more;
    const namespace = namespaced ? more[1] : undefined;
    const own = group === "core" ? "" : group;
    if (object === undefined) {
      const rows = [...this.fleet.objects.values()]
        .filter(
          (one) =>
            here(one.cluster) &&
            one.plural === plural &&
            one.group === own &&
            (!namespace || one.object.metadata.namespace === namespace),
        )
        .map((one) => flat(one.cluster, one.object));
      return ok(page(rows, query, name === "all" ? this.stale() : []));
    }
    const key = [name, own, plural, namespace ?? "", object].join("/");
    const found = this.fleet.objects.get(key);
    if (!found && method === "PUT") {
      const made = JSON.parse(body) as KubeObject;
      if (query.get("dryRun") !== "true")
        this.fleet.objects.set(key, { cluster: name, group: own, plural, object: made });
      return ok(made);
    }
    if (!found) return refuse(404, "NotFound", `${plural} "${object}" not found`);
    if (action) return ok(flat(name, found.object));
    if (method === "DELETE") {
      this.fleet.objects.delete(key);
      return ok({ name: object, deleted: true });
    }
    if (method === "PUT") {
      const next = JSON.parse(body) as KubeObject;
      const image = (value: KubeObject) =>
        JSON.stringify(fieldsOf(fieldsOf(fieldsOf(value.spec).template).spec).containers ?? null);
      if (query.get("force") !== "true" && image(next) !== image(found.object)) {
        return refuse(409, "Conflict", "fields belong to another manager", {
          conflicts: [
            { field: `.spec.template.spec.containers[name="${object}"].image`, manager: "kubectl-client-side-apply" },
          ],
        });
      }
      const after = { ...found.object, ...next, status: found.object.status } as KubeObject;
      if (query.get("dryRun") !== "true") this.fleet.objects.set(key, { ...found, object: after });
      return ok(after);
    }
    return ok(query.get("raw") === "true" ? found.object : flat(name, found.object));
  }
}

export const fakeLog = (pod: string): string => {
  const lines = Array.from({ length: 400 }, (_, n) => {
    const time = new Date(Date.now() - (400 - n) * 1500).toISOString();
    if (n % 37 === 0) return `${time} WARN slow upstream cart took 812 ms pod=${pod}`;
    if (n % 91 === 0) return `${time} ERROR payment provider answered 502 pod=${pod}`;
    return `${time} INFO GET /api/items/${n} 200 ${3 + (n % 20)} ms pod=${pod}`;
  });
  return `${lines.join("\n")}\n`;
};
