// The least that Muster needs on a member, as YAML to be applied there.
import { Download } from "lucide-react";
import { useState } from "react";
import { ask } from "../../api/client";
import { useText } from "../../i18n";
import { download } from "../../lib/clipboard";
import { Button, Card, CopyButton } from "../../ui/basics";
import { Problem } from "../../ui/problem";

export function MemberRole() {
  const t = useText();
  const [yaml, setYaml] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const show = async () => {
    setError(null);
    try {
      setYaml(await (await ask("/wapi/v1/member-role")).text());
    } catch (problem) {
      setError(problem as Error);
    }
  };
  return (
    <Card
      title={t.role.title}
      actions={
        yaml && (
          <>
            <CopyButton text={yaml} />
            <Button icon={Download} onClick={() => download("muster-member.yaml", yaml, "application/yaml")}>
              {t.common.download}
            </Button>
          </>
        )
      }
    >
      <p className="muted">{t.role.why}</p>
      {error && <Problem error={error} compact />}
      {yaml ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
        <pre className="code" tabIndex={0}>
          {yaml}
        </pre>
      ) : (
        <Button onClick={() => void show()}>{t.role.show}</Button>
      )}
    </Card>
  );
}
