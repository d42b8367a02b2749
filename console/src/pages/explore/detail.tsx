// One object of any kind. Pods have a page of their own inside this one.
import { CloudOff, ScrollText, SquareTerminal, Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";
import { post } from "../../api/client";
import { refresh, useRead } from "../../api/hooks";
import { groupOf, kinds as kindsPath, type ObjectRef, object, withQuery } from "../../api/paths";
import { asFields, asList, asText, type Fields } from "../../api/pods";
import type { EventRow, FlatRow, Kind, List } from "../../api/types";
import { openLogs, openTerminal } from "../../dock/store";
import { useLanguage, useText } from "../../i18n";
import { fullTime } from "../../lib/format";
import type { Params } from "../../router/match";
import { Link, navigate } from "../../router/router";
import { Age, Button, Card, Facts, Labels, Page, Phase, Spinner, Status, Tabs } from "../../ui/basics";
import { Empty, explain, Problem } from "../../ui/problem";
import { ShortTable, Table } from "../../ui/table";
import { toast } from "../../ui/toast";
import { eventKey, useEventColumns } from "../events/events";
import { eventPlace } from "../events/place";
import { DeleteObject } from "./delete";
import { kindPlace, objectPlace } from "./place";
import { PodParts } from "./pod";
import { Scale } from "./scale";
import { ObjectYaml } from "./yaml";

const SCALED = new Set(["deployments", "statefulsets", "replicasets"]);
const RESTARTED = new Set(["deployments", "statefulsets", "daemonsets"]);
const PAUSED = new Set(["deployments", "jobs", "cronjobs"]);

export default function ObjectDetail({ params }: { params: Params }) {
  const t = useText();
  const refers: ObjectRef = {
    cluster: params.cluster ?? "",
    group: groupOf(params.group ?? ""),
    version: params.version ?? "",
    plural: params.plural ?? "",
    namespace: params.namespace === "-" ? undefined : params.namespace,
    name: params.name ?? "",
  };
  const tab = params.tab ?? "about";
  const [over, setOver] = useState<"delete" | "scale" | null>(null);
  const found = useRead<FlatRow>(object(refers), { keep: false });
  const row = found.data;
  const isPod = refers.plural === "pods" && refers.group === "";
  const pod = { cluster: refers.cluster, namespace: refers.namespace ?? "", name: refers.name };
  const kinds = useRead<Kind[]>(kindsPath(refers.cluster), { once: true });
  const about = kinds.data?.find((one) => groupOf(one.group) === refers.group && one.plural === refers.plural);
  const kind = about?.kind ?? refers.plural;
  const tabs = [
    { name: "about", label: t.explore.about, to: objectPlace(refers) },
    { name: "events", label: t.nav.events, to: objectPlace(refers, "events") },
    { name: "yaml", label: "YAML", to: objectPlace(refers, "yaml") },
  ];
  const act = async (action: string) => {
    try {
      await post(`${object(refers)}/${action}`);
      toast({ tone: "good", title: t.explore.actionDone(action, refers.name) });
      await refresh();
    } catch (problem) {
      const said = explain(problem, t);
      toast({ tone: "bad", title: said.what, detail: said.why });
    }
  };
  const paused = asFields(row?.spec).paused === true || asFields(row?.spec).suspend === true;
  return (
    <Page
      name={refers.name}
      title={
        <span className="row">
          {refers.name} {row?.phase && <Phase word={row.phase} why={row.phaseMessage} />}
        </span>
      }
      subtitle={
        <>
          <Link to={kindPlace(refers)}>{kind}</Link> · {refers.cluster}
          {refers.namespace && ` / ${refers.namespace}`}
        </>
      }
      actions={
        <>
          {isPod && (
            <>
              <Button icon={ScrollText} onClick={() => openLogs([pod])}>
                {t.logs.title}
              </Button>
              <Button icon={SquareTerminal} onClick={() => openTerminal(pod)}>
                {t.pods.terminal}
              </Button>
            </>
          )}
          {SCALED.has(refers.plural) && <Button onClick={() => setOver("scale")}>{t.explore.scale}</Button>}
          {RESTARTED.has(refers.plural) && <Button onClick={() => void act("restart")}>{t.explore.restart}</Button>}
          {PAUSED.has(refers.plural) && (
            <Button onClick={() => void act(paused ? "resume" : "pause")}>
              {paused ? t.explore.resume : t.explore.pause}
            </Button>
          )}
          <Button icon={Trash2} onClick={() => setOver("delete")}>
            {t.common.delete}
          </Button>
        </>
      }
    >
      <Tabs label={t.explore.tabs} tabs={tabs} current={tab} />
      {row?.stale && <AsLastSeen since={row.stale[0]?.since} cluster={refers.cluster} />}
      {found.error && !row ? (
        <Problem error={found.error} retry={() => void found.refetch()} />
      ) : !row ? (
        <Spinner label={t.common.loading} />
      ) : tab === "yaml" ? (
        <ObjectYaml refers={refers} old={row.stale !== undefined} />
      ) : tab === "events" ? (
        <ObjectEvents refers={refers} />
      ) : (
        <About row={row} refers={refers}>
          {isPod && <PodParts row={row} pod={pod} />}
        </About>
      )}
      {over === "delete" && (
        <DeleteObject
          refers={refers}
          kind={kind}
          onClose={() => setOver(null)}
          onDone={() => navigate(kindPlace(refers))}
        />
      )}
      {over === "scale" && (
        <Scale refers={refers} replicas={Number(asFields(row?.spec).replicas ?? 0)} onClose={() => setOver(null)} />
      )}
    </Page>
  );
}

/** The cluster cannot be asked: this is what was known last. */
function AsLastSeen({ since, cluster }: { since: string | undefined; cluster: string }) {
  const t = useText();
  return (
    <p className="banner warn" role="status">
      <CloudOff size={15} aria-hidden /> {t.explore.stale(cluster)} <Age of={since} />
    </p>
  );
}

function About({ row, refers, children }: { row: FlatRow; refers: ObjectRef; children?: ReactNode }) {
  const t = useText();
  const conditions = asList(asFields(row.status).conditions).map(asFields);
  const facts: [string, ReactNode][] = [
    [
      t.common.cluster,
      <Link
        key="cluster"
        to={refers.cluster === "meta" ? "/explore?scope=meta" : `/clusters/${encodeURIComponent(refers.cluster)}`}
      >
        {refers.cluster}
      </Link>,
    ],
    [t.common.created, <Age key="age" of={row.created} />],
    [t.explore.owner, row.owner ?? "–"],
    [t.common.labels, <Labels key="labels" of={row.labels} most={20} />],
    [t.explore.annotations, <Labels key="annotations" of={row.annotations} most={8} />],
  ];
  if (row.finalizers?.length) facts.push([t.explore.finalizers, row.finalizers.join(", ")]);
  const language = useLanguage();
  const { attempts, nextAttemptAt } = asFields(row.status);
  if (typeof attempts === "number" && attempts > 0) facts.push([t.reconcilers.attempts, String(attempts)]);
  if (nextAttemptAt) facts.push([t.reconcilers.nextAttempt, fullTime(asText(nextAttemptAt), language)]);
  if (row.deleting) facts.push([t.explore.deleting, <Age key="deleting" of={row.deleting} />]);
  return (
    <div className="stack">
      {row.phaseMessage && row.phase !== "Running" && <p className="banner">{row.phaseMessage}</p>}
      {children}
      <Card title={t.explore.about}>
        <Facts facts={facts} />
      </Card>
      <PhaseHistory row={row} />
      {conditions.length > 0 && (
        <ShortTable
          title={t.explore.conditions}
          head={
            <>
              <th>{t.explore.condition}</th>
              <th>{t.common.state}</th>
              <th>{t.events.reason}</th>
              <th>{t.events.message}</th>
              <th className="end">{t.explore.changed}</th>
            </>
          }
        >
          {conditions.map((one) => (
            <tr key={asText(one.type)}>
              <td>{asText(one.type)}</td>
              <td>
                <Status tone={one.status === "Unknown" ? "warn" : "off"} word={asText(one.status)} />
              </td>
              <Why of={one} at={asText(one.lastTransitionTime)} />
            </tr>
          ))}
        </ShortTable>
      )}
    </div>
  );
}

/** The last cells of a row: why it is so, and since when. */
function Why({ of, at }: { of: Fields; at: string }) {
  return (
    <>
      <td>{asText(of.reason) || "–"}</td>
      <td className="long" title={asText(of.message)}>
        {asText(of.message) || "–"}
      </td>
      <td className="end">
        <Age of={at} />
      </td>
    </>
  );
}

/** Which phases the object went through, the last one first: what a phase machine keeps in its status. */
function PhaseHistory({ row }: { row: FlatRow }) {
  const t = useText();
  const status = asFields(row.status);
  const visits = asList(status.history)
    .map(asFields)
    .filter((one) => asText(one.phase));
  if (visits.length === 0) return null;
  return (
    <ShortTable
      title={t.reconcilers.history}
      head={
        <>
          <th>{t.reconcilers.phase}</th>
          <th>{t.events.reason}</th>
          <th>{t.events.message}</th>
          <th className="end">{t.reconcilers.entered}</th>
        </>
      }
    >
      {visits.toReversed().map((one, n) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a phase may be entered twice in a second
        <tr key={`${asText(one.at)} ${n}`}>
          <td>
            <Phase word={asText(one.phase)} />
          </td>
          <Why of={one} at={asText(one.at)} />
        </tr>
      ))}
    </ShortTable>
  );
}

function ObjectEvents({ refers }: { refers: ObjectRef }) {
  const t = useText();
  const name = refers.name.replaceAll("'", "");
  const filter = `object eq '${name}'${refers.namespace ? ` and namespace eq '${refers.namespace}'` : ""}`;
  const list = useRead<List<EventRow>>(
    withQuery("/wapi/v1/events", { cluster: refers.cluster, filter, sort: "-last", pageSize: 100 }),
  );
  const columns = useEventColumns(false).filter((column) => column.name !== "object" && column.name !== "namespace");
  return (
    <Table
      label={t.nav.events}
      columns={columns}
      list={list.data}
      error={list.error}
      rowKey={eventKey}
      onOpen={(event) => navigate(eventPlace(event))}
      empty={<Empty title={t.events.empty}>{t.events.emptyWhy}</Empty>}
    />
  );
}
