// Narrows a list to one namespace.
import { changeList, useRead } from "../../api/hooks";
import { NAMESPACES, resources, withQuery } from "../../api/paths";
import type { FlatRow, List } from "../../api/types";
import { useText } from "../../i18n";

export function NamespacePicker({ scope, value }: { scope: string; value: string }) {
  const t = useText();
  const path = withQuery(resources(scope, NAMESPACES), { pageSize: 1000, sort: "name", fields: "cluster,name" });
  const found = useRead<List<FlatRow>>(path);
  const names = [...new Set((found.data?.items ?? []).map((row) => row.name))];
  if (value && !names.includes(value)) names.push(value);
  return (
    <select
      aria-label={t.common.namespace}
      value={value}
      onChange={(event) => changeList({ ns: event.target.value || null })}
    >
      <option value="">{t.lists.allNamespaces}</option>
      {names.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}
