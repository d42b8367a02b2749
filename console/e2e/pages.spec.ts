// Every page, in both languages and themes, wide and narrow: no grave fault of accessibility, nothing wider than the screen. Pictures go to
// console/shots, which is not committed.
import { accessible, expect, rows, settle, somePods, test } from "./person";

const shots = new URL("../shots/", import.meta.url).pathname;

/** Both languages and both themes; every combination when the pictures are wanted. */
const dresses = process.env.MUSTER_SHOTS
  ? [
      ["en", "light"],
      ["en", "dark"],
      ["zh", "light"],
      ["zh", "dark"],
    ]
  : [
      ["en", "light"],
      ["zh", "dark"],
    ];

interface Place {
  name: string;
  path: string;
}

test("every page is accessible in every dress", async ({ page }) => {
  test.setTimeout(600_000);
  const [cluster] = await rows(page, "/api/cluster/all?sort=name");
  const [pod] = await somePods(page);
  const [deployment] = await rows(
    page,
    "/api/cluster/all/resources/apps/v1/deployments?pageSize=1&filter=namespace+ne+kube-system",
  );
  const controllers = await rows(page, "/wapi/v1/controllers");
  const controller = controllers.find((one) => "graph" in one) ?? controllers[0];
  expect(cluster && pod && deployment).toBeTruthy();
  const inside = `/clusters/${cluster?.name}`;
  const thePod = `/explore/core/v1/pods/${pod?.cluster}/${pod?.namespace}/${pod?.name}`;
  const places: Place[] = [
    { name: "overview", path: "/" },
    { name: "clusters", path: "/clusters" },
    { name: "import", path: "/clusters/import" },
    { name: "cluster", path: inside },
    { name: "cluster-nodes", path: `${inside}/nodes` },
    { name: "cluster-workloads", path: `${inside}/workloads` },
    { name: "cluster-releases", path: `${inside}/releases` },
    { name: "cluster-events", path: `${inside}/events` },
    { name: "cluster-access", path: `${inside}/access` },
    { name: "cluster-yaml", path: `${inside}/yaml` },
    { name: "pods", path: "/pods" },
    { name: "pod", path: thePod },
    { name: "pod-events", path: `${thePod}/events` },
    { name: "logs", path: `/logs?pod=${pod?.cluster}/${pod?.namespace}/${pod?.name}` },
    { name: "app", path: `/apps/${deployment?.name}` },
    { name: "events", path: "/events" },
    { name: "explore", path: "/explore" },
    { name: "create", path: "/explore/new" },
    { name: "explore-meta", path: "/explore?scope=meta" },
    { name: "explore-list", path: "/explore/apps/v1/deployments" },
    {
      name: "explore-yaml",
      path: `/explore/apps/v1/deployments/${deployment?.cluster}/${deployment?.namespace}/${deployment?.name}/yaml`,
    },
    { name: "reconcilers", path: "/reconcilers" },
    ...(controller ? [{ name: "reconciler", path: `/reconcilers/${controller.name}` }] : []),
    { name: "audit", path: "/audit" },
    { name: "settings", path: "/settings" },
    { name: "nowhere", path: "/no/such/page" },
  ];
  const wanted = process.env.MUSTER_PAGES?.split(",");
  await page.goto("/");
  for (const { name, path } of places.filter((place) => !wanted || wanted.includes(place.name))) {
    for (const [language, theme] of dresses) {
      await page.evaluate(
        ([lang, look]) => {
          localStorage.setItem("muster.language", JSON.stringify(lang));
          localStorage.setItem("muster.theme", JSON.stringify(look));
        },
        [language, theme],
      );
      await page.setViewportSize({ width: 1280, height: 860 });
      await page.goto(path);
      await settle(page);
      await page.screenshot({ path: `${shots}${name}-${language}-${theme}-1280.png` });
      await test.step(`${name} ${language} ${theme} has no grave fault`, () => accessible(page));
      await page.setViewportSize({ width: 390, height: 844 });
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      expect.soft(wider, `${name} is wider than a narrow screen`).toBeLessThanOrEqual(0);
      if (process.env.MUSTER_SHOTS) await page.screenshot({ path: `${shots}${name}-${language}-${theme}-390.png` });
    }
  }
});
