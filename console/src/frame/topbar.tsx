// The top bar: which members we look at, the palette, whether what we see is live, language, theme, user.
import {
  Keyboard,
  Languages,
  LogOut,
  Menu as MenuIcon,
  Moon,
  Search,
  Settings,
  Sun,
  User,
  Wifi,
  WifiOff,
} from "lucide-react";
import { useRead } from "../api/hooks";
import { live } from "../api/live";
import { ALL, cluster, withQuery } from "../api/paths";
import type { ClusterRow, List, Session } from "../api/types";
import { language, useLanguage, useText } from "../i18n";
import { useNow } from "../lib/clock";
import { age } from "../lib/format";
import { useStore } from "../lib/store";
import { isDark, theme } from "../lib/theme";
import { Link, navigate, useScope } from "../router/router";
import { IconButton } from "../ui/basics";
import { Menu } from "../ui/menu";
import { logout } from "./session";

interface TopBarProps {
  session: Session;
  onPalette: () => void;
  onHelp: () => void;
  onNav: () => void;
}

export function TopBar({ session, onPalette, onHelp, onNav }: TopBarProps) {
  const t = useText();
  useStore(theme);
  const lang = useLanguage();
  const dark = isDark();
  return (
    <header className="topbar">
      <IconButton className="nav-button" icon={MenuIcon} label={t.frame.menu} onClick={onNav} />
      <Link to="/" className="brand" aria-label={t.frame.home}>
        <img src="/muster.svg" alt="" width={22} height={22} />
        <span>Muster</span>
      </Link>
      <ScopePicker />
      <button type="button" className="palette-button" onClick={onPalette}>
        <Search size={14} aria-hidden />
        <span>{t.frame.search}</span>
        <kbd className="kbd">{isMac() ? "⌘K" : "Ctrl K"}</kbd>
      </button>
      <span className="gap" />
      <LiveBadge />
      <button
        type="button"
        className="icon-button language"
        aria-label={t.frame.otherLanguage}
        title={t.frame.otherLanguage}
        onClick={() => language.set(lang === "en" ? "zh" : "en")}
      >
        <Languages size={16} aria-hidden />
        <span aria-hidden>{lang === "en" ? "中" : "EN"}</span>
      </button>
      <IconButton
        icon={dark ? Sun : Moon}
        label={dark ? t.frame.light : t.frame.dark}
        onClick={() => theme.set(dark ? "light" : "dark")}
      />
      <Menu
        label={t.frame.user(session.user)}
        className="user-button"
        items={[
          { label: t.nav.settings, icon: Settings, act: () => navigate("/settings") },
          { label: t.frame.keys, icon: Keyboard, hint: "?", act: onHelp },
          { label: t.frame.logout, icon: LogOut, act: () => void logout() },
        ]}
      >
        <User size={16} aria-hidden />
        <span>{session.user}</span>
      </Menu>
    </header>
  );
}

const isMac = () => /Mac|iPhone|iPad/.test(navigator.platform);

export const membersPath = withQuery(cluster(ALL), {
  pageSize: 1000,
  sort: "name",
  fields: "name,cluster,state,ready",
});

function ScopePicker() {
  const t = useText();
  const [scope, setScope] = useScope();
  const members = useRead<List<ClusterRow>>(membersPath);
  const names = (members.data?.items ?? []).map((member) => member.name);
  const known = scope === ALL || names.includes(scope);
  return (
    <label className="scope">
      <span className="hidden">{t.frame.scope}</span>
      <select value={scope} onChange={(event) => setScope(event.target.value)} title={t.frame.scope}>
        <option value={ALL}>{t.frame.allClusters}</option>
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
        {!known && <option>{scope}</option>}
      </select>
    </label>
  );
}

function LiveBadge() {
  const t = useText();
  const lang = useLanguage();
  const now = useNow();
  const liveness = useStore(live.liveness);
  const isLive = liveness.state === "live";
  const word =
    liveness.state === "live"
      ? t.frame.live
      : liveness.state === "stale"
        ? t.frame.stale(age(liveness.since, Math.max(now, liveness.since), lang))
        : t.frame.connecting;
  const Icon = liveness.state === "stale" ? WifiOff : Wifi;
  return (
    <span
      className={`live ${isLive ? "good" : liveness.state === "stale" ? "warn" : "off"}`}
      role="status"
      title={isLive ? t.frame.liveWhy : t.frame.staleWhy}
    >
      <Icon size={14} aria-hidden />
      <span>{word}</span>
    </span>
  );
}
