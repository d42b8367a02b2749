// The dock at the bottom: logs and terminals as tabs. Closed tabs end their streams; hidden ones go on.
import { ChevronDown, ChevronUp, ScrollText, SquareTerminal, X } from "lucide-react";
import { lazy, type PointerEvent, Suspense } from "react";
import { useText } from "../i18n";
import { useStore } from "../lib/store";
import { IconButton, Spinner } from "../ui/basics";
import { LogView } from "./logs";
import { activate, closeAll, closeTab, dock, fold, resize, type Tab } from "./store";

const Terminal = lazy(() => import("./terminal"));

export function Dock() {
  const t = useText();
  const { tabs, active, folded, height } = useStore(dock);
  if (tabs.length === 0) return null;

  const drag = (event: PointerEvent<HTMLDivElement>) => {
    const handle = event.currentTarget;
    const from = event.clientY;
    const before = height;
    handle.setPointerCapture(event.pointerId);
    const move = (moved: globalThis.PointerEvent) => resize(before + from - moved.clientY);
    const end = () => {
      handle.removeEventListener("pointermove", move);
      handle.removeEventListener("pointerup", end);
      handle.removeEventListener("pointercancel", end);
    };
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", end);
    handle.addEventListener("pointercancel", end);
  };

  return (
    <section className={`dock ${folded ? "folded" : ""}`} style={folded ? {} : { height }} aria-label={t.dock.title}>
      {!folded && (
        // biome-ignore lint/a11y/useSemanticElements: a separator that can be moved is no <hr>
        <div
          className="dock-handle"
          role="separator"
          aria-orientation="horizontal"
          aria-label={t.dock.resize}
          aria-valuenow={height}
          aria-valuemin={120}
          aria-valuemax={window.innerHeight - 140}
          tabIndex={0}
          onPointerDown={drag}
          onKeyDown={(event) => {
            if (event.key === "ArrowUp") resize(height + 24);
            else if (event.key === "ArrowDown") resize(height - 24);
            else return;
            event.preventDefault();
          }}
        />
      )}
      <div className="dock-head">
        <ul className="dock-tabs" aria-label={t.dock.tabs}>
          {tabs.map((tab) => (
            <li key={tab.id} className={tab.id === active ? "active" : ""}>
              <button
                type="button"
                aria-current={tab.id === active ? "true" : undefined}
                title={tab.title}
                onClick={() => activate(tab.id)}
              >
                {tab.kind === "logs" ? <ScrollText size={14} aria-hidden /> : <SquareTerminal size={14} aria-hidden />}
                <span className="clip">{tab.title}</span>
              </button>
              <button
                type="button"
                className="icon-button"
                aria-label={t.dock.closeTab(tab.title)}
                onClick={() => closeTab(tab.id)}
              >
                <X size={13} aria-hidden />
              </button>
            </li>
          ))}
        </ul>
        <IconButton
          icon={folded ? ChevronUp : ChevronDown}
          label={folded ? t.dock.unfold : t.dock.fold}
          onClick={() => fold(!folded)}
        />
        <IconButton icon={X} label={t.dock.closeAll} onClick={closeAll} />
      </div>
      {tabs.map((tab) => (
        <div key={tab.id} className="dock-body" hidden={folded || tab.id !== active}>
          <Suspense fallback={<Spinner label={t.common.loading} />}>
            <Inside tab={tab} shown={!folded && tab.id === active} />
          </Suspense>
        </div>
      ))}
    </section>
  );
}

const Inside = ({ tab, shown }: { tab: Tab; shown: boolean }) =>
  tab.kind === "logs" ? (
    <LogView pods={tab.pods} shown={shown} {...(tab.container && { container: tab.container })} />
  ) : (
    <Terminal pod={tab.pod} container={tab.container} shown={shown} />
  );
