// The tabs of one member that are lists.
import { useList, useListState, useRead } from "../../api/hooks";
import { type KindRef, NODES, resources, withQuery } from "../../api/paths";
import { asFields, asList, asText } from "../../api/pods";
import type { ClusterRow, EventRow, FlatRow, Json, List } from "../../api/types";
import { useLanguage, useText } from "../../i18n";
import { bytes, bytesOf, number, percent } from "../../lib/format";
import { quantity } from "../../lib/quantity";
import { navigate, useParameter } from "../../router/router";
import { Age, Card, Facts, Labels, Meter, Phase, Status } from "../../ui/basics";
import { Empty } from "../../ui/problem";
import { type Column, NothingFound, nameColumn, SearchBox, Table } from "../../ui/table";
import { eventKey, useEventColumns } from "../events/events";
import { eventPlace } from "../events/place";
import { objectPlace } from "../explore/place";

export function ClusterOverview({ row }: { row: ClusterRow }) {
  const t = useText();
  const language = useLanguage();
  const events = useRead<List<EventRow>>(
    withQuery("/wapi/v1/events", { cluster: row.name, filter: "type eq Warning", sort: "-last", pageSize: 8 }),
  );
  const columns = useEventColumns(false).filter((column) => column.name !== "type" && column.name !== "namespace");
  return (
    <div className="stack">
      <div className="columns">
        <Card title={t.clusters.about}>
          <Facts
            facts={[
              [t.clusters.version, row.version ?? "–"],
              [t.clusters.since, <Age key="since" of={row.since} />],
              [t.clusters.latency, row.latencyMs === undefined ? "–" : `${number(row.latencyMs, language, 1)} ms`],
              [t.clusters.origin, row.origin ?? "–"],
              [t.common.labels, <Labels key="labels" of={row.labels} most={20} />],
            ]}
          />
        </Card>
        <Card title={t.clusters.capacity}>
          <Facts
            facts={[
              [t.overview.nodes, row.nodes === undefined ? "–" : `${row.nodesReady ?? 0} / ${row.nodes}`],
              [
                t.nav.pods,
                row.pods === undefined
                  ? "–"
                  : `${number(row.podsReady ?? 0, language)} / ${number(row.pods, language)}`,
              ],
              [
                t.overview.cpu,
                row.cpu ? (
                  <Amount
                    key="cpu"
                    part={row.cpu.requested}
                    whole={row.cpu.allocatable}
                    text={`${number(row.cpu.requested, language, 1)} / ${number(row.cpu.allocatable, language)}`}
                  />
                ) : (
                  "–"
                ),
              ],
              [
                t.overview.memory,
                row.memory ? (
                  <Amount
                    key="memory"
                    part={row.memory.requested}
                    whole={row.memory.allocatable}
                    text={bytesOf(row.memory.requested, row.memory.allocatable, language)}
                  />
                ) : (
                  "–"
                ),
              ],
            ]}
          />
        </Card>
      </div>
      <Card title={t.overview.warnings} flush>
        <Table
          label={t.overview.warnings}
          columns={columns}
          list={events.data}
          error={events.error}
          rowKey={eventKey}
          onOpen={(event) => navigate(eventPlace(event))}
          empty={<Empty title={t.overview.noWarnings}>{t.overview.noWarningsWhy}</Empty>}
        />
      </Card>
    </div>
  );
}

function Amount({ part, whole, text }: { part: number; whole: number; text: string }) {
  const t = useText();
  return (
    <span className="row">
      <Meter part={part} whole={whole} label={t.overview.requestedShare(percent(part, whole))} />
      <span className="number">{text}</span>
    </span>
  );
}

const NODE_FIELDS =
  "cluster,name,created,phase,phaseMessage,labels,spec.unschedulable,status.allocatable,status.nodeInfo,status.addresses";

export function Nodes({ name }: { name: string }) {
  const t = useText();
  const language = useLanguage();
  const state = useListState("name");
  const list = useList<FlatRow>(resources(name, NODES), state, { fields: NODE_FIELDS });
  const status = (row: FlatRow) => asFields(row.status);
  const place = (row: FlatRow, tab = "") => objectPlace({ ...NODES, cluster: name, name: row.name }, tab);
  const columns: Column<FlatRow>[] = [
    nameColumn(t.common.name, place),
    {
      name: "state",
      label: t.common.state,
      sort: "phase",
      cell: (row) => (
        <span className="row">
          <Phase word={row.phase} why={row.phaseMessage} />
          {asFields(row.spec).unschedulable === true && <Status tone="off" word={t.clusters.cordoned} />}
        </span>
      ),
    },
    { name: "roles", label: t.clusters.roles, cell: (row) => rolesOf(row.labels) || "–" },
    {
      name: "version",
      label: t.clusters.version,
      sort: "status.nodeInfo.kubeletVersion",
      cell: (row) => asText(asFields(status(row).nodeInfo).kubeletVersion) || "–",
    },
    {
      name: "ip",
      label: "IP",
      wide: true,
      cell: (row) => <span className="number">{internalAddress(status(row).addresses)}</span>,
    },
    {
      name: "cpu",
      label: t.overview.cpu,
      end: true,
      cell: (row) => <span className="number">{asText(asFields(status(row).allocatable).cpu) || "–"}</span>,
    },
    {
      name: "memory",
      label: t.overview.memory,
      end: true,
      cell: (row) => (
        <span className="number">{bytes(quantity(asText(asFields(status(row).allocatable).memory)), language)}</span>
      ),
    },
    { name: "created", label: t.common.age, sort: "created", end: true, cell: (row) => <Age of={row.created} /> },
  ];
  return (
    <>
      <div className="list-tools">
        <SearchBox value={state.q} />
      </div>
      <Table
        label={t.clusters.tabs.nodes}
        columns={columns}
        list={list.data}
        state={state}
        error={list.error}
        loading={list.isPlaceholderData}
        rowKey={(row) => row.name}
        onOpen={(row) => navigate(place(row))}
        keys={{
          d: (row) => navigate(place(row)),
          y: (row) => navigate(place(row, "yaml")),
          e: (row) => navigate(place(row, "yaml")),
        }}
        empty={
          <NothingFound state={state}>
            <Empty title={t.clusters.noNodes} />
          </NothingFound>
        }
      />
    </>
  );
}

const ROLE = "node-role.kubernetes.io/";
const rolesOf = (labels: Record<string, string> | undefined) =>
  Object.keys(labels ?? {})
    .filter((key) => key.startsWith(ROLE))
    .map((key) => key.slice(ROLE.length))
    .join(", ");
const internalAddress = (addresses: Json | undefined) =>
  asText(
    asList(addresses)
      .map(asFields)
      .find((one) => one.type === "InternalIP")?.address,
  ) || "–";

const WORKLOADS: (KindRef & { kind: string })[] = [
  { group: "apps", version: "v1", plural: "deployments", kind: "Deployment" },
  { group: "apps", version: "v1", plural: "statefulsets", kind: "StatefulSet" },
  { group: "apps", version: "v1", plural: "daemonsets", kind: "DaemonSet" },
  { group: "batch", version: "v1", plural: "jobs", kind: "Job" },
  { group: "batch", version: "v1", plural: "cronjobs", kind: "CronJob" },
];

export function Workloads({ name }: { name: string }) {
  const t = useText();
  const [plural, setPlural] = useParameter("kind", "deployments");
  const kind = WORKLOADS.find((one) => one.plural === plural) ?? WORKLOADS[0];
  const state = useListState("namespace,name");
  const list = useList<FlatRow>(kind ? resources(name, kind) : "", state, {
    fields: "cluster,name,namespace,created,phase,phaseMessage,labels,spec.replicas,status",
  });
  if (!kind) return null;
  const place = (row: FlatRow, tab = "") =>
    objectPlace({ ...kind, cluster: name, namespace: row.namespace, name: row.name }, tab);
  const columns: Column<FlatRow>[] = [
    nameColumn(t.common.name, place),
    { name: "namespace", label: t.common.namespace, sort: "namespace", cell: (row) => row.namespace },
    {
      name: "phase",
      label: t.common.state,
      sort: "phase",
      cell: (row) => <Phase word={row.phase} why={row.phaseMessage} />,
    },
    { name: "ready", label: t.pods.ready, end: true, cell: (row) => <span className="number">{readiness(row)}</span> },
    {
      name: "labels",
      label: t.common.labels,
      wide: true,
      long: true,
      cell: (row) => <Labels of={row.labels} most={3} />,
    },
    { name: "created", label: t.common.age, sort: "created", end: true, cell: (row) => <Age of={row.created} /> },
  ];
  return (
    <>
      <div className="list-tools">
        <SearchBox value={state.q} />
        <div className="chips">
          {WORKLOADS.map((one) => (
            <button
              key={one.plural}
              type="button"
              className="chip"
              aria-pressed={one === kind}
              onClick={() => setPlural(one.plural)}
            >
              {one.kind}
            </button>
          ))}
        </div>
      </div>
      <Table
        label={kind.kind}
        columns={columns}
        list={list.data}
        state={state}
        error={list.error}
        loading={list.isPlaceholderData}
        rowKey={(row) => `${row.namespace}/${row.name}`}
        onOpen={(row) => navigate(place(row))}
        keys={{
          d: (row) => navigate(place(row)),
          y: (row) => navigate(place(row, "yaml")),
          e: (row) => navigate(place(row, "yaml")),
        }}
        empty={
          <NothingFound state={state}>
            <Empty title={t.explore.empty(kind.kind)}>
              {t.explore.emptyWhy(`kubectl create -f ${kind.plural}.yaml`)}
            </Empty>
          </NothingFound>
        }
      />
    </>
  );
}

/** How many of the wanted pods are ready, whatever the kind calls them. */
export function readiness(row: FlatRow): string {
  const status = asFields(row.status);
  const count = (value: Json | undefined) => (typeof value === "number" ? value : 0);
  if (status.desiredNumberScheduled !== undefined)
    return `${count(status.numberReady)} / ${count(status.desiredNumberScheduled)}`;
  if (status.succeeded !== undefined || status.active !== undefined || status.failed !== undefined) {
    return `${count(status.succeeded)} / ${count(status.succeeded) + count(status.active) + count(status.failed)}`;
  }
  const wanted = asFields(row.spec).replicas;
  if (wanted === undefined && status.replicas === undefined) return "–";
  return `${count(status.readyReplicas)} / ${count(wanted ?? status.replicas)}`;
}

export function ClusterEvents({ name }: { name: string }) {
  const t = useText();
  const state = useListState("-last");
  const list = useList<EventRow>("/wapi/v1/events", state, { cluster: name });
  const columns = useEventColumns(false);
  return (
    <>
      <div className="list-tools">
        <SearchBox value={state.q} />
      </div>
      <Table
        label={t.nav.events}
        columns={columns}
        list={list.data}
        state={state}
        error={list.error}
        loading={list.isPlaceholderData}
        rowKey={eventKey}
        onOpen={(event) => navigate(eventPlace(event))}
        empty={
          <NothingFound state={state}>
            <Empty title={t.events.empty}>{t.events.emptyWhy}</Empty>
          </NothingFound>
        }
      />
    </>
  );
}
