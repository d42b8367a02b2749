// The cheat sheet behind `?`.
import { Fragment } from "react";
import { useText } from "../i18n";
import { Kbd } from "../ui/basics";
import { Dialog } from "../ui/dialog";

export function Help({ onClose }: { onClose: () => void }) {
  const t = useText();
  const groups: [string, [string[], string][]][] = [
    [
      t.keys.everywhere,
      [
        [["⌘K", "Ctrl K"], t.keys.palette],
        [["?"], t.keys.help],
        [["/"], t.keys.filter],
        [["`"], t.keys.dock],
        [["Esc"], t.keys.escape],
      ],
    ],
    [
      t.keys.go,
      [
        [["g o"], t.nav.overview],
        [["g c"], t.nav.clusters],
        [["g p"], t.nav.pods],
        [["g x"], t.nav.explore],
        [["g e"], t.nav.events],
        [["g r"], t.nav.reconcilers],
        [["g a"], t.nav.audit],
        [["g s"], t.nav.settings],
      ],
    ],
    [
      t.keys.lists,
      [
        [["j", "k", "↓", "↑"], t.keys.move],
        [["Enter"], t.keys.open],
        [["Space"], t.keys.select],
        [["l"], t.keys.logs],
        [["s"], t.keys.shell],
        [["d"], t.keys.describe],
        [["y"], t.keys.yaml],
        [["e"], t.keys.edit],
      ],
    ],
  ];
  return (
    <Dialog title={t.frame.keys} onClose={onClose} wide>
      <div className="key-groups">
        {groups.map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {keys.map(([all, what]) => (
                <div key={what}>
                  <dt>
                    {all.map((key) => (
                      <Fragment key={key}>
                        <Kbd>{key}</Kbd>{" "}
                      </Fragment>
                    ))}
                  </dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
