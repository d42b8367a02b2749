// What login and setup stand in: the name of the house, and the choice of language before anybody is known.
import { Languages } from "lucide-react";
import type { ReactNode } from "react";
import { language, useLanguage, useText } from "../../i18n";

export function Shell({ title, children }: { title: string; children: ReactNode }) {
  const t = useText();
  const lang = useLanguage();
  return (
    <main className="door">
      <div className="door-card">
        <header>
          <img src="/muster.svg" alt="" width={36} height={36} />
          <h1>{title}</h1>
        </header>
        {children}
      </div>
      <button type="button" className="button quiet" onClick={() => language.set(lang === "en" ? "zh" : "en")}>
        <Languages size={15} aria-hidden />
        {t.frame.otherLanguage}
      </button>
    </main>
  );
}
