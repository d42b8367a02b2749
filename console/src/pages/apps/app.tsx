// One application over all members: its pods by group, its releases, a restart of all of it or of one group.
import { RotateCw, ScrollText } from "lucide-react";
import { useState } from "react";
import { post } from "../../api/client";
import { refresh, useList, useListState } from "../../api/hooks";
import { ALL, appPods, PODS, restart } from "../../api/paths";
import type { PodRow, Restarted } from "../../api/types";
import { openLogs, openTerminal } from "../../dock/store";
import { useText } from "../../i18n";
import type { Params } from "../../router/match";
import { navigate, useParameter, useScope } from "../../router/router";
import { Age, Button, IconButton, Page, Status, Tabs, type Tone } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Field } from "../../ui/field";
import { Empty, Problem } from "../../ui/problem";
import { type Column, NothingFound, nameColumn, SearchBox, Table } from "../../ui/table";
import { toast } from "../../ui/toast";
import { objectPlace } from "../explore/place";
import { Releases } from "./releases";

const tone = (pod: PodRow): Tone => {
  if (pod.phase === "Succeeded") return "off";
  const [ready, of] = pod.ready.split("/");
  if (pod.phase === "Running" && ready === of) return "good";
  return pod.reason && pod.reason !== "ContainerCreating" ? "bad" : "busy";
};

export default function App({ params }: { params: Params }) {
  const t = useText();
  const app = params.app ?? "";
  const [scope] = useScope();
  const [tab] = useParameter("tab", "pods");
  const [group] = useParameter("group");
  const state = useListState("cluster,namespace,name");
  const [restarting, setRestarting] = useState(false);
  const list = useList<PodRow>(appPods(scope, app), state, { group: group || undefined }, tab === "pods");
  const rows = list.data?.items ?? [];
  const base = `/apps/${encodeURIComponent(app)}`;
  const groups = [...new Set(rows.map((pod) => pod.group).filter((one): one is string => Boolean(one)))];
  const place = (pod: PodRow, to = "") => objectPlace({ ...PODS, ...pod }, to);
  const columns: Column<PodRow>[] = [
    nameColumn(t.common.name, place),
    {
      name: "state",
      label: t.common.state,
      sort: "phase",
      cell: (pod) => <Status tone={tone(pod)} word={pod.reason || pod.phase} />,
    },
    ...(scope === ALL
      ? [{ name: "cluster", label: t.common.cluster, sort: "cluster", cell: (pod: PodRow) => pod.cluster }]
      : []),
    { name: "namespace", label: t.common.namespace, sort: "namespace", wide: true, cell: (pod) => pod.namespace },
    { name: "group", label: t.apps.group, sort: "group", cell: (pod) => pod.group || "–" },
    { name: "ready", label: t.pods.ready, end: true, cell: (pod) => <span className="number">{pod.ready}</span> },
    {
      name: "restarts",
      label: t.pods.restarts,
      sort: "restarts",
      end: true,
      cell: (pod) => <span className="number">{pod.restarts}</span>,
    },
    {
      name: "image",
      label: t.pods.image,
      sort: "image",
      wide: true,
      long: true,
      cell: (pod) => <span title={pod.image}>{pod.image}</span>,
    },
    { name: "created", label: t.common.age, sort: "created", end: true, cell: (pod) => <Age of={pod.created} /> },
  ];
  return (
    <Page
      title={app}
      subtitle={t.apps.subtitle}
      actions={
        <>
          {tab === "pods" && (
            <Button icon={ScrollText} disabled={rows.length === 0} onClick={() => openLogs(rows)}>
              {t.apps.logs}
            </Button>
          )}
          <Button icon={RotateCw} onClick={() => setRestarting(true)}>
            {t.explore.restart}
          </Button>
        </>
      }
    >
      <Tabs
        label={t.explore.tabs}
        current={tab}
        tabs={[
          { name: "pods", label: t.nav.pods, to: base },
          { name: "releases", label: t.apps.releases, to: `${base}?tab=releases` },
        ]}
      />
      {tab === "releases" ? (
        <Releases scope={scope} app={app} />
      ) : (
        <>
          <div className="list-tools">
            <SearchBox value={state.q} />
            <GroupChips groups={groups} chosen={group} />
          </div>
          <Table
            label={t.nav.pods}
            columns={columns}
            list={list.data}
            state={state}
            error={list.error}
            loading={list.isPlaceholderData}
            retry={() => void list.refetch()}
            rowKey={(pod) => `${pod.cluster}/${pod.namespace}/${pod.name}`}
            onOpen={(pod) => navigate(place(pod))}
            keys={{
              l: (pod) => openLogs([pod]),
              s: (pod) => openTerminal(pod),
              d: (pod) => navigate(place(pod)),
              y: (pod) => navigate(place(pod, "yaml")),
            }}
            actions={(pod) => (
              <IconButton icon={ScrollText} label={t.pods.logs(pod.name)} onClick={() => openLogs([pod])} />
            )}
            empty={
              <NothingFound state={state}>
                <Empty title={t.apps.empty(app)}>{t.apps.emptyWhy}</Empty>
              </NothingFound>
            }
          />
        </>
      )}
      {restarting && (
        <Restart
          app={app}
          scope={scope}
          namespace={rows[0]?.namespace ?? ""}
          group={group}
          onClose={() => setRestarting(false)}
        />
      )}
    </Page>
  );
}

function GroupChips({ groups, chosen }: { groups: string[]; chosen: string }) {
  const [, setGroup] = useParameter("group");
  const all = chosen && !groups.includes(chosen) ? [...groups, chosen] : groups;
  if (all.length === 0) return null;
  return (
    <div className="chips">
      {all.map((one) => (
        <button
          key={one}
          type="button"
          className="chip"
          aria-pressed={one === chosen}
          onClick={() => setGroup(one === chosen ? null : one)}
        >
          {one}
        </button>
      ))}
    </div>
  );
}

interface RestartProps {
  app: string;
  scope: string;
  namespace: string;
  group: string;
  onClose: () => void;
}

function Restart({ app, scope, namespace: first, group: preset, onClose }: RestartProps) {
  const t = useText();
  const [namespace, setNamespace] = useState(first);
  const [group, setGroup] = useState(preset);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const act = async () => {
    setBusy(true);
    setError(null);
    try {
      const done = await post<Restarted>(restart(scope, namespace, app, group));
      const failed = done.failed.map((one) => `${one.cluster}: ${one.message ?? one.reason ?? ""}`).join("\n");
      toast({
        tone: failed ? "bad" : "good",
        title: t.apps.restarted(done.restarted.length, done.failed.length),
        ...(failed && { detail: failed }),
      });
      onClose();
      await refresh();
    } catch (problem) {
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t.apps.restartTitle(app)}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{t.common.cancel}</Button>
          <Button look="danger" disabled={busy || !namespace} onClick={() => void act()}>
            {t.explore.restart}
          </Button>
        </>
      }
    >
      <p>{t.apps.restartWhat(scope === ALL ? t.frame.allClusters : scope)}</p>
      <Field
        label={t.common.namespace}
        value={namespace}
        required
        onChange={(event) => setNamespace(event.target.value)}
      />
      <Field
        label={t.apps.group}
        hint={t.apps.groupHint}
        value={group}
        onChange={(event) => setGroup(event.target.value)}
      />
      {error && <Problem error={error} compact />}
    </Dialog>
  );
}
