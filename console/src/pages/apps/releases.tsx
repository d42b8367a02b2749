// Helm releases on members: of one application, or all.
import { useList, useListState } from "../../api/hooks";
import { ALL, releases } from "../../api/paths";
import type { ReleaseRow } from "../../api/types";
import { useText } from "../../i18n";
import { Age, CommandLine, Phase } from "../../ui/basics";
import { Empty } from "../../ui/problem";
import { type Column, NothingFound, SearchBox, Table } from "../../ui/table";

export function Releases({ scope, app = "all" }: { scope: string; app?: string }) {
  const t = useText();
  const state = useListState("cluster,namespace,name");
  const list = useList<ReleaseRow>(releases(scope, app), state);
  const columns: Column<ReleaseRow>[] = [
    { name: "name", label: t.common.name, sort: "name", cell: (row) => <span className="strong">{row.name}</span> },
    ...(scope === ALL
      ? [{ name: "cluster", label: t.common.cluster, sort: "cluster", cell: (row: ReleaseRow) => row.cluster }]
      : []),
    { name: "namespace", label: t.common.namespace, sort: "namespace", cell: (row) => row.namespace },
    { name: "status", label: t.common.state, sort: "status", cell: (row) => <Phase word={row.status} /> },
    { name: "chart", label: t.apps.chart, sort: "chart", cell: (row) => `${row.chart} ${row.chartVersion}` },
    {
      name: "appVersion",
      label: t.apps.appVersion,
      sort: "appVersion",
      wide: true,
      cell: (row) => row.appVersion || "–",
    },
    {
      name: "revision",
      label: t.apps.revision,
      sort: "revision",
      end: true,
      cell: (row) => <span className="number">{row.revision}</span>,
    },
    { name: "updated", label: t.apps.updated, sort: "updated", end: true, cell: (row) => <Age of={row.updated} /> },
  ];
  return (
    <>
      <div className="list-tools">
        <SearchBox value={state.q} />
      </div>
      <Table
        label={t.apps.releases}
        columns={columns}
        list={list.data}
        state={state}
        error={list.error}
        loading={list.isPlaceholderData}
        rowKey={(row) => `${row.cluster}/${row.namespace}/${row.name}`}
        empty={
          <NothingFound state={state}>
            <Empty title={t.apps.noReleases}>
              <p>{t.apps.noReleasesWhy}</p>
              <CommandLine command="helm install NAME CHART" />
            </Empty>
          </NothingFound>
        }
      />
    </>
  );
}
