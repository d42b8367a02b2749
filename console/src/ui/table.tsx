// Lists: the server sorts, filters and pages; this shows one page, moves a cursor through it and marks what is out of date.
import { ArrowDown, ArrowUp, ChevronLeft, ChevronRight, ChevronsUpDown, CloudOff, Search, X } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { changeList, type ListState } from "../api/hooks";
import type { List, Stale } from "../api/types";
import { useLanguage, useText } from "../i18n";
import { useNow } from "../lib/clock";
import { age, number } from "../lib/format";
import { Link } from "../router/router";
import { Card, Spinner } from "./basics";
import { Empty, Problem } from "./problem";

export interface Column<Row> {
  name: string;
  label: string;
  /** The field the server sorts by; without one the column cannot be sorted. */
  sort?: string;
  cell: (row: Row) => ReactNode;
  /** Left out on narrow screens; "some": only on those of phones. */
  wide?: boolean | "some";
  /** Numbers stand at the right. */
  end?: boolean;
  /** Gets what room there is, and is cut off with an ellipsis. */
  long?: boolean;
}

/** The first of most lists: the name, which leads to the thing itself. */
export function nameColumn<Row extends { name: string }>(label: string, place: (row: Row) => string): Column<Row> {
  const cell = (row: Row) => (
    <Link to={place(row)} className="strong">
      {row.name}
    </Link>
  );
  return { name: "name", label, sort: "name", cell };
}

interface TableProps<Row> {
  label: string;
  columns: Column<Row>[];
  list: List<Row> | undefined;
  state?: ListState;
  error?: Error | null;
  loading?: boolean;
  retry?: () => void;
  rowKey: (row: Row) => string;
  onOpen?: (row: Row) => void;
  /** Letters that do something with the row under the cursor. */
  keys?: Record<string, (row: Row) => void>;
  actions?: (row: Row) => ReactNode;
  selected?: ReadonlySet<string>;
  onSelect?: (row: Row, on: boolean) => void;
  empty: ReactNode;
}

const clusterOf = (row: unknown): string =>
  typeof row === "object" && row !== null && "cluster" in row ? String(row.cluster) : "";

export function Table<Row>(props: TableProps<Row>) {
  const { list, error, state, loading } = props;
  const t = useText();
  const body = useRef<HTMLTableSectionElement>(null);
  const [cursor, setCursor] = useState(0);
  const rows = list?.items ?? [];
  const at = Math.min(cursor, Math.max(0, rows.length - 1));

  const focusRow = (n: number) => {
    const to = Math.max(0, Math.min(rows.length - 1, n));
    setCursor(to);
    body.current?.querySelectorAll<HTMLElement>("tr[data-row]")[to]?.focus();
  };

  // j and k enter the list from anywhere on the page; the frame sends this when nobody else wants the key.
  useEffect(() => {
    const enter = () => {
      if (!body.current?.contains(document.activeElement)) {
        body.current?.querySelector<HTMLElement>('tr[data-row][tabindex="0"]')?.focus();
      }
    };
    window.addEventListener("muster:enter-list", enter);
    return () => window.removeEventListener("muster:enter-list", enter);
  }, []);

  const onKey = (event: KeyboardEvent<HTMLTableRowElement>, row: Row, n: number) => {
    if (event.target !== event.currentTarget || event.metaKey || event.ctrlKey || event.altKey) return;
    const { key } = event;
    if (key === "ArrowDown" || key === "j") focusRow(n + 1);
    else if (key === "ArrowUp" || key === "k") focusRow(n - 1);
    else if (key === "Home") focusRow(0);
    else if (key === "End") focusRow(rows.length - 1);
    else if (key === "Enter" && props.onOpen) props.onOpen(row);
    else if (key === " " && props.onSelect) props.onSelect(row, !props.selected?.has(props.rowKey(row)));
    else if (props.keys?.[key]) props.keys[key](row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  if (error && !list) return <Problem error={error} {...(props.retry && { retry: props.retry })} />;
  const stale = new Map((list?.stale ?? []).map((one: Stale) => [one.cluster, one.since]));
  return (
    <div className={`list ${loading && list ? "refreshing" : ""}`}>
      {error && <Problem error={error} compact />}
      <Degraded list={list} />
      {!list ? (
        <Spinner label={t.common.loading} />
      ) : rows.length === 0 ? (
        props.empty
      ) : (
        <section className="table-box" aria-label={props.label}>
          <table className="table">
            <caption className="hidden">{props.label}</caption>
            <thead>
              <tr>
                {props.onSelect && (
                  <th className="narrow">
                    <span className="hidden">{t.lists.select}</span>
                  </th>
                )}
                {props.columns.map((column) => (
                  <HeadCell key={column.name} column={column} sort={state?.sort ?? ""} fixed={!state} />
                ))}
                {props.actions && (
                  <th className="narrow">
                    <span className="hidden">{t.lists.actions}</span>
                  </th>
                )}
              </tr>
            </thead>
            <tbody ref={body}>
              {rows.map((row, n) => {
                const key = props.rowKey(row);
                const since = stale.get(clusterOf(row));
                return (
                  <tr
                    key={key}
                    data-row={key}
                    tabIndex={n === at ? 0 : -1}
                    className={since ? "stale" : ""}
                    title={since ? t.lists.staleRow : undefined}
                    onFocus={() => setCursor(n)}
                    onKeyDown={(event) => onKey(event, row, n)}
                    onDoubleClick={() => props.onOpen?.(row)}
                  >
                    {props.onSelect && (
                      <td className="narrow">
                        <input
                          type="checkbox"
                          aria-label={t.lists.selectRow(key)}
                          checked={props.selected?.has(key) ?? false}
                          onChange={(event) => props.onSelect?.(row, event.target.checked)}
                        />
                      </td>
                    )}
                    {props.columns.map((column) => (
                      <td key={column.name} className={cellClass(column)}>
                        {column.cell(row)}
                      </td>
                    ))}
                    {props.actions && <td className="narrow row-actions">{props.actions(row)}</td>}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </section>
      )}
      {state && list && <Pager list={list} />}
    </div>
  );
}

const cellClass = <Row,>(column: Column<Row>) =>
  [
    column.wide === "some" && "some-only",
    column.wide === true && "wide-only",
    column.end && "end",
    column.long && "long",
  ]
    .filter(Boolean)
    .join(" ");

function HeadCell<Row>({ column, sort, fixed }: { column: Column<Row>; sort: string; fixed: boolean }) {
  const up = column.sort !== undefined && sort === column.sort;
  const down = column.sort !== undefined && sort === `-${column.sort}`;
  const Icon = up ? ArrowUp : down ? ArrowDown : ChevronsUpDown;
  return (
    <th className={cellClass(column)} aria-sort={up ? "ascending" : down ? "descending" : undefined}>
      {column.sort && !fixed ? (
        <button
          type="button"
          className={up || down ? "sorted" : ""}
          onClick={() => changeList({ sort: up ? `-${column.sort}` : (column.sort ?? null) })}
        >
          {column.label}
          <Icon size={12} aria-hidden />
        </button>
      ) : (
        column.label
      )}
    </th>
  );
}

/** Members that did not answer, or whose rows are old: said once, above the list, which shows what there is. */
export function Degraded({ list }: { list: Pick<List<unknown>, "unanswered" | "stale"> | undefined }) {
  const t = useText();
  const language = useLanguage();
  const now = useNow();
  const unanswered = list?.unanswered ?? [];
  const stale = list?.stale ?? [];
  if (unanswered.length === 0 && stale.length === 0) return null;
  return (
    <div className="degraded" role="status">
      <CloudOff size={16} aria-hidden />
      <ul>
        {unanswered.map((one) => (
          <li key={one.cluster}>
            <strong>{one.cluster}</strong> {t.lists.unanswered}{" "}
            <span className="muted">{one.message || one.reason}</span>
          </li>
        ))}
        {stale.map((one) => (
          <li key={one.cluster}>
            <strong>{one.cluster}</strong> {t.lists.stale(age(one.since, now, language))}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Pager({ list }: { list: List<unknown> }) {
  const t = useText();
  const language = useLanguage();
  const pages = Math.max(1, Math.ceil(list.count / Math.max(1, list.pageSize)));
  const first = list.count === 0 ? 0 : (list.page - 1) * list.pageSize + 1;
  const last = Math.min(list.count, first + list.items.length - 1);
  const to = (page: number) => changeList({ page: page === 1 ? null : String(page) });
  return (
    <nav className="pager" aria-label={t.lists.pages}>
      <span className="muted number">
        {list.count === 0
          ? t.lists.none
          : t.lists.range(number(first, language), number(last, language), number(list.count, language))}
      </span>
      {pages > 1 && (
        <span className="pager-buttons">
          <button
            type="button"
            className="icon-button"
            aria-label={t.lists.previous}
            disabled={list.page <= 1}
            onClick={() => to(list.page - 1)}
          >
            <ChevronLeft size={16} aria-hidden />
          </button>
          <span className="number">
            {list.page} / {pages}
          </span>
          <button
            type="button"
            className="icon-button"
            aria-label={t.lists.next}
            disabled={list.page >= pages}
            onClick={() => to(list.page + 1)}
          >
            <ChevronRight size={16} aria-hidden />
          </button>
        </span>
      )}
    </nav>
  );
}

/** The box that `/` jumps to. What is typed is asked of the server when typing stops. */
export function SearchBox({ value, name = "q" }: { value: string; name?: "q" | "filter" | "labels" }) {
  const t = useText();
  const [text, setText] = useState(value);
  const [known, setKnown] = useState(value);
  if (known !== value) {
    setKnown(value);
    setText(value);
  }
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => changeList({ [name]: text || null }), 250);
    return () => clearTimeout(timer);
  }, [text, value, name]);
  const label = name === "q" ? t.lists.search : name === "filter" ? t.lists.filter : t.lists.labelSelector;
  return (
    <div className="search-box">
      <Search size={14} aria-hidden />
      <input
        type="search"
        data-search={name === "q" || undefined}
        aria-label={label}
        placeholder={label}
        title={
          name === "filter"
            ? "phase ne Running and spec.replicas gt 3"
            : name === "labels"
              ? "app=web,tier in (a,b)"
              : undefined
        }
        value={text}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            setText("");
            event.currentTarget.blur();
          }
        }}
      />
      {text && (
        <button type="button" className="icon-button" aria-label={t.lists.clear} onClick={() => setText("")}>
          <X size={13} aria-hidden />
        </button>
      )}
    </div>
  );
}

/** A list that found nothing: because of the filters, or because there is nothing. */
export function NothingFound({ state, children }: { state: ListState; children: ReactNode }) {
  const t = useText();
  if (!state.q && !state.filter && !state.labelSelector && !state.namespace) return <>{children}</>;
  return (
    <Empty
      title={t.lists.noMatch}
      action={
        <button
          type="button"
          className="button"
          onClick={() => changeList({ q: null, filter: null, labels: null, ns: null })}
        >
          {t.lists.clearFilters}
        </button>
      }
    >
      {t.lists.noMatchWhy}
    </Empty>
  );
}

/** A few rows that are simply shown, under a title. */
export function ShortTable({ title, head, children }: { title: string; head: ReactNode; children: ReactNode }) {
  return (
    <Card title={title} flush>
      <section className="table-box" aria-label={title}>
        <table className="table">
          <thead>
            <tr>{head}</tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
      </section>
    </Card>
  );
}
