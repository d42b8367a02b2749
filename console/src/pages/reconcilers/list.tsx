// The reconcilers of the hub: what runs, what waits, and a switch for each.
import { Workflow } from "lucide-react";
import { useState } from "react";
import { post } from "../../api/client";
import { refresh, useRead } from "../../api/hooks";
import { withQuery } from "../../api/paths";
import type { Controller, Controllers, List } from "../../api/types";
import { useText } from "../../i18n";
import { Link, navigate } from "../../router/router";
import { Age, Button, CommandLine, Page, Status } from "../../ui/basics";
import { Empty, explain } from "../../ui/problem";
import { type Column, Table } from "../../ui/table";
import { toast } from "../../ui/toast";

export const controllersPath = "/wapi/v1/controllers";
const place = (one: Controller) => `/reconcilers/${encodeURIComponent(one.name)}`;

export function Switch({ controller }: { controller: Controller }) {
  const t = useText();
  const [busy, setBusy] = useState(false);
  const act = async () => {
    setBusy(true);
    const word = controller.enabled ? "disable" : "enable";
    try {
      await post(`${controllersPath}/${encodeURIComponent(controller.name)}/${word}`);
      toast({
        tone: "good",
        title: controller.enabled
          ? t.reconcilers.disabledNow(controller.name)
          : t.reconcilers.enabledNow(controller.name),
      });
      await refresh();
    } catch (problem) {
      const said = explain(problem, t);
      toast({ tone: "bad", title: said.what, detail: said.why });
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button disabled={busy} onClick={() => void act()}>
      {controller.enabled ? t.reconcilers.disable : t.reconcilers.enable}
    </Button>
  );
}

/** Has one object, or all, looked at again. */
export function useRequeue(): (controller: string, key?: string) => Promise<void> {
  const t = useText();
  return async (controller, key) => {
    try {
      const path = withQuery(`${controllersPath}/${encodeURIComponent(controller)}/requeue`, { key });
      const { count } = await post<{ count: number }>(path);
      toast({ tone: "good", title: key ? t.reconcilers.requeued(key) : t.reconcilers.requeuedAll(count) });
      await refresh();
    } catch (problem) {
      const said = explain(problem, t);
      toast({ tone: "bad", title: said.what, detail: said.why });
    }
  };
}

/** What went wrong last, with the object it went wrong with. */
export function LastError({ controller: { lastError } }: { controller: Controller }) {
  if (!lastError) return <span className="muted">–</span>;
  return (
    <span title={lastError.message}>
      <Age of={lastError.at} /> · <strong>{lastError.key}</strong> {lastError.message}
    </span>
  );
}

export function ControllerStatus({ controller }: { controller: Controller }) {
  const t = useText();
  if (!controller.enabled) return <Status tone="off" word={t.reconcilers.off} />;
  return controller.synced ? (
    <Status tone="good" word={t.reconcilers.running} />
  ) : (
    <Status tone="busy" word={t.reconcilers.syncing} />
  );
}

export default function Reconcilers() {
  const t = useText();
  const found = useRead<Controllers>(controllersPath);
  const items = found.data?.items;
  const list: List<Controller> | undefined = items && {
    items,
    count: items.length,
    page: 1,
    pageSize: Math.max(1, items.length),
  };
  const count = (value: number) => <span className="number">{value}</span>;
  const columns: Column<Controller>[] = [
    {
      name: "name",
      label: t.common.name,
      cell: (one) => (
        <span className="row">
          <Link to={place(one)} className="strong">
            {one.name}
          </Link>
          {one.graph && <Workflow size={14} aria-label={t.reconcilers.machine} />}
        </span>
      ),
    },
    {
      name: "kind",
      label: t.reconcilers.kind,
      cell: (one) => `${one.group ? `${one.group}/` : ""}${one.version} ${one.kind}`,
    },
    { name: "state", label: t.common.state, cell: (one) => <ControllerStatus controller={one} /> },
    { name: "ready", label: t.reconcilers.waiting, end: true, cell: (one) => count(one.queue.ready) },
    { name: "running", label: t.reconcilers.working, end: true, cell: (one) => count(one.queue.running) },
    { name: "delayed", label: t.reconcilers.delayed, end: true, cell: (one) => count(one.queue.delayed) },
    {
      name: "concurrency",
      label: t.reconcilers.concurrency,
      end: true,
      wide: true,
      cell: (one) => count(one.concurrency),
    },
    {
      name: "retries",
      label: t.reconcilers.retries,
      end: true,
      cell: (one) => <span className={`number ${one.failing > 0 ? "attention" : ""}`}>{one.retries}</span>,
    },
    {
      name: "error",
      label: t.reconcilers.lastError,
      wide: true,
      long: true,
      cell: (one) => <LastError controller={one} />,
    },
  ];
  return (
    <Page title={t.nav.reconcilers} subtitle={t.reconcilers.subtitle}>
      <Table
        label={t.nav.reconcilers}
        columns={columns}
        list={list}
        error={found.error}
        retry={() => void found.refetch()}
        rowKey={(one) => one.name}
        onOpen={(one) => navigate(place(one))}
        keys={{ d: (one) => navigate(place(one)) }}
        actions={(one) => <Switch controller={one} />}
        empty={
          <Empty title={t.reconcilers.empty}>
            <p>{t.reconcilers.emptyWhy}</p>
            <CommandLine command="muster controller list" />
          </Empty>
        }
      />
    </Page>
  );
}
