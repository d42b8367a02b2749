// No such page.
import { useText } from "../i18n";
import { LinkButton, Page } from "../ui/basics";
import { Empty } from "../ui/problem";

export function NotFound() {
  const t = useText();
  return (
    <Page title={t.notFound.title}>
      <Empty title={t.notFound.what} action={<LinkButton to="/">{t.nav.overview}</LinkButton>}>
        {t.notFound.next}
      </Empty>
    </Page>
  );
}
