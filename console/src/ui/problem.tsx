// A failure, said so that something can be done: what failed, why, what to do, and the number that support asks for.
import { AlertTriangle, RotateCw } from "lucide-react";
import type { ReactNode } from "react";
import { Refusal } from "../api/client";
import { type Dictionary, useText } from "../i18n";
import { Button, CopyButton } from "./basics";

export interface Said {
  what: string;
  why: string;
  next: string;
}

/** What can be said of an error, in the user's language. The server's own words are the why. */
export function explain(error: unknown, t: Dictionary): Said {
  if (!(error instanceof Refusal)) return { what: t.problems.broken, why: String(error), next: t.problems.reload };
  const of = (what: string, next: string): Said => ({ what, why: error.message, next });
  if (error.code === 0)
    return { what: t.problems.noAnswer, why: t.problems.noAnswerWhy, next: t.problems.noAnswerNext };
  if (error.code === 401) return of(t.problems.loggedOut, t.problems.loggedOutNext);
  if (error.code === 403) return of(t.problems.forbidden, t.problems.forbiddenNext);
  if (error.code === 404) return of(t.problems.notFound, t.problems.notFoundNext);
  if (error.code === 409) return of(t.problems.conflict, t.problems.conflictNext);
  if (error.code === 429) return of(t.problems.tooMany, t.problems.tooManyNext);
  if (error.code >= 500) return of(t.problems.server, t.problems.serverNext);
  return of(t.problems.invalid, t.problems.invalidNext);
}

export function Problem({ error, retry, compact }: { error: unknown; retry?: () => void; compact?: boolean }) {
  const t = useText();
  const said = explain(error, t);
  const refusal = error instanceof Refusal ? error : null;
  return (
    <div className={`problem ${compact ? "compact" : ""}`} role="alert">
      <AlertTriangle size={compact ? 16 : 20} aria-hidden />
      <div>
        <strong>{said.what}</strong>
        <p className="why">{said.why}</p>
        <p className="muted">{said.next}</p>
        {refusal?.requestId && (
          <p className="request-id muted">
            {t.problems.requestId} <code>{refusal.requestId}</code>
            <CopyButton text={`${refusal.asked} ${refusal.requestId}`} />
          </p>
        )}
        {retry && (
          <Button icon={RotateCw} onClick={retry}>
            {t.common.retry}
          </Button>
        )}
      </div>
    </div>
  );
}

export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children && <div className="muted">{children}</div>}
      {action && <div className="actions">{action}</div>}
    </div>
  );
}
