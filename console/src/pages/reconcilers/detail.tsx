// One reconciler: its queue, its phase machine as a graph, and where its objects are in it.
import { FileCode, RotateCw } from "lucide-react";
import { lazy, Suspense, useMemo } from "react";
import { post } from "../../api/client";
import { refresh, useList, useListState, useRead } from "../../api/hooks";
import { APIEXT, ext, groupOf, META, type ObjectRef, withQuery } from "../../api/paths";
import { asFields } from "../../api/pods";
import type { Controllers, ExtKind, FlatRow, List } from "../../api/types";
import { useText } from "../../i18n";
import type { Params } from "../../router/match";
import { Link, navigate } from "../../router/router";
import { Age, Button, Card, CommandLine, Facts, LinkButton, Page, Phase, Spinner } from "../../ui/basics";
import { Menu, type MenuItem } from "../../ui/menu";
import { Empty, explain, Problem } from "../../ui/problem";
import { type Column, NothingFound, nameColumn, SearchBox, Table } from "../../ui/table";
import { toast } from "../../ui/toast";
import { objectPlace } from "../explore/place";
import { ControllerStatus, controllersPath, LastError, Switch, useRequeue } from "./list";

const Graph = lazy(() => import("./graph"));

export default function Reconciler({ params }: { params: Params }) {
  const t = useText();
  const name = params.name ?? "";
  const found = useRead<Controllers>(controllersPath);
  const one = found.data?.items.find((controller) => controller.name === name);
  const requeue = useRequeue();
  const kinds = useRead<{ items: ExtKind[] }>(APIEXT, { once: true });
  const kind =
    one &&
    kinds.data?.items.find(
      (known) => groupOf(known.group) === one.group && known.kind === one.kind && known.version === one.version,
    );
  const state = useListState("namespace,name");
  const ref = kind && { group: groupOf(kind.group), version: kind.version, plural: kind.plural };
  const path = ref ? ext(ref) : "";
  const list = useList<FlatRow>(
    path,
    state,
    { fields: "name,namespace,created,phase,phaseMessage,status.attempts,status.nextAttemptAt" },
    ref !== undefined,
  );
  // Of all objects, whatever page of them is shown: the server counts.
  const machine = one?.graph !== undefined;
  const counted = useRead<List<FlatRow>>(withQuery(path, { pageSize: 0, countBy: "phase" }), {
    enabled: ref !== undefined && machine,
    keep: false,
  });
  const counts = useMemo(() => new Map(Object.entries(counted.data?.counts ?? {})), [counted.data]);
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
  const keyOf = (row: FlatRow) => (row.namespace ? `${row.namespace}/${row.name}` : row.name);
  const act = async (row: FlatRow, action: string) => {
    try {
      await post(`${ext(ref as ObjectRef, row.namespace, row.name)}/${encodeURIComponent(action)}`);
      toast({ tone: "good", title: t.explore.actionDone(action, row.name) });
      await refresh();
    } catch (problem) {
      const said = explain(problem, t);
      toast({ tone: "bad", title: said.what, detail: said.why });
    }
  };
  const words: Record<string, string> = t.reconcilers.actions;
  const items = (row: FlatRow): MenuItem[] => [
    {
      label: t.reconcilers.requeue,
      icon: RotateCw,
      hint: "r",
      disabled: !one.enabled,
      act: () => void requeue(one.name, keyOf(row)),
    },
    ...(kind?.actions ?? []).flatMap((action) =>
      words[action] ? [{ label: words[action], act: () => void act(row, action) }] : [],
    ),
    { label: "YAML", icon: FileCode, hint: "y", act: () => navigate(`${place(row)}/yaml`) },
  ];
  const columns: Column<FlatRow>[] = [
    nameColumn(t.common.name, place),
    { name: "namespace", label: t.common.namespace, sort: "namespace", cell: (row) => row.namespace ?? "–" },
    {
      name: "phase",
      label: t.reconcilers.phase,
      sort: "phase",
      cell: (row) => <Phase word={row.phase} why={row.phaseMessage} />,
    },
    { name: "why", label: t.events.message, long: true, cell: (row) => row.phaseMessage ?? "–" },
    ...(machine
      ? [
          {
            name: "attempts",
            label: t.reconcilers.attempts,
            sort: "status.attempts",
            end: true,
            wide: true,
            cell: (row: FlatRow) => <span className="number">{String(asFields(row.status).attempts ?? 0)}</span>,
          },
        ]
      : []),
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
      actions={
        <>
          <Button icon={RotateCw} disabled={!one.enabled} onClick={() => void requeue(one.name)}>
            {t.reconcilers.requeueAll}
          </Button>
          <Switch controller={one} />
        </>
      }
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
              [t.reconcilers.errors, String(one.errors)],
              [t.reconcilers.retries, String(one.retries)],
              [t.reconcilers.failing, String(one.failing)],
              [t.reconcilers.lastError, <LastError key="last" controller={one} />],
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
              rowKey={keyOf}
              onOpen={(row) => navigate(place(row))}
              keys={{
                d: (row) => navigate(place(row)),
                y: (row) => navigate(`${place(row)}/yaml`),
                ...(one.enabled && { r: (row: FlatRow) => void requeue(one.name, keyOf(row)) }),
              }}
              actions={(row) => <Menu label={t.lists.actionsOf(row.name)} items={items(row)} />}
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
