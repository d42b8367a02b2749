// The whole console: who is there decides what is shown; the address decides which page.
import { QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useEffect, useState } from "react";
import { queries } from "./api/hooks";
import type { Session } from "./api/types";
import { Dock } from "./dock/dock";
import { dock, fold } from "./dock/store";
import { Help } from "./frame/help";
import { useKeys } from "./frame/keys";
import { Nav } from "./frame/nav";
import { Palette } from "./frame/palette";
import { look, who } from "./frame/session";
import { TopBar } from "./frame/topbar";
import { useText } from "./i18n";
import { useStore } from "./lib/store";
import { Login } from "./pages/login/login";
import { Setup } from "./pages/login/setup";
import { NotFound } from "./pages/notfound";
import { Overview } from "./pages/overview/overview";
import { match, type Params } from "./router/match";
import { Link, useWhere } from "./router/router";
import { Spinner } from "./ui/basics";
import { Boundary } from "./ui/boundary";
import { Problem } from "./ui/problem";
import { Toasts } from "./ui/toast";

type PageOf = (props: { params: Params }) => React.ReactNode;
const page = (load: () => Promise<{ default: PageOf }>) => lazy(load);

const routes: [string, PageOf | React.LazyExoticComponent<PageOf>][] = [
  ["/", Overview],
  ["/clusters", page(() => import("./pages/clusters/list"))],
  ["/clusters/import", page(() => import("./pages/clusters/import"))],
  ["/clusters/:name/:tab?", page(() => import("./pages/clusters/detail"))],
  ["/pods", page(() => import("./pages/pods/pods"))],
  ["/logs", page(() => import("./pages/logs/logs"))],
  ["/events", page(() => import("./pages/events/events"))],
  ["/explore", page(() => import("./pages/explore/kinds"))],
  ["/explore/new", page(() => import("./pages/explore/create"))],
  ["/explore/:group/:version/:plural", page(() => import("./pages/explore/list"))],
  ["/explore/:group/:version/:plural/:cluster/:namespace/:name/:tab?", page(() => import("./pages/explore/detail"))],
  ["/apps/:app", page(() => import("./pages/apps/app"))],
  ["/reconcilers", page(() => import("./pages/reconcilers/list"))],
  ["/reconcilers/:name", page(() => import("./pages/reconcilers/detail"))],
  ["/audit", page(() => import("./pages/audit/audit"))],
  ["/settings", page(() => import("./pages/settings/settings"))],
];

export function App() {
  return (
    <QueryClientProvider client={queries}>
      <Boundary>
        <Door />
      </Boundary>
      <Toasts />
    </QueryClientProvider>
  );
}

function Door() {
  const t = useText();
  const known = useStore(who);
  const { path } = useWhere();
  useEffect(() => {
    void look();
  }, []);
  if (known.is === "unknown") return <Spinner label={t.common.loading} />;
  if (known.is === "unreachable") {
    return (
      <main className="door">
        <Problem error={known.error} retry={() => void look()} />
      </main>
    );
  }
  if (known.is === "out") {
    const link = path === "/setup" && location.hash.startsWith("#t=");
    return known.setup || link ? <Setup /> : <Login demo={known.demo} ended={known.ended} />;
  }
  return <Frame session={known.session} />;
}

function Frame({ session }: { session: Session }) {
  const t = useText();
  const { path } = useWhere();
  const [over, setOver] = useState<"palette" | "help" | null>(null);
  const [drawer, setDrawer] = useState(false);
  const palette = useCallback(() => setOver((now) => (now === "palette" ? null : "palette")), []);
  const help = useCallback(() => setOver("help"), []);
  const toggleDock = useCallback(() => fold(!dock.get().folded), []);
  const close = useCallback(() => setOver(null), []);
  useKeys({ palette, help, dock: toggleDock });
  return (
    <div className="frame">
      <a className="skip" href="#content">
        {t.frame.skip}
      </a>
      <TopBar session={session} onPalette={palette} onHelp={help} onNav={() => setDrawer(!drawer)} />
      <div className="middle">
        <aside className={`side ${drawer ? "open" : ""}`}>
          <Nav onGo={() => setDrawer(false)} />
          <p className="version muted number">Muster {session.version}</p>
        </aside>
        {drawer && (
          <button type="button" className="veil" aria-label={t.common.close} onClick={() => setDrawer(false)} />
        )}
        <main id="content" tabIndex={-1}>
          {session.mustChange && (
            <p className="banner warn" role="status">
              {t.frame.mustChange} <Link to="/settings?at=password">{t.frame.changeNow}</Link>
            </p>
          )}
          <Boundary key={path}>
            <Suspense fallback={<Spinner label={t.common.loading} />}>
              <Current path={path} />
            </Suspense>
          </Boundary>
        </main>
      </div>
      <Dock />
      {over === "palette" && <Palette onClose={close} onHelp={help} />}
      {over === "help" && <Help onClose={close} />}
    </div>
  );
}

function Current({ path }: { path: string }) {
  for (const [pattern, PageAt] of routes) {
    const params = match(pattern, path);
    if (params) return <PageAt params={params} />;
  }
  return <NotFound />;
}
