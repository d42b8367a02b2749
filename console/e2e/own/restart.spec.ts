// A line that is cut again and again, and a server that is killed and started anew: the page finds back by itself. // F-20
import { expect, fillIn, login, noRowTwice, proof, rows, settle, test } from "../person";
import { Server } from "../server";

test("a page whose line is cut and whose server is killed recovers by itself", async ({ browser }) => {
  test.setTimeout(240_000);
  const server = await Server.start("--demo");
  const context = await browser.newContext({ locale: "en-GB", baseURL: server.url });
  const page = await context.newPage();
  const broken: string[] = [];
  page.on("pageerror", (error) => broken.push(String(error)));
  let cut = async () => {};
  await page.routeWebSocket("**/wapi/v1/stream", (socket) => {
    socket.connectToServer();
    cut = () => socket.close();
  });
  const badge = page.locator(".topbar .live");
  await login(page, "/explore/apps/v1/deployments");
  await settle(page);
  const [deployment] = await rows(
    page,
    "/api/cluster/all/resources/apps/v1/deployments?pageSize=1&sort=name&filter=namespace+ne+kube-system",
  );
  if (!deployment) throw new Error("the demo has no deployment");
  const { cluster, namespace, name } = deployment;
  const row = page.locator(`tr[data-row="${cluster}/${namespace}/${name}"]`);
  const path = `/api/cluster/${cluster}/resources/apps/v1/namespaces/${namespace}/deployments/${name}`;
  const scale = async (replicas: number) => {
    const headers = await proof(page.request);
    expect((await page.request.post(`${path}/scale`, { data: { replicas }, headers })).status()).toBe(200);
  };
  await expect(row).toBeVisible();
  const heap = () =>
    page.evaluate(() => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize);
  await expect(badge).toHaveText("Live");
  const before = await heap();
  for (let n = 1; n <= 10; n += 1) {
    await cut();
    // What changes while nobody listens is seen as soon as somebody does.
    await scale(1 + (n % 4));
    await expect(row).toContainText(`/ ${1 + (n % 4)}`);
    await expect(badge).toHaveText("Live");
    await noRowTwice(page);
  }
  console.log(`    ten cuts: the page's heap went from ${before} to ${await heap()} bytes`);

  await server.kill();
  await expect(badge).toHaveText(/Not live/);
  await expect(row, "what was read stays").toBeVisible();
  await server.again();
  // Sessions live in memory, so the person has to log in again; the page says so by itself and is the same afterwards.
  await expect(page.getByText("Your session has ended. Log in again.")).toBeVisible({ timeout: 60_000 });
  await fillIn(page);
  await expect(page).toHaveURL(/\/explore\/apps\/v1\/deployments/);
  await expect(row).toBeVisible();
  await expect(badge).toHaveText("Live");
  await noRowTwice(page);
  expect(broken).toEqual([]);
  await context.close();
  await server.stop();
});
