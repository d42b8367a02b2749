// Who did what, and who got in, when, from where, and whether they were allowed to.
import { useListState, useRead } from "../../api/hooks";
import { withQuery } from "../../api/paths";
import type { AuditRow, List } from "../../api/types";
import { useText } from "../../i18n";
import { useParameter } from "../../router/router";
import { Age, Page, Status, type Tone } from "../../ui/basics";
import { Empty } from "../../ui/problem";
import { type Column, NothingFound, SearchBox, Table } from "../../ui/table";

const VERBS = [
  ...["create", "update", "patch", "delete", "deletecollection"],
  ...["apply", "exec", "terminal", "restart", "import", "kubeconfig", "abandon"],
  ...["login", "logout", "password", "setup"],
];
const toneOfCode = (code: number): Tone => (code < 400 ? "good" : code === 401 || code === 403 ? "warn" : "bad");
const objectOf = (row: AuditRow) =>
  row.resource
    ? `${row.cluster ? `${row.cluster}: ` : ""}${row.resource}${row.group ? `.${row.group}` : ""}${row.subresource ? `/${row.subresource}` : ""} ${[row.namespace, row.name].filter(Boolean).join("/")}`.trimEnd()
    : row.path;

export default function Audit() {
  const t = useText();
  const state = useListState();
  const [user, setUser] = useParameter("user");
  const [verb, setVerb] = useParameter("verb");
  const path = withQuery("/wapi/v1/audit", {
    q: state.q,
    user,
    verb,
    page: state.page > 1 ? state.page : undefined,
    pageSize: state.pageSize,
  });
  const found = useRead<List<AuditRow> & { complete?: boolean }>(path, { notices: null });
  const columns: Column<AuditRow>[] = [
    { name: "time", label: t.audit.time, cell: (row) => <Age of={row.time} /> },
    {
      name: "user",
      label: t.audit.user,
      cell: (row) => {
        const who = row.impersonatedUser ?? row.user;
        return (
          <button
            type="button"
            className="link"
            title={row.impersonatedUser ? t.audit.through(row.user) : undefined}
            onClick={() => setUser(who)}
          >
            {who}
          </button>
        );
      },
    },
    {
      name: "verb",
      label: t.audit.verb,
      cell: (row) => (row.stage ? `${row.verb} (${t.audit[row.stage]})` : row.verb),
    },
    { name: "object", label: t.audit.object, long: true, cell: (row) => <span title={row.path}>{objectOf(row)}</span> },
    {
      name: "code",
      label: t.audit.result,
      cell: (row) => {
        const why = row.reason && (t.audit.reasons[row.reason] ?? row.reason);
        const word = why ? `${row.code} ${why}` : String(row.code);
        return <Status tone={toneOfCode(row.code)} word={word} why={row["authorization.k8s.io/reason"]} />;
      },
    },
    {
      name: "source",
      label: t.audit.source,
      wide: true,
      cell: (row) => <span className="number">{row.source ?? "–"}</span>,
    },
    {
      name: "agent",
      label: t.audit.agent,
      wide: true,
      long: true,
      cell: (row) => <span title={row.userAgent}>{row.userAgent ?? "–"}</span>,
    },
    {
      name: "id",
      label: t.problems.requestId,
      wide: true,
      cell: (row) => <code title={row.requestId}>{row.requestId.slice(0, 8)}</code>,
    },
  ];
  return (
    <Page title={t.nav.audit} subtitle={t.audit.subtitle}>
      <div className="list-tools">
        <SearchBox value={state.q} />
        <select aria-label={t.audit.verb} value={verb} onChange={(event) => setVerb(event.target.value || null)}>
          <option value="">{t.audit.everyVerb}</option>
          {VERBS.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        {user && (
          <button type="button" className="chip" aria-pressed="true" onClick={() => setUser(null)}>
            {t.audit.of(user)} ×
          </button>
        )}
      </div>
      {found.data?.complete === false && <p className="banner">{t.audit.partial}</p>}
      <Table
        label={t.nav.audit}
        columns={columns}
        list={found.data}
        state={state}
        error={found.error}
        loading={found.isPlaceholderData}
        retry={() => void found.refetch()}
        rowKey={(row) => `${row.requestId} ${row.time} ${row.verb} ${row.cluster} ${row.name}`}
        empty={
          <NothingFound state={{ ...state, filter: user || verb }}>
            <Empty title={t.audit.empty}>{t.audit.emptyWhy}</Empty>
          </NothingFound>
        }
      />
    </Page>
  );
}
