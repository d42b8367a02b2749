// All members: state, version, how much they hold. A member that cannot be reached stays, with what was known last.
import { FileCode, FolderKanban, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { useList, useListState } from "../../api/hooks";
import { ALL, cluster } from "../../api/paths";
import type { ClusterRow } from "../../api/types";
import { useLanguage, useText } from "../../i18n";
import { importCommand } from "../../lib/commands";
import { number, percent } from "../../lib/format";
import { Link, navigate, useParameter } from "../../router/router";
import { Age, CommandLine, Labels, LinkButton, Meter, Page } from "../../ui/basics";
import { ClusterStatus } from "../../ui/cluster";
import { Menu } from "../../ui/menu";
import { Empty } from "../../ui/problem";
import { type Column, NothingFound, SearchBox, Table } from "../../ui/table";
import { DeleteCluster } from "./delete";

const place = (row: ClusterRow, tab = "") => `/clusters/${encodeURIComponent(row.name)}${tab && `/${tab}`}`;

export default function Clusters() {
  const t = useText();
  const language = useLanguage();
  const state = useListState("name");
  const [ready, setReady] = useParameter("ready");
  const [leaving, setLeaving] = useState<ClusterRow | null>(null);
  const own = ready ? "ready eq true" : "";
  const filter = [own, state.filter].filter(Boolean).join(" and ");
  const list = useList<ClusterRow>(cluster(ALL), { ...state, filter });
  const columns: Column<ClusterRow>[] = [
    {
      name: "name",
      label: t.common.name,
      sort: "name",
      cell: (row) => (
        <span className="row">
          <Link to={place(row)} className="strong">
            {row.name}
          </Link>
          {row.simulated && <span className="label">{t.clusters.simulated}</span>}
        </span>
      ),
    },
    {
      name: "state",
      label: t.common.state,
      sort: "state",
      cell: (row) => (
        <span className="row">
          <ClusterStatus cluster={row} />
          {row.state !== "Running" && row.since && (
            <span className="muted">
              <Age of={row.since} />
            </span>
          )}
        </span>
      ),
    },
    { name: "version", label: t.clusters.version, sort: "version", cell: (row) => row.version ?? "–" },
    {
      name: "nodes",
      label: t.overview.nodes,
      sort: "nodes",
      end: true,
      cell: (row) => <Of part={row.nodesReady} whole={row.nodes} />,
    },
    {
      name: "pods",
      label: t.nav.pods,
      sort: "pods",
      end: true,
      cell: (row) => <Of part={row.podsReady} whole={row.pods} />,
    },
    {
      name: "cpu",
      label: t.overview.cpuShort,
      wide: "some",
      cell: (row) =>
        row.cpu ? (
          <Meter
            part={row.cpu.requested}
            whole={row.cpu.allocatable}
            label={t.overview.requestedShare(percent(row.cpu.requested, row.cpu.allocatable))}
          />
        ) : (
          "–"
        ),
    },
    {
      name: "memory",
      label: t.overview.memoryShort,
      wide: "some",
      cell: (row) =>
        row.memory ? (
          <Meter
            part={row.memory.requested}
            whole={row.memory.allocatable}
            label={t.overview.requestedShare(percent(row.memory.requested, row.memory.allocatable))}
          />
        ) : (
          "–"
        ),
    },
    { name: "labels", label: t.common.labels, wide: true, long: true, cell: (row) => <Labels of={row.labels} /> },
    {
      name: "latency",
      label: t.clusters.latency,
      sort: "latencyMs",
      end: true,
      wide: true,
      cell: (row) => (
        <span className="number">{row.latencyMs === undefined ? "–" : `${number(row.latencyMs, language, 1)} ms`}</span>
      ),
    },
  ];
  return (
    <Page
      title={t.nav.clusters}
      subtitle={t.clusters.subtitle}
      actions={
        <LinkButton to="/clusters/import" look="primary" icon={Plus}>
          {t.clusters.import}
        </LinkButton>
      }
    >
      <div className="list-tools">
        <SearchBox value={state.q} />
        <button type="button" className="chip" aria-pressed={ready !== ""} onClick={() => setReady(ready ? null : "1")}>
          {t.clusters.onlyReady}
        </button>
      </div>
      <Table
        label={t.nav.clusters}
        columns={columns}
        list={list.data}
        state={state}
        error={list.error}
        loading={list.isPlaceholderData}
        retry={() => void list.refetch()}
        rowKey={(row) => row.name}
        onOpen={(row) => navigate(place(row))}
        keys={{ d: (row) => navigate(place(row)), y: (row) => navigate(place(row, "yaml")) }}
        actions={(row) => (
          <Menu
            label={t.lists.actionsOf(row.name)}
            items={[
              { label: t.clusters.open, icon: FolderKanban, act: () => navigate(place(row)) },
              { label: t.clusters.access, icon: FileCode, act: () => navigate(place(row, "access")) },
              { label: t.clusters.remove, icon: Trash2, danger: true, act: () => setLeaving(row) },
            ]}
          />
        )}
        empty={
          <NothingFound state={{ ...state, filter }}>
            <Empty
              title={t.overview.empty}
              action={
                <LinkButton to="/clusters/import" look="primary" icon={Plus}>
                  {t.clusters.import}
                </LinkButton>
              }
            >
              <p>{t.overview.emptyNext}</p>
              <CommandLine command={importCommand("prod")} />
            </Empty>
          </NothingFound>
        }
      />
      {leaving && <DeleteCluster name={leaving.name} onClose={() => setLeaving(null)} />}
    </Page>
  );
}

function Of({ part, whole }: { part: number | undefined; whole: number | undefined }) {
  const language = useLanguage();
  if (whole === undefined) return <span className="muted">–</span>;
  return (
    <span className={`number ${part !== whole ? "attention" : ""}`}>
      {number(part ?? 0, language)} / {number(whole, language)}
    </span>
  );
}
