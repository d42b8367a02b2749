// A list of any kind.
import { FileCode, Plus, ScrollText, SquareTerminal, Trash2 } from "lucide-react";
import { useEffect, useState } from "react";
import { useList, useListState, useRead } from "../../api/hooks";
import { ALL, groupOf, kinds as kindsPath, META, type ObjectRef, resources, withQuery } from "../../api/paths";
import type { FlatRow, Kind } from "../../api/types";
import { openLogs, openTerminal } from "../../dock/store";
import { useText } from "../../i18n";
import type { Params } from "../../router/match";
import { Link, navigate, useScope } from "../../router/router";
import { Age, Button, Labels, LinkButton, Page, Phase } from "../../ui/basics";
import { Menu, type MenuItem } from "../../ui/menu";
import { Empty } from "../../ui/problem";
import { type Column, NothingFound, nameColumn, SearchBox, Table } from "../../ui/table";
import { readiness } from "../clusters/tabs";
import { cellText, type ServerColumn, useServerColumns } from "./columns";
import { DeleteObject, DeleteSeveral } from "./delete";
import { NamespacePicker } from "./namespaces";
import { objectPlace } from "./place";

const FIELDS = "cluster,name,namespace,created,deleting,phase,phaseMessage,labels,owner";
/** Kinds that have replicas show how many are ready. */
const COUNTED = new Set(["deployments", "statefulsets", "daemonsets", "replicasets", "jobs"]);

const keyOf = (row: FlatRow) => `${row.cluster}/${row.namespace ?? ""}/${row.name}`;

/** A column that the server named. What stands in it is text, whatever it looks like. */
function asColumn(said: ServerColumn): Column<FlatRow> {
  const number = said.type === "integer" || said.type === "number";
  return {
    name: `server ${said.name}`,
    label: said.name,
    ...(said.sort && { sort: said.sort }),
    wide: said.wide ? true : "some",
    end: number,
    long: said.type === "string",
    cell: (row) => {
      const text = cellText(row, said);
      if (said.type === "date") return <Age of={text} />;
      return text ? <span title={text}>{text}</span> : <span className="muted">–</span>;
    },
  };
}

export default function KindList({ params }: { params: Params }) {
  const t = useText();
  const [scope, setScope] = useScope();
  const kind = { group: groupOf(params.group ?? ""), version: params.version ?? "", plural: params.plural ?? "" };
  const state = useListState("cluster,namespace,name");
  const known = useRead<Kind[]>(kindsPath(scope), { once: true });
  const about = known.data?.find((one) => groupOf(one.group) === kind.group && one.plural === kind.plural);
  const title = about?.kind ?? kind.plural;
  const namespaced = about?.namespaced ?? true;
  const counted = COUNTED.has(kind.plural);
  const [first, setFirst] = useState<string>();
  const said = useServerColumns(kind, scope, first);
  const fields = [FIELDS, ...(counted ? ["spec.replicas", "status"] : []), ...said.map((one) => one.field)];
  const list = useList<FlatRow>(resources(scope, kind, namespaced ? state.namespace : undefined), state, {
    fields: fields.join(","),
  });
  // Of several clusters, one that has such objects says what they show.
  const found = list.data?.items[0]?.cluster;
  useEffect(() => {
    if (found) setFirst((now) => now ?? found);
  }, [found]);
  const [leaving, setLeaving] = useState<ObjectRef | null>(null);
  const [picked, setPicked] = useState<ReadonlyMap<string, ObjectRef>>(new Map());
  const [severing, setSevering] = useState(false);

  const refOf = (row: FlatRow): ObjectRef => ({
    ...kind,
    cluster: row.cluster || scope,
    namespace: row.namespace,
    name: row.name,
  });
  const place = (row: FlatRow, tab = "") => objectPlace(refOf(row), tab);
  const isPod = kind.plural === "pods" && kind.group === "";
  const podOf = (row: FlatRow) => ({ cluster: row.cluster, namespace: row.namespace ?? "", name: row.name });
  const columns: Column<FlatRow>[] = [
    nameColumn(t.common.name, place),
    {
      name: "phase",
      label: t.common.state,
      sort: "phase",
      cell: (row) => <Phase word={row.phase} why={row.phaseMessage} />,
    },
    ...(scope === ALL
      ? [{ name: "cluster", label: t.common.cluster, sort: "cluster", cell: (row: FlatRow) => row.cluster }]
      : []),
    ...(namespaced
      ? [
          {
            name: "namespace",
            label: t.common.namespace,
            sort: "namespace",
            cell: (row: FlatRow) => row.namespace ?? "–",
          },
        ]
      : []),
    ...(counted
      ? [
          {
            name: "ready",
            label: t.pods.ready,
            end: true,
            cell: (row: FlatRow) => <span className="number">{readiness(row)}</span>,
          },
        ]
      : []),
    ...said.map(asColumn),
    ...(said.length === 0
      ? [
          {
            name: "owner",
            label: t.explore.owner,
            sort: "owner",
            wide: true,
            cell: (row: FlatRow) => row.owner ?? "–",
          },
        ]
      : []),
    ...(said.length < 3
      ? [
          {
            name: "labels",
            label: t.common.labels,
            wide: true,
            long: true,
            cell: (row: FlatRow) => <Labels of={row.labels} most={3} />,
          },
        ]
      : []),
    { name: "created", label: t.common.age, sort: "created", end: true, cell: (row) => <Age of={row.created} /> },
  ];
  const items = (row: FlatRow): MenuItem[] => [
    ...(isPod
      ? [
          { label: t.logs.title, icon: ScrollText, hint: "l", act: () => openLogs([podOf(row)]) },
          { label: t.pods.terminal, icon: SquareTerminal, hint: "s", act: () => openTerminal(podOf(row)) },
        ]
      : []),
    { label: "YAML", icon: FileCode, hint: "y", act: () => navigate(place(row, "yaml")) },
    { label: t.common.delete, icon: Trash2, danger: true, act: () => setLeaving(refOf(row)) },
  ];
  return (
    <Page
      title={title}
      subtitle={
        <>
          <Link to="/explore">{t.nav.explore}</Link> / {params.group}/{kind.version} · {kind.plural}
        </>
      }
      actions={
        picked.size > 0 ? (
          <>
            <Button look="danger" icon={Trash2} onClick={() => setSevering(true)}>
              {t.explore.deleteSeveral(picked.size)}
            </Button>
            <Button onClick={() => setPicked(new Map())}>{t.lists.unselect}</Button>
          </>
        ) : (
          <LinkButton
            icon={Plus}
            to={withQuery("/explore/new", {
              api: kind.group ? `${kind.group}/${kind.version}` : kind.version,
              kind: about?.kind,
              ns: namespaced ? state.namespace || "default" : undefined,
            })}
          >
            {t.explore.create}
          </LinkButton>
        )
      }
    >
      <div className="list-tools">
        <SearchBox value={state.q} />
        {namespaced && <NamespacePicker scope={scope} value={state.namespace} />}
        <SearchBox value={state.filter} name="filter" />
        <SearchBox value={state.labelSelector} name="labels" />
        <button
          type="button"
          className="chip"
          aria-pressed={scope === META}
          onClick={() => setScope(scope === META ? ALL : META)}
        >
          {t.explore.onMeta}
        </button>
      </div>
      <Table
        label={title}
        columns={columns}
        list={list.data}
        state={state}
        error={list.error}
        loading={list.isPlaceholderData}
        retry={() => void list.refetch()}
        rowKey={keyOf}
        selected={new Set(picked.keys())}
        onSelect={(row, on) => {
          const next = new Map(picked);
          if (on) next.set(keyOf(row), refOf(row));
          else next.delete(keyOf(row));
          setPicked(next);
        }}
        onOpen={(row) => navigate(place(row))}
        keys={{
          d: (row) => navigate(place(row)),
          y: (row) => navigate(place(row, "yaml")),
          e: (row) => navigate(place(row, "yaml")),
          ...(isPod && { l: (row: FlatRow) => openLogs([podOf(row)]), s: (row: FlatRow) => openTerminal(podOf(row)) }),
        }}
        actions={(row) => <Menu label={t.lists.actionsOf(row.name)} items={items(row)} />}
        empty={
          <NothingFound state={state}>
            <Empty title={t.explore.empty(title)}>{t.explore.emptyWhy(`kubectl create -f ${kind.plural}.yaml`)}</Empty>
          </NothingFound>
        }
      />
      {severing && (
        <DeleteSeveral
          objects={[...picked.values()]}
          kind={title}
          onClose={() => setSevering(false)}
          onDone={(left) => {
            setPicked(new Map([...picked].filter(([, one]) => left.includes(one))));
            if (left.length === 0) setSevering(false);
          }}
        />
      )}
      {leaving && (
        <DeleteObject refers={leaving} kind={title} onClose={() => setLeaving(null)} onDone={() => setLeaving(null)} />
      )}
    </Page>
  );
}
