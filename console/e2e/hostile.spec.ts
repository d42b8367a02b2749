// What clusters say is text: markup in events and objects, columns and kinds with evil names. // B-14, B-16
import type { Page } from "@playwright/test";
import { apply, expect, rows, settle, test } from "./person";

const MARKUP = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script><svg onload=pwned=1>`;
const LINK = "javascript:window.pwned=1";
const GROUP = "evil.example.com";
const COLUMN = `<b onmouseover="pwned=1">Column`;

/** Everything that ran, and everything the policy of the page had to stop: both must be nothing. */
async function watched(page: Page): Promise<() => Promise<unknown>> {
  await page.addInitScript(() => {
    const seen: string[] = [];
    Object.assign(window, { seen });
    document.addEventListener("securitypolicyviolation", (event) =>
      seen.push(`${event.violatedDirective} ${event.blockedURI}`),
    );
    window.alert = () => void seen.push("alert");
  });
  return () =>
    page.evaluate(() => {
      const { seen, pwned } = window as unknown as { seen: string[]; pwned?: unknown };
      const evil = document.querySelectorAll("main img, main script, main svg[onload], main b[onmouseover]").length;
      const links = [...document.querySelectorAll("a[href]")].filter((a) =>
        /^javascript:/i.test(a.getAttribute("href") ?? ""),
      );
      return { seen, pwned: pwned ?? null, evil, links: links.length };
    });
}
const CLEAN = { seen: [], pwned: null, evil: 0, links: 0 };

test("markup in events is shown as text, and no script runs", async ({ page }) => {
  const ran = await watched(page);
  const [cluster] = await rows(page, "/api/cluster/all?sort=name&filter=state+eq+Running");
  const at = `/api/cluster/${cluster?.name}/resources/core/v1/namespaces/default/events`;
  const name = `evil-${Date.now().toString(36)}`;
  const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  await apply(page.request, `${at}/${name}`, {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name, namespace: "default" },
    involvedObject: { kind: `Pod${MARKUP}`, namespace: "default", name: `"><script>pwned=1</script>` },
    reason: `Evil${MARKUP}`,
    message: `${name} ${MARKUP} ${LINK} \u001b[31mred\u202etxet`,
    type: "Warning",
    count: 1,
    firstTimestamp: now,
    lastTimestamp: now,
  });
  await page.goto(`/events?q=${name}`);
  await settle(page);
  await expect(page.getByText(MARKUP, { exact: false }).first()).toBeVisible();
  expect(await ran()).toEqual(CLEAN);
  // The row leads where such an object would be, and nowhere else.
  await page.locator("tr[data-row]").first().dblclick();
  await settle(page);
  expect(new URL(page.url()).origin).toBe(new URL(process.env.MUSTER_URL ?? "").origin);
  expect(await ran()).toEqual(CLEAN);
  await page.goto("/");
  await settle(page);
  expect(await ran()).toEqual(CLEAN);
});

test("a kind with an evil name, columns and values of markup are text in lists, details and YAML", async ({ page }) => {
  const ran = await watched(page);
  const [cluster] = await rows(page, "/api/cluster/all?sort=name&filter=state+eq+Running");
  const here = `/api/cluster/${cluster?.name}/resources`;
  const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  await apply(page.request, `${here}/apiextensions.k8s.io/v1/customresourcedefinitions/constructors.${GROUP}`, {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `constructors.${GROUP}` },
    spec: {
      group: GROUP,
      scope: "Namespaced",
      names: { plural: "constructors", singular: "constructor", kind: "Constructor", listKind: "ConstructorList" },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", properties: { spec: anything, status: anything } } },
          additionalPrinterColumns: [
            { name: COLUMN, type: "string", jsonPath: ".spec.html", description: MARKUP },
            { name: "Link", type: "string", jsonPath: ".spec.link" },
            { name: "Proto", type: "string", jsonPath: ".spec.__proto__.toString" },
            { name: "When", type: "date", jsonPath: ".spec.html" },
          ],
        },
      ],
    },
  });
  const object = `${here}/${GROUP}/v1/namespaces/default/constructors/constructor`;
  await expect
    .poll(async () => (await page.request.get(`/api/cluster/${cluster?.name}/kinds`)).text(), { timeout: 60_000 })
    .toContain("Constructor");
  await apply(page.request, object, {
    apiVersion: `${GROUP}/v1`,
    kind: "Constructor",
    metadata: { name: "constructor", namespace: "default", annotations: { [`${GROUP}/note`]: MARKUP } },
    spec: { html: MARKUP, link: LINK },
    status: { phase: MARKUP, message: MARKUP, conditions: [{ type: MARKUP, status: MARKUP, message: LINK }] },
  });
  const list = `/explore/${GROUP}/v1/constructors`;
  for (const scope of ["", `?scope=${cluster?.name}`]) {
    await page.goto(list + scope);
    await settle(page);
    await expect(page.getByRole("columnheader", { name: COLUMN })).toBeVisible();
    await expect(page.getByRole("cell", { name: MARKUP, exact: true }).first()).toBeVisible();
    await expect(page.getByRole("cell", { name: LINK })).toBeVisible();
    expect(await ran()).toEqual(CLEAN);
  }
  // The server sorts by the column that the definition names.
  await page.getByRole("button", { name: "Link" }).click();
  await expect(page).toHaveURL(/sort=spec\.link/);
  await expect(page.getByRole("cell", { name: LINK })).toBeVisible();
  const one = `${list}/${cluster?.name}/default/constructor`;
  for (const [tab, shown] of [
    ["", MARKUP],
    ["/events", "No events"],
    ["/yaml", "onerror="],
  ] as const) {
    await page.goto(one + tab);
    await settle(page);
    await expect(page.getByText(shown).first()).toBeVisible();
    expect(await ran()).toEqual(CLEAN);
  }
  await page.goto(`/explore?scope=${cluster?.name}`);
  await page.getByRole("searchbox", { name: "Find a kind" }).fill("constructor");
  await expect(page.getByRole("link", { name: "Constructor" })).toBeVisible();
  expect(await ran()).toEqual(CLEAN);

  // Names of no address, and addresses that are none.
  for (const path of [
    "/explore/__proto__/constructor/toString",
    `/apps/${encodeURIComponent(MARKUP)}`,
    `/clusters/${encodeURIComponent(MARKUP)}`,
    `/pods?q=${encodeURIComponent(MARKUP)}&sort=${encodeURIComponent(MARKUP)}`,
    `/logs?pod=${encodeURIComponent(`${MARKUP}/a/b`)}`,
    "/explore/%E0%A4%A/v1/pods",
  ]) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    expect(await ran(), path).toEqual(CLEAN);
  }
});
