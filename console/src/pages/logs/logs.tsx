// Logs on a page of their own: the target of shared links.
import { useMemo } from "react";
import type { PodRef } from "../../api/paths";
import { LogView } from "../../dock/logs";
import { MOST_PODS } from "../../dock/store";
import { useText } from "../../i18n";
import { useWhere } from "../../router/router";
import { LinkButton, Page } from "../../ui/basics";
import { Empty } from "../../ui/problem";

export function podsIn(query: URLSearchParams): PodRef[] {
  return query
    .getAll("pod")
    .slice(0, MOST_PODS)
    .flatMap((text) => {
      const [cluster, namespace, name, ...more] = text.split("/");
      return cluster && namespace && name && more.length === 0 ? [{ cluster, namespace, name }] : [];
    });
}

export default function Logs() {
  const t = useText();
  const { query } = useWhere();
  const text = query.toString();
  const pods = useMemo(() => podsIn(new URLSearchParams(text)), [text]);
  const container = query.get("container") ?? "";
  return (
    <Page title={t.logs.title} subtitle={pods.map((pod) => `${pod.cluster}/${pod.namespace}/${pod.name}`).join(", ")}>
      {pods.length === 0 ? (
        <Empty title={t.logs.noPods} action={<LinkButton to="/pods">{t.nav.pods}</LinkButton>}>
          {t.logs.noPodsNext}
        </Empty>
      ) : (
        <div className="logs-page">
          <LogView pods={pods} shown {...(container && { container })} />
        </div>
      )}
    </Page>
  );
}
