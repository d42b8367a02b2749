// Pods of all members. Several can be picked and their logs read together.
import { FileCode, ScrollText, SquareTerminal, Trash2 } from "lucide-react";
import { useState } from "react";
import { useList, useListState } from "../../api/hooks";
import { ALL, PODS, type PodRef, resources } from "../../api/paths";
import { POD_FIELDS, type PodFacts, podFacts } from "../../api/pods";
import type { FlatRow, List } from "../../api/types";
import { openLogs, openTerminal } from "../../dock/store";
import { useText } from "../../i18n";
import { navigate, useParameter, useScope } from "../../router/router";
import { Age, Button, IconButton, Page, Status, type Tone } from "../../ui/basics";
import { Menu } from "../../ui/menu";
import { Empty } from "../../ui/problem";
import { type Column, NothingFound, nameColumn, SearchBox, Table } from "../../ui/table";
import { DeleteObject } from "../explore/delete";
import { NamespacePicker } from "../explore/namespaces";
import { objectPlace } from "../explore/place";

export const toneOfPod: Record<PodFacts["well"], Tone> = { good: "good", busy: "busy", bad: "bad", done: "off" };
const key = (pod: PodRef) => `${pod.cluster}/${pod.namespace}/${pod.name}`;
const place = (pod: PodRef, tab = "") => objectPlace({ ...PODS, ...pod }, tab);

export function usePodColumns(all: boolean): Column<PodFacts>[] {
  const t = useText();
  return [
    nameColumn(t.common.name, place),
    {
      name: "state",
      label: t.common.state,
      sort: "phase",
      cell: (pod) => <Status tone={toneOfPod[pod.well]} word={pod.word} why={pod.why} />,
    },
    ...(all
      ? [{ name: "cluster", label: t.common.cluster, sort: "cluster", cell: (pod: PodFacts) => pod.cluster }]
      : []),
    { name: "namespace", label: t.common.namespace, sort: "namespace", wide: "some", cell: (pod) => pod.namespace },
    { name: "ready", label: t.pods.ready, end: true, cell: (pod) => <span className="number">{pod.ready}</span> },
    {
      name: "restarts",
      label: t.pods.restarts,
      end: true,
      cell: (pod) => <span className={`number ${pod.restarts > 0 ? "attention" : ""}`}>{pod.restarts}</span>,
    },
    { name: "node", label: t.pods.node, sort: "spec.nodeName", wide: true, cell: (pod) => pod.node || "–" },
    { name: "ip", label: "IP", wide: true, cell: (pod) => <span className="number">{pod.ip || "–"}</span> },
    { name: "created", label: t.common.age, sort: "created", end: true, cell: (pod) => <Age of={pod.created} /> },
  ];
}

export default function Pods() {
  const t = useText();
  const [scope] = useScope();
  const [ill, setIll] = useParameter("ill");
  const state = useListState("cluster,namespace,name");
  const [picked, setPicked] = useState<ReadonlyMap<string, PodRef>>(new Map());
  const [leaving, setLeaving] = useState<PodFacts | null>(null);
  const own = ill ? "phase notin (Running, Succeeded) or status.containerStatuses.ready eq false" : "";
  const filter = own && state.filter ? `(${own}) and (${state.filter})` : own || state.filter;
  const raw = useList<FlatRow>(resources(scope, PODS, state.namespace), { ...state, filter }, { fields: POD_FIELDS });
  const list: List<PodFacts> | undefined = raw.data && { ...raw.data, items: raw.data.items.map(podFacts) };
  const columns = usePodColumns(scope === ALL);
  const pick = (pod: PodFacts, on: boolean) => {
    const next = new Map(picked);
    if (on) next.set(key(pod), pod);
    else next.delete(key(pod));
    setPicked(next);
  };
  return (
    <Page
      title={t.nav.pods}
      subtitle={t.pods.subtitle}
      actions={
        picked.size > 0 && (
          <>
            <Button look="primary" icon={ScrollText} onClick={() => openLogs([...picked.values()])}>
              {t.pods.logsOf(picked.size)}
            </Button>
            <Button onClick={() => setPicked(new Map())}>{t.lists.unselect}</Button>
          </>
        )
      }
    >
      <div className="list-tools">
        <SearchBox value={state.q} />
        <NamespacePicker scope={scope} value={state.namespace} />
        <button type="button" className="chip" aria-pressed={ill !== ""} onClick={() => setIll(ill ? null : "1")}>
          {t.pods.onlyIll}
        </button>
        <SearchBox value={state.labelSelector} name="labels" />
      </div>
      <Table
        label={t.nav.pods}
        columns={columns}
        list={list}
        state={state}
        error={raw.error}
        loading={raw.isPlaceholderData}
        retry={() => void raw.refetch()}
        rowKey={key}
        selected={new Set(picked.keys())}
        onSelect={pick}
        onOpen={(pod) => navigate(place(pod))}
        keys={{
          l: (pod) => openLogs([pod]),
          s: (pod) => openTerminal(pod),
          d: (pod) => navigate(place(pod)),
          y: (pod) => navigate(place(pod, "yaml")),
          e: (pod) => navigate(place(pod, "yaml")),
        }}
        actions={(pod) => (
          <>
            <IconButton icon={ScrollText} label={t.pods.logs(pod.name)} onClick={() => openLogs([pod])} />
            <Menu
              label={t.lists.actionsOf(pod.name)}
              items={[
                { label: t.pods.terminal, icon: SquareTerminal, hint: "s", act: () => openTerminal(pod) },
                { label: "YAML", icon: FileCode, hint: "y", act: () => navigate(place(pod, "yaml")) },
                { label: t.common.delete, icon: Trash2, danger: true, act: () => setLeaving(pod) },
              ]}
            />
          </>
        )}
        empty={
          <NothingFound state={{ ...state, filter }}>
            <Empty title={t.pods.empty}>{t.pods.emptyWhy}</Empty>
          </NothingFound>
        }
      />
      {leaving && (
        <DeleteObject
          refers={{ ...PODS, cluster: leaving.cluster, namespace: leaving.namespace, name: leaving.name }}
          kind="Pod"
          onClose={() => setLeaving(null)}
          onDone={() => setLeaving(null)}
        />
      )}
    </Page>
  );
}
