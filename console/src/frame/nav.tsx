// The way to every page.
import {
  Boxes,
  Compass,
  LayoutDashboard,
  type LucideIcon,
  RefreshCw,
  ScrollText,
  Server,
  Settings,
  Siren,
} from "lucide-react";
import { useText } from "../i18n";
import { Link, useWhere } from "../router/router";

interface Place {
  to: string;
  icon: LucideIcon;
  label: string;
}

export function Nav({ onGo }: { onGo?: () => void }) {
  const t = useText();
  const { path } = useWhere();
  const groups: { title: string; places: Place[] }[] = [
    {
      title: t.nav.fleet,
      places: [
        { to: "/", icon: LayoutDashboard, label: t.nav.overview },
        { to: "/clusters", icon: Server, label: t.nav.clusters },
        { to: "/pods", icon: Boxes, label: t.nav.pods },
        { to: "/events", icon: Siren, label: t.nav.events },
      ],
    },
    { title: t.nav.resources, places: [{ to: "/explore", icon: Compass, label: t.nav.explore }] },
    { title: t.nav.automation, places: [{ to: "/reconcilers", icon: RefreshCw, label: t.nav.reconcilers }] },
    {
      title: t.nav.admin,
      places: [
        { to: "/audit", icon: ScrollText, label: t.nav.audit },
        { to: "/settings", icon: Settings, label: t.nav.settings },
      ],
    },
  ];
  const here = (to: string) => (to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`));
  return (
    <nav className="nav" aria-label={t.nav.title}>
      {groups.map((group) => (
        <div key={group.title} className="nav-group">
          <p className="nav-title">{group.title}</p>
          {group.places.map(({ to, icon: Icon, label }) => (
            <Link
              key={to}
              to={to}
              {...(here(to) && { "aria-current": "page" as const })}
              {...(onGo && { onClick: onGo })}
            >
              <Icon size={16} aria-hidden />
              <span>{label}</span>
            </Link>
          ))}
        </div>
      ))}
    </nav>
  );
}
