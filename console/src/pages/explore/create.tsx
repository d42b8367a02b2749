// New objects from YAML: written, seen as what the server would make of it, then applied one after the other.
import { lazy, Suspense, useState } from "react";
import { askJson, get, Refusal } from "../../api/client";
import { refresh, useRead } from "../../api/hooks";
import { ALL, groupOf, kinds as kindsPath, META, type ObjectRef, object, withQuery } from "../../api/paths";
import { asFields } from "../../api/pods";
import type { ClusterRow, Json, Kind, KubeObject, List } from "../../api/types";
import { tidy } from "../../editor/merge";
import { membersPath } from "../../frame/topbar";
import { useText } from "../../i18n";
import { navigate, useWhere } from "../../router/router";
import { Button, Page, Spinner, Status } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Problem } from "../../ui/problem";
import { toast } from "../../ui/toast";
import { objectPlace } from "./place";

type Editor = typeof import("../../editor/editor");
const Form = lazy(async () => {
  const editor = await import("../../editor/editor");
  return { default: () => <CreateForm editor={editor} /> };
});

const MOST_OBJECTS = 50;

/** One object on its way: where it belongs, what is there, what would be. */
interface Planned {
  refers: ObjectRef;
  kind: string;
  mine: KubeObject;
  before: KubeObject | null;
  /** Nothing when only its namespace, which comes with it, is missing. */
  after: KubeObject | null;
}

export default function Create() {
  const t = useText();
  return (
    <Page title={t.explore.createTitle} subtitle={t.explore.createSubtitle}>
      <Suspense fallback={<Spinner label={t.common.loading} />}>
        <Form />
      </Suspense>
    </Page>
  );
}

/** What an empty editor begins with. */
export function skeleton(query: URLSearchParams): string {
  const namespace = query.get("ns");
  return [
    `apiVersion: ${JSON.stringify(query.get("api") ?? "v1").slice(1, -1)}`,
    `kind: ${JSON.stringify(query.get("kind") ?? "ConfigMap").slice(1, -1)}`,
    "metadata:",
    "  name: ",
    ...(namespace ? [`  namespace: ${JSON.stringify(namespace).slice(1, -1)}`] : []),
    "",
  ].join("\n");
}

/** Which object of which kind a text means, or why that cannot be said. */
export function meant(value: Json, cluster: string, kinds: readonly Kind[]): ObjectRef | "unnamed" | "no kind" {
  const wrote = asFields(value);
  const { name, namespace } = asFields(wrote.metadata);
  if (typeof wrote.kind !== "string" || typeof wrote.apiVersion !== "string" || typeof name !== "string")
    return "unnamed";
  if (!wrote.kind || !wrote.apiVersion || !name) return "unnamed";
  const [version = "", group = ""] = wrote.apiVersion.split("/").reverse();
  const kind = kinds.find(
    (one) =>
      groupOf(one.group) === group && one.version === version && one.kind === wrote.kind && !one.plural.includes("/"),
  );
  if (!kind) return "no kind";
  return {
    cluster,
    group,
    version,
    plural: kind.plural,
    name,
    ...(kind.namespaced && { namespace: typeof namespace === "string" && namespace ? namespace : "default" }),
  };
}

function CreateForm({ editor: { parseAll, write, YamlEditor, Differences } }: { editor: Editor }) {
  const t = useText();
  const { query } = useWhere();
  const scope = query.get("scope") ?? ALL;
  const members = useRead<List<ClusterRow>>(membersPath);
  const ready = (members.data?.items ?? []).filter((one) => one.ready).map((one) => one.name);
  const [chosen, setChosen] = useState(scope === ALL ? "" : scope);
  const cluster = chosen || ready[0] || META;
  const places = [...new Set([...ready, META, cluster])];
  const [text, setText] = useState(() => skeleton(query));
  const [wrong, setWrong] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [plan, setPlan] = useState<Planned[] | null>(null);
  const [busy, setBusy] = useState(false);

  const look = async (): Promise<Planned[] | string> => {
    const read = parseAll(text);
    if (read.wrong !== "") return read.wrong;
    const values = read.values ?? [];
    if (values.length === 0) return t.explore.createNothing;
    if (values.length > MOST_OBJECTS) return t.explore.createTooMany(MOST_OBJECTS);
    const kinds = await get<Kind[]>(kindsPath(cluster));
    const found: Planned[] = [];
    for (const [n, value] of values.entries()) {
      const refers = meant(value, cluster, kinds);
      if (refers === "unnamed") return t.explore.createUnnamed(n + 1);
      const mine = value as unknown as KubeObject;
      if (refers === "no kind") return t.explore.createNoKind(n + 1, `${mine.apiVersion} ${mine.kind}`, cluster);
      found.push({ refers, kind: mine.kind, mine, before: null, after: null });
    }
    const coming = new Set(found.filter((one) => one.kind === "Namespace").map((one) => one.refers.name));
    for (const one of found) {
      one.before = await get<KubeObject>(withQuery(object(one.refers), { raw: true })).catch(ifAbsent);
      const tried = askJson<KubeObject>(withQuery(object(one.refers), { dryRun: true }), {
        method: "PUT",
        body: one.mine,
      });
      const late = one.refers.namespace !== undefined && coming.has(one.refers.namespace);
      one.after = await (late ? tried.catch(ifAbsent) : tried);
    }
    return found;
  };
  const guarded = async (act: () => Promise<void>) => {
    setBusy(true);
    setError(null);
    setWrong("");
    try {
      await act();
    } catch (problem) {
      setPlan(null);
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  const review = () =>
    guarded(async () => {
      const found = await look();
      if (typeof found === "string") setWrong(found);
      else setPlan(found);
    });
  const apply = (planned: Planned[]) =>
    guarded(async () => {
      for (const one of planned) await askJson(object(one.refers), { method: "PUT", body: one.mine });
      toast({ tone: "good", title: t.explore.created(planned.length) });
      await refresh();
      const [only] = planned;
      if (only && planned.length === 1) navigate(objectPlace(only.refers));
      else setPlan(null);
    });

  return (
    <div className="yaml">
      <div className="list-tools">
        <label className="row">
          {t.explore.createOn}
          <select value={cluster} onChange={(event) => setChosen(event.target.value)}>
            {places.map((one) => (
              <option key={one} value={one}>
                {one === META ? t.explore.onMeta : one}
              </option>
            ))}
          </select>
        </label>
        <Button look="primary" disabled={busy} onClick={() => void review()}>
          {t.yaml.review}
        </Button>
      </div>
      {wrong && (
        <p className="banner bad" role="alert">
          {wrong}
        </p>
      )}
      {error && <Problem error={error} compact />}
      <div className="editor-box">
        <YamlEditor value={text} label={t.explore.createText} editable onChange={setText} />
      </div>
      {plan && (
        <Dialog
          wide
          title={t.explore.createReview(plan.length)}
          onClose={() => setPlan(null)}
          foot={
            <>
              <Button onClick={() => setPlan(null)}>{t.yaml.goOn}</Button>
              <Button look="primary" disabled={busy} onClick={() => void apply(plan)}>
                {t.yaml.apply}
              </Button>
            </>
          }
        >
          {plan.map(({ refers, kind, before, after, mine }) => (
            <section key={`${refers.group} ${refers.plural} ${refers.namespace ?? ""} ${refers.name}`}>
              <p className={before ? "banner warn" : ""}>
                <strong>
                  {kind} {refers.namespace ? `${refers.namespace}/` : ""}
                  {refers.name}
                </strong>{" "}
                {before ? (
                  t.explore.createThere
                ) : (
                  <Status tone={after ? "good" : "warn"} word={after ? t.explore.createNew : t.explore.createLater} />
                )}
              </p>
              <Differences
                before={before ? write(tidy(before)) : ""}
                after={write(after ? tidy(after) : mine)}
                label={`${t.yaml.differences} ${refers.name}`}
              />
            </section>
          ))}
        </Dialog>
      )}
    </div>
  );
}

const ifAbsent = (problem: unknown): null => {
  if (problem instanceof Refusal && problem.code === 404) return null;
  throw problem;
};
