// Every kind there is, on the members or in the meta API itself.
import { Plus, Search } from "lucide-react";
import { useState } from "react";
import { useRead } from "../../api/hooks";
import { ALL, groupOf, kinds as kindsPath, META } from "../../api/paths";
import type { Kind } from "../../api/types";
import { useText } from "../../i18n";
import { Link, useScope } from "../../router/router";
import { LinkButton, Page, Spinner } from "../../ui/basics";
import { Empty, Problem } from "../../ui/problem";
import { kindPlace } from "./place";

/** Kinds by group, the core group first, each in order of name; only those that can be listed. */
export function grouped(kinds: Kind[], wanted: string): [string, Kind[]][] {
  const text = wanted.trim().toLowerCase();
  const groups = new Map<string, Kind[]>();
  for (const kind of kinds) {
    if (kind.verbs.length > 0 && !kind.verbs.includes("list")) continue;
    const words = [kind.kind, kind.plural, kind.group, ...(kind.shortNames ?? [])].map((word) => word.toLowerCase());
    if (text && !words.some((word) => word.includes(text))) continue;
    const group = groupOf(kind.group);
    groups.set(group, [...(groups.get(group) ?? []), kind]);
  }
  const all = [...groups].map(([group, some]): [string, Kind[]] => [
    group,
    some.sort((a, b) => a.kind.localeCompare(b.kind)),
  ]);
  return all.sort(([a], [b]) => a.localeCompare(b));
}

export default function Kinds() {
  const t = useText();
  const [scope, setScope] = useScope();
  const [wanted, setWanted] = useState("");
  const found = useRead<Kind[]>(kindsPath(scope), { once: true });
  const groups = grouped(found.data ?? [], wanted);
  return (
    <Page
      title={t.nav.explore}
      subtitle={t.explore.subtitle}
      actions={
        <LinkButton icon={Plus} to="/explore/new">
          {t.explore.create}
        </LinkButton>
      }
    >
      <div className="list-tools">
        <div className="search-box">
          <Search size={14} aria-hidden />
          <input
            type="search"
            data-search
            aria-label={t.explore.findKind}
            placeholder={t.explore.findKind}
            value={wanted}
            spellCheck={false}
            onChange={(event) => setWanted(event.target.value)}
          />
        </div>
        <div className="chips">
          <button type="button" className="chip" aria-pressed={scope !== META} onClick={() => setScope(ALL)}>
            {t.explore.onMembers}
          </button>
          <button type="button" className="chip" aria-pressed={scope === META} onClick={() => setScope(META)}>
            {t.explore.onMeta}
          </button>
        </div>
      </div>
      {found.error && <Problem error={found.error} retry={() => void found.refetch()} />}
      {!found.data && !found.error && <Spinner label={t.common.loading} />}
      {found.data && groups.length === 0 && <Empty title={t.explore.noKind}>{t.explore.noKindWhy}</Empty>}
      <div className="kind-groups">
        {groups.map(([group, kinds]) => (
          <section key={group} className="card">
            <h2>{group || t.explore.core}</h2>
            <ul>
              {kinds.map((kind) => (
                <li key={`${kind.version} ${kind.plural}`}>
                  <Link to={kindPlace(kind)}>{kind.kind}</Link>
                  <span className="muted">
                    {kind.version}
                    {kind.shortNames?.length ? ` · ${kind.shortNames.join(", ")}` : ""}
                  </span>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </Page>
  );
}
