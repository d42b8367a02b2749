// One member: overview, nodes, workloads, events, access, YAML.
import { Trash2 } from "lucide-react";
import { useState } from "react";
import { useRead } from "../../api/hooks";
import { cluster, META } from "../../api/paths";
import type { ClusterRow, List } from "../../api/types";
import { useLanguage, useText } from "../../i18n";
import { useNow } from "../../lib/clock";
import { age } from "../../lib/format";
import type { Params } from "../../router/match";
import { Button, Labels, Page, Spinner, Tabs } from "../../ui/basics";
import { ClusterStatus } from "../../ui/cluster";
import { Empty, Problem } from "../../ui/problem";
import { Releases } from "../apps/releases";
import { ObjectYaml } from "../explore/yaml";
import { Access } from "./access";
import { DeleteCluster } from "./delete";
import { ClusterEvents, ClusterOverview, Nodes, Workloads } from "./tabs";

export default function ClusterDetail({ params }: { params: Params }) {
  const t = useText();
  const language = useLanguage();
  const now = useNow();
  const name = params.name ?? "";
  const tab = params.tab ?? "overview";
  const [leaving, setLeaving] = useState(false);
  const found = useRead<List<ClusterRow> | ClusterRow>(cluster(name));
  const row = found.data && ("items" in found.data ? found.data.items[0] : found.data);
  const base = `/clusters/${encodeURIComponent(name)}`;
  const tabs = (
    [
      ["overview", t.clusters.tabs.overview],
      ["nodes", t.clusters.tabs.nodes],
      ["workloads", t.clusters.tabs.workloads],
      ["releases", t.clusters.tabs.releases],
      ["events", t.clusters.tabs.events],
      ["access", t.clusters.tabs.access],
      ["yaml", "YAML"],
    ] as const
  ).map(([key, label]) => ({ name: key, label, to: key === "overview" ? base : `${base}/${key}` }));

  return (
    <Page
      name={name}
      title={
        <span className="row">
          {name} {row && <ClusterStatus cluster={row} />}
        </span>
      }
      subtitle={row && <Subtitle row={row} />}
      actions={
        <Button icon={Trash2} onClick={() => setLeaving(true)}>
          {t.clusters.remove}
        </Button>
      }
    >
      {found.error && <Problem error={found.error} retry={() => void found.refetch()} compact={row !== undefined} />}
      {row?.state === "Unreachable" && (
        <p className="banner bad" role="status">
          {t.clusters.unreachable(age(row.since, now, language))} {row.error}
        </p>
      )}
      <Tabs label={t.clusters.tabs.title} tabs={tabs} current={tab} />
      {!row ? (
        !found.error && <Spinner label={t.common.loading} />
      ) : tab === "nodes" ? (
        <Nodes name={name} />
      ) : tab === "workloads" ? (
        <Workloads name={name} />
      ) : tab === "releases" ? (
        <Releases scope={name} />
      ) : tab === "events" ? (
        <ClusterEvents name={name} />
      ) : tab === "access" ? (
        <Access name={name} />
      ) : tab === "yaml" ? (
        <MemberYaml row={row} />
      ) : (
        <ClusterOverview row={row} />
      )}
      {leaving && <DeleteCluster name={name} onClose={() => setLeaving(false)} />}
    </Page>
  );
}

function Subtitle({ row }: { row: ClusterRow }) {
  const t = useText();
  return (
    <span className="row">
      {row.version && <span>{row.version}</span>}
      {row.simulated && <span className="label">{t.clusters.simulated}</span>}
      <Labels of={row.labels} />
    </span>
  );
}

/** A member is declared by a Secret or ConfigMap of the meta API; that is what can be edited. Its credentials stay hidden. */
function MemberYaml({ row }: { row: ClusterRow }) {
  const t = useText();
  const origin = /^(Secret|ConfigMap) ([^/]+)\/(.+)$/.exec(row.origin ?? "");
  const [, kind, namespace = "", object = ""] = origin ?? [];
  if (!kind) return <Empty title={t.clusters.noObject}>{t.clusters.noObjectWhy(row.origin ?? "–")}</Empty>;
  const plural = kind === "Secret" ? "secrets" : "configmaps";
  return <ObjectYaml refers={{ cluster: META, group: "", version: "v1", plural, namespace, name: object }} />;
}
