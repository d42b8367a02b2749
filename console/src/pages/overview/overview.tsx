// The fleet at a glance: how many clusters are well, what they hold, what went wrong last.
import { ArrowRight, Plus } from "lucide-react";
import type { ReactNode } from "react";
import { useRead } from "../../api/hooks";
import type { Amount, ClusterRow, Overview as Data } from "../../api/types";
import { type Dictionary, useLanguage, useText } from "../../i18n";
import { importCommand } from "../../lib/commands";
import { bytesOf, number, percent } from "../../lib/format";
import { Link } from "../../router/router";
import { Age, Card, CommandLine, LinkButton, Meter, Page, Spinner, Status } from "../../ui/basics";
import { ClusterStatus } from "../../ui/cluster";
import { Empty, Problem } from "../../ui/problem";
import { eventPlace } from "../events/place";

export function Overview() {
  const t = useText();
  const overview = useRead<Data>("/wapi/v1/overview");
  const data = overview.data;
  return (
    <Page
      title={t.overview.title}
      subtitle={t.overview.subtitle}
      actions={
        <LinkButton to="/clusters/import" icon={Plus}>
          {t.clusters.import}
        </LinkButton>
      }
    >
      {overview.error && (
        <Problem error={overview.error} retry={() => void overview.refetch()} compact={data !== undefined} />
      )}
      {!data ? (
        !overview.error && <Spinner label={t.common.loading} />
      ) : data.members.length === 0 ? (
        <Welcome />
      ) : (
        <>
          <Figures data={data} />
          <div className="columns">
            <Card
              title={t.overview.members}
              actions={
                <Link to="/clusters" className="more">
                  {t.overview.allClusters} <ArrowRight size={14} aria-hidden />
                </Link>
              }
            >
              <ul className="member-cards">
                {worstFirst(data.members).map((member) => (
                  <MemberCard key={member.name} member={member} />
                ))}
              </ul>
            </Card>
            <Warnings data={data} />
          </div>
        </>
      )}
    </Page>
  );
}

/** The page shows some; the list of clusters has all. */
const MOST_CARDS = 12;
const RANK: Record<string, number> = { Unreachable: 0, Connecting: 1 };

export const worstFirst = (members: ClusterRow[]): ClusterRow[] =>
  [...members]
    .sort((a, b) => (RANK[a.state] ?? 2) - (RANK[b.state] ?? 2) || a.name.localeCompare(b.name))
    .slice(0, MOST_CARDS);

function Welcome() {
  const t = useText();
  return (
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
  );
}

function Figures({ data }: { data: Data }) {
  const t = useText();
  const language = useLanguage();
  const all = data.members.length;
  const running = data.clusters.Running ?? 0;
  const cores = (amount: Amount) =>
    `${number(amount.requested, language, 1)} / ${number(amount.allocatable, language)}`;
  const sizes = (amount: Amount) => bytesOf(amount.requested, amount.allocatable, language);
  return (
    <ul className="figures">
      <Figure to="/clusters" label={t.nav.clusters} value={`${number(running, language)} / ${number(all, language)}`}>
        <span className="states">
          {(["Running", "Connecting", "Unreachable"] as const)
            .filter((state) => (data.clusters[state] ?? 0) > 0)
            .map((state) => (
              <Status key={state} tone={stateTone[state]} word={`${data.clusters[state]} ${stateWord(state, t)}`} />
            ))}
        </span>
      </Figure>
      <Figure
        to="/explore/core/v1/nodes"
        label={t.overview.nodes}
        value={`${number(data.nodesReady, language)} / ${number(data.nodes, language)}`}
      >
        <Meter
          ready
          part={data.nodesReady}
          whole={data.nodes}
          label={t.overview.readyShare(percent(data.nodesReady, data.nodes))}
        />
      </Figure>
      <Figure
        to="/pods"
        label={t.nav.pods}
        value={`${number(data.podsReady, language)} / ${number(data.pods, language)}`}
      >
        <Meter
          ready
          part={data.podsReady}
          whole={data.pods}
          label={t.overview.readyShare(percent(data.podsReady, data.pods))}
        />
      </Figure>
      <Figure label={t.overview.cpu} value={cores(data.cpu)}>
        <Meter
          part={data.cpu.requested}
          whole={data.cpu.allocatable}
          label={t.overview.requestedShare(percent(data.cpu.requested, data.cpu.allocatable))}
        />
      </Figure>
      <Figure label={t.overview.memory} value={sizes(data.memory)}>
        <Meter
          part={data.memory.requested}
          whole={data.memory.allocatable}
          label={t.overview.requestedShare(percent(data.memory.requested, data.memory.allocatable))}
        />
      </Figure>
    </ul>
  );
}

const stateTone = { Running: "good", Connecting: "busy", Unreachable: "bad" } as const;
export const stateWord = (state: keyof typeof stateTone, t: Dictionary) => t.states[state];

function Figure({ label, value, to, children }: { label: string; value: string; to?: string; children: ReactNode }) {
  return (
    <li className="figure card">
      <p className="muted">{to ? <Link to={to}>{label}</Link> : label}</p>
      <p className="figure-value number">{value}</p>
      {children}
    </li>
  );
}

function MemberCard({ member }: { member: ClusterRow }) {
  const t = useText();
  const language = useLanguage();
  return (
    <li className={`member-card ${member.state === "Unreachable" ? "stale" : ""}`}>
      <div className="row">
        <Link to={`/clusters/${encodeURIComponent(member.name)}`} className="strong">
          {member.name}
        </Link>
        <span className="gap" />
        <ClusterStatus cluster={member} />
      </div>
      <p className="muted number">
        {[
          member.version,
          member.nodes !== undefined &&
            t.overview.nodeCount(number(member.nodesReady ?? 0, language), number(member.nodes, language)),
          member.pods !== undefined &&
            t.overview.podCount(number(member.podsReady ?? 0, language), number(member.pods, language)),
        ]
          .filter(Boolean)
          .join(" · ") || t.clusters.unknownYet}
      </p>
      {member.cpu && member.memory && (
        <div className="member-meters">
          <span className="muted">{t.overview.cpuShort}</span>
          <Meter
            part={member.cpu.requested}
            whole={member.cpu.allocatable}
            label={t.overview.requestedShare(percent(member.cpu.requested, member.cpu.allocatable))}
          />
          <span className="muted">{t.overview.memoryShort}</span>
          <Meter
            part={member.memory.requested}
            whole={member.memory.allocatable}
            label={t.overview.requestedShare(percent(member.memory.requested, member.memory.allocatable))}
          />
        </div>
      )}
    </li>
  );
}

function Warnings({ data }: { data: Data }) {
  const t = useText();
  return (
    <Card
      title={t.overview.warnings}
      actions={
        <Link to="/events" className="more">
          {t.overview.allEvents} <ArrowRight size={14} aria-hidden />
        </Link>
      }
    >
      {data.warnings.length === 0 ? (
        <Empty title={t.overview.noWarnings}>{t.overview.noWarningsWhy}</Empty>
      ) : (
        <ul className="feed">
          {data.warnings.map((event) => (
            <li key={`${event.cluster} ${event.namespace} ${event.object} ${event.reason} ${event.last}`}>
              <Status tone="warn" word={event.reason} />
              <span className="muted number">
                {event.count > 1 && `×${event.count} `}
                <Age of={event.last} />
              </span>
              <p>
                <Link to={eventPlace(event)}>
                  {event.cluster} / {event.namespace ? `${event.namespace} / ` : ""}
                  {event.object}
                </Link>
              </p>
              <p className="muted clip-2">{event.message}</p>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
