// What is inside a pod: containers, why they are not ready, and the way to their logs and a shell.
import { ScrollText, SquareTerminal } from "lucide-react";
import type { PodRef } from "../../api/paths";
import { asFields, asList, asText, podFacts } from "../../api/pods";
import type { FlatRow, Json } from "../../api/types";
import { openLogs, openTerminal } from "../../dock/store";
import { useText } from "../../i18n";
import { Link } from "../../router/router";
import { Age, Card, Facts, IconButton, Status } from "../../ui/basics";
import { ShortTable } from "../../ui/table";
import { toneOfPod } from "../pods/pods";
import { objectPlace } from "./place";

type Fields = { [key: string]: Json | undefined };

export function PodParts({ row, pod }: { row: FlatRow; pod: PodRef }) {
  const t = useText();
  const facts = podFacts(row);
  const spec = asFields(row.spec);
  const status = asFields(row.status);
  const states = new Map(
    [...asList(status.containerStatuses), ...asList(status.initContainerStatuses)]
      .map(asFields)
      .map((one) => [asText(one.name), one]),
  );
  const containers = [
    ...asList(spec.initContainers).map((one) => ({ ...asFields(one), init: true }) as Fields),
    ...asList(spec.containers).map(asFields),
  ];
  const app = row.labels?.app ?? row.labels?.["app.kubernetes.io/name"];
  return (
    <>
      <Card title={t.pods.about}>
        <Facts
          facts={[
            [t.common.state, <Status key="state" tone={toneOfPod[facts.well]} word={facts.word} why={facts.why} />],
            ...(facts.why ? ([[t.pods.why, facts.why]] as [string, string][]) : []),
            [t.pods.ready, facts.ready],
            [t.pods.restarts, String(facts.restarts)],
            [
              t.pods.node,
              facts.node ? (
                <Link
                  key="node"
                  to={objectPlace({
                    cluster: pod.cluster,
                    group: "",
                    version: "v1",
                    plural: "nodes",
                    name: facts.node,
                  })}
                >
                  {facts.node}
                </Link>
              ) : (
                "–"
              ),
            ],
            ["IP", facts.ip || "–"],
            ...(app
              ? ([
                  [
                    t.apps.app,
                    <Link key="app" to={`/apps/${encodeURIComponent(app)}`}>
                      {app}
                    </Link>,
                  ],
                ] as [string, React.ReactNode][])
              : []),
          ]}
        />
      </Card>
      <ShortTable
        title={t.pods.containers}
        head={
          <>
            <th>{t.common.name}</th>
            <th>{t.common.state}</th>
            <th>{t.pods.image}</th>
            <th className="end">{t.pods.restarts}</th>
            <th className="end">{t.common.age}</th>
            <th className="narrow">
              <span className="hidden">{t.lists.actions}</span>
            </th>
          </>
        }
      >
        {containers.map((one) => {
          const name = asText(one.name);
          const state = containerState(states.get(name));
          return (
            <tr key={name}>
              <td>
                {name} {one.init === true && <span className="label">{t.pods.init}</span>}
              </td>
              <td>
                <Status tone={state.tone} word={state.word} why={state.why} />
                {state.why && <p className="muted clip-2">{state.why}</p>}
              </td>
              <td className="long" title={asText(one.image)}>
                {asText(one.image)}
              </td>
              <td className="end number">{String(states.get(name)?.restartCount ?? 0)}</td>
              <td className="end">
                <Age of={state.since} />
              </td>
              <td className="narrow row-actions">
                <IconButton icon={ScrollText} label={t.pods.logs(name)} onClick={() => openLogs([pod], name)} />
                <IconButton
                  icon={SquareTerminal}
                  label={t.pods.terminalIn(name)}
                  onClick={() => openTerminal(pod, name)}
                />
              </td>
            </tr>
          );
        })}
      </ShortTable>
    </>
  );
}

function containerState(status: Fields | undefined): {
  tone: "good" | "busy" | "bad" | "off";
  word: string;
  why: string;
  since: string;
} {
  const state = asFields(status?.state);
  const running = asFields(state.running);
  const waiting = asFields(state.waiting);
  const ended = asFields(state.terminated);
  if (state.running) {
    const ready = status?.ready === true;
    return {
      tone: ready ? "good" : "busy",
      word: ready ? "Running" : "NotReady",
      why: "",
      since: asText(running.startedAt),
    };
  }
  if (state.terminated) {
    const well = ended.exitCode === 0;
    const why = well ? "" : asText(ended.message) || `exit code ${String(ended.exitCode)}`;
    return {
      tone: well ? "off" : "bad",
      word: asText(ended.reason) || (well ? "Completed" : "Error"),
      why,
      since: asText(ended.finishedAt),
    };
  }
  const reason = asText(waiting.reason);
  const starting = !reason || reason === "ContainerCreating" || reason === "PodInitializing";
  return { tone: starting ? "busy" : "bad", word: reason || "Waiting", why: asText(waiting.message), since: "" };
}
