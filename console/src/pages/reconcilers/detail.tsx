// One reconciler: its queue, its phase machine as a graph, and where its objects are in it.
import { lazy, Suspense } from "react";
import { useList, useListState, useRead } from "../../api/hooks";
import { groupOf, kinds as kindsPath, META, type ObjectRef, resources } from "../../api/paths";
import type { Controllers, FlatRow, Kind } from "../../api/types";
import { useText } from "../../i18n";
import type { Params } from "../../router/match";
import { Link, navigate } from "../../router/router";
import { Age, Card, CommandLine, Facts, LinkButton, Page, Phase, Spinner } from "../../ui/basics";
import { Empty, Problem } from "../../ui/problem";
import { type Column, NothingFound, SearchBox, Table } from "../../ui/table";
import { objectPlace } from "../explore/place";
import { ControllerStatus, controllersPath, Switch } from "./list";

const Graph = lazy(() => import("./graph"));

export default function Reconciler({ params }: { params: Params }) {
  const t = useText();
  const name = params.name ?? "";
  const found = useRead<Controllers>(controllersPath);
  const one = found.data?.items.find((controller) => controller.name === name);
  const kinds = useRead<Kind[]>(kindsPath(META), { once: true });
  const kind =
    one &&
    kinds.data?.find(
      (known) => groupOf(known.group) === one.group && known.kind === one.kind && known.version === one.version,
    );
  const state = useListState("namespace,name");
  const ref = kind && { group: groupOf(kind.group), version: kind.version, plural: kind.plural };
  const list = useList<FlatRow>(
    ref ? resources(META, ref) : "",
    state,
    { fields: "cluster,name,namespace,created,phase,phaseMessage" },
    ref !== undefined,
  );
  if (!one) {
    return (
      <Page title={name}>
        {found.error ? (
          <Problem error={found.error} retry={() => void found.refetch()} />
        ) : found.data ? (
          <Empty title={t.reconcilers.gone} action={<LinkButton to="/reconcilers">{t.nav.reconcilers}</LinkButton>} />
        ) : (
          <Spinner label={t.common.loading} />
        )}
      </Page>
    );
  }
  const place = (row: FlatRow) =>
    objectPlace({ ...(ref as ObjectRef), cluster: META, namespace: row.namespace, name: row.name });
  const rows = list.data?.items ?? [];
  const counts = new Map<string, number>();
  for (const row of rows) if (row.phase) counts.set(row.phase, (counts.get(row.phase) ?? 0) + 1);
  const columns: Column<FlatRow>[] = [
    {
      name: "name",
      label: t.common.name,
      sort: "name",
      cell: (row) => (
        <Link to={place(row)} className="strong">
          {row.name}
        </Link>
      ),
    },
    { name: "namespace", label: t.common.namespace, sort: "namespace", cell: (row) => row.namespace ?? "–" },
    {
      name: "phase",
      label: t.reconcilers.phase,
      sort: "phase",
      cell: (row) => <Phase word={row.phase} why={row.phaseMessage} />,
    },
    { name: "why", label: t.events.message, long: true, cell: (row) => row.phaseMessage ?? "–" },
    { name: "created", label: t.common.age, sort: "created", end: true, cell: (row) => <Age of={row.created} /> },
  ];
  return (
    <Page
      name={one.name}
      title={
        <span className="row">
          {one.name} <ControllerStatus controller={one} />
        </span>
      }
      subtitle={
        <>
          <Link to="/reconcilers">{t.nav.reconcilers}</Link> / {one.group ? `${one.group}/` : ""}
          {one.version} {one.kind}
        </>
      }
      actions={<Switch controller={one} />}
    >
      <div className="stack">
        {one.graph && (
          <Card title={t.reconcilers.machine}>
            <Suspense fallback={<Spinner label={t.common.loading} />}>
              <Graph graph={one.graph} counts={counts} label={t.reconcilers.machineOf(one.kind)} />
            </Suspense>
          </Card>
        )}
        <Card title={t.reconcilers.queue}>
          <Facts
            facts={[
              [t.reconcilers.waiting, String(one.queue.ready)],
              [t.reconcilers.working, String(one.queue.running)],
              [t.reconcilers.delayed, String(one.queue.delayed)],
              [t.reconcilers.concurrency, String(one.concurrency)],
            ]}
          />
        </Card>
        {kind && (
          <Card title={t.reconcilers.objects(kind.kind)} flush>
            <div className="list-tools inset">
              <SearchBox value={state.q} />
            </div>
            <Table
              label={kind.kind}
              columns={columns}
              list={list.data}
              state={state}
              error={list.error}
              rowKey={(row) => `${row.namespace}/${row.name}`}
              onOpen={(row) => navigate(place(row))}
              empty={
                <NothingFound state={state}>
                  <Empty title={t.explore.empty(kind.kind)}>
                    <CommandLine command={`kubectl apply -f ${kind.kind.toLowerCase()}.yaml`} />
                  </Empty>
                </NothingFound>
              }
            />
          </Card>
        )}
      </div>
    </Page>
  );
}
