// Events of all members: what happened, how often, to which object.
import { changeList, useList, useListState } from "../../api/hooks";
import { ALL } from "../../api/paths";
import type { EventRow } from "../../api/types";
import { useText } from "../../i18n";
import { Link, navigate, useParameter, useScope } from "../../router/router";
import { Age, Page, Status } from "../../ui/basics";
import { Empty } from "../../ui/problem";
import { type Column, NothingFound, SearchBox, Table } from "../../ui/table";
import { eventPlace, objectName } from "./place";

export function useEventColumns(all: boolean): Column<EventRow>[] {
  const t = useText();
  return [
    {
      name: "type",
      label: t.events.type,
      sort: "type",
      cell: (event) => (
        <Status
          tone={event.type === "Warning" ? "warn" : "off"}
          word={event.type === "Warning" ? t.events.warning : t.events.normal}
        />
      ),
    },
    ...(all
      ? [{ name: "cluster", label: t.common.cluster, sort: "cluster", cell: (event: EventRow) => event.cluster }]
      : []),
    { name: "reason", label: t.events.reason, sort: "reason", cell: (event) => event.reason },
    {
      name: "object",
      label: t.events.object,
      sort: "object",
      cell: (event) => (
        <Link to={eventPlace(event)}>
          {event.kind}/{objectName(event)}
        </Link>
      ),
    },
    {
      name: "namespace",
      label: t.common.namespace,
      sort: "namespace",
      wide: true,
      cell: (event) => event.namespace ?? "–",
    },
    {
      name: "message",
      label: t.events.message,
      long: true,
      cell: (event) => <span title={event.message}>{event.message}</span>,
    },
    {
      name: "count",
      label: t.events.count,
      sort: "count",
      end: true,
      cell: (event) => <span className="number">{event.count}</span>,
    },
    { name: "last", label: t.events.last, sort: "last", end: true, cell: (event) => <Age of={event.last} /> },
  ];
}

export const eventKey = (event: EventRow) =>
  [event.cluster, event.namespace, event.kind, event.object, event.reason, event.message, event.last].join(" ");

export default function Events() {
  const t = useText();
  const [scope] = useScope();
  const [type] = useParameter("type");
  const state = useListState("-last");
  const own = type ? `type eq ${type}` : "";
  const filter = [own, state.filter].filter(Boolean).join(" and ");
  const list = useList<EventRow>(
    "/wapi/v1/events",
    { ...state, filter },
    { cluster: scope === ALL ? undefined : scope },
  );
  const columns = useEventColumns(scope === ALL);
  return (
    <Page title={t.nav.events} subtitle={t.events.subtitle}>
      <div className="list-tools">
        <SearchBox value={state.q} />
        <TypeChips type={type} />
      </div>
      <Table
        label={t.nav.events}
        columns={columns}
        list={list.data}
        state={state}
        error={list.error}
        loading={list.isPlaceholderData}
        retry={() => void list.refetch()}
        rowKey={eventKey}
        onOpen={(event) => navigate(eventPlace(event))}
        empty={
          <NothingFound state={{ ...state, filter }}>
            <Empty title={t.events.empty}>{t.events.emptyWhy}</Empty>
          </NothingFound>
        }
      />
    </Page>
  );
}

function TypeChips({ type }: { type: string }) {
  const t = useText();
  const [, setType] = useParameter("type");
  const choose = (next: string) => {
    setType(next || null);
    changeList({ page: null });
  };
  return (
    <div className="chips">
      {[
        ["", t.events.every],
        ["Warning", t.events.warning],
        ["Normal", t.events.normal],
      ].map(([value = "", label]) => (
        <button key={value} type="button" className="chip" aria-pressed={type === value} onClick={() => choose(value)}>
          {label}
        </button>
      ))}
    </div>
  );
}
