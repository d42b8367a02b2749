// Many logs at once, and one that is very long.
import { expect, settle, somePods, test, theDock } from "./person";

test("twelve logs are followed over the tab's one line, and every page still opens", async ({ page }) => {
  const byHttp: string[] = [];
  page.on("request", (request) => {
    if (/[?&]follow=true/.test(request.url())) byHttp.push(request.url());
  });
  const pods = (await somePods(page)).slice(0, 12);
  expect(pods).toHaveLength(12);
  await page.goto("/");
  await expect(page.locator(".topbar .live")).toHaveText("Live");
  await page.goto(`/logs?${pods.map((pod) => `pod=${pod.cluster}/${pod.namespace}/${pod.name}`).join("&")}`);
  await expect(page.locator(".logs-foot")).toContainText("following 12 of 12");

  // The same in the dock, which stays while pages change.
  await page.goto("/pods");
  await settle(page);
  const boxes = page.locator("tr[data-row] input[type=checkbox]");
  for (let n = 0; n < 12; n += 1) await boxes.nth(n).check();
  await page.getByRole("button", { name: "Logs of 12 pods" }).click();
  const dock = theDock(page);
  await expect(dock.locator(".logs-foot")).toContainText(/following \d+ of 12/);
  for (const place of ["Clusters", "Events", "Explore", "Audit log", "Settings", "Overview"]) {
    await page.getByRole("link", { name: place, exact: true }).first().click();
    await settle(page);
    await expect(page.getByRole("alert")).toHaveCount(0);
    await expect(dock.locator(".log-line").first()).toBeVisible();
  }
  expect(byHttp, "logs that hold a connection of their own").toEqual([]);
});

test("two hundred thousand lines come as fast as they are taken, and scroll", async ({ page }) => {
  const LINES = 200_000;
  const WINDOW = 256 * 1024;
  const line = (n: number) =>
    `2026-01-01T00:${String(Math.floor(n / 6000) % 60).padStart(2, "0")}:${String(Math.floor(n / 100) % 60).padStart(2, "0")}.${String(n % 100).padStart(2, "0")}Z INFO request ${n} done\n`;
  let furthest = 0;
  // The server of this log is played here: it keeps the rules of the real one about how much may be under way.
  await page.routeWebSocket("**/wapi/v1/stream", (socket) => {
    const server = socket.connectToServer();
    let [id, next, sent, taken] = ["", 0, 0, 0];
    const send = () => {
      while (id && next < LINES && sent - taken < WINDOW - 40_000) {
        let text = "";
        while (next < LINES && text.length < 32_000) {
          text += line(next);
          next += 1;
        }
        sent += text.length;
        furthest = Math.max(furthest, sent - taken);
        socket.send(Buffer.from(`${String.fromCharCode(id.length)}${id}${text}`));
      }
    };
    socket.onMessage((message) => {
      const said = JSON.parse(String(message)) as { follow?: { id: string }; took?: { bytes: number } };
      if (said.follow) {
        id = said.follow.id;
        socket.send(JSON.stringify({ id, event: "open" }));
        send();
      } else if (said.took) {
        taken = said.took.bytes;
        send();
      } else server.send(message);
    });
  });
  const [pod] = await somePods(page);
  if (!pod) throw new Error("the demo has no running pod");
  await page.goto(`/pods?q=${pod.name}&scope=${pod.cluster}`);
  await expect(page.locator(".topbar .live")).toHaveText("Live");
  const begun = Date.now();
  await page.getByRole("button", { name: `Logs of ${pod.name}` }).click();
  const dock = theDock(page);
  await expect(dock.locator(".logs-foot")).toContainText("200,000 lines", { timeout: 90_000 });
  const read = Date.now() - begun;
  await expect(dock.getByText(`request ${LINES - 1} done`)).toBeVisible();

  const box = dock.locator(".logs-scroll");
  const scrolled = Date.now();
  let most = 0;
  for (let step = 0; step <= 40; step += 1) {
    await box.evaluate((view, part) => {
      view.scrollTop = (view.scrollHeight - view.clientHeight) * part;
    }, step / 40);
    await expect(dock.locator(".log-line").first()).toBeVisible();
    most = Math.max(most, await dock.locator(".log-line").count());
  }
  const scroll = Date.now() - scrolled;
  await dock.getByRole("searchbox").fill("request 123456 ");
  await dock.getByRole("button", { name: "Only matches" }).click();
  const searched = Date.now();
  await expect(dock.locator(".logs-foot")).toContainText("1 of 200,000 lines");
  console.log(
    `    200,000 log lines: read in ${read} ms, 41 jumps over all of it in ${scroll} ms, searched in ${Date.now() - searched} ms, at most ${most} lines in the page, ${furthest} bytes under way`,
  );
  expect(most, "lines in the page").toBeLessThan(200);
});

test("logs go on where they were when the line was cut", async ({ page }) => {
  // F-20
  const sockets: { close(): Promise<void> }[] = [];
  await page.routeWebSocket("**/wapi/v1/stream", (socket) => {
    socket.connectToServer();
    sockets.push(socket);
  });
  const [pod] = await somePods(page);
  if (!pod) throw new Error("the demo has no running pod");
  await page.goto(`/logs?pod=${pod.cluster}/${pod.namespace}/${pod.name}`);
  await page.getByRole("button", { name: "Timestamps" }).click();
  const count = async () =>
    Number(/^[\d,]+/.exec((await page.locator(".logs-foot").textContent()) ?? "")?.[0].replace(/,/g, "") ?? 0);
  const following = expect(page.locator(".logs-foot"));
  for (let cut = 0; cut < 3; cut += 1) {
    await expect(page.locator(".topbar .live")).toHaveText("Live");
    await following.toContainText("following 1 of 1");
    const before = await count();
    await expect.poll(count, { message: "the log goes on" }).toBeGreaterThan(before);
    await sockets[sockets.length - 1]?.close();
  }
  await expect(page.locator(".topbar .live")).toHaveText("Live");
  await following.toContainText("following 1 of 1");
  const lines = await page.locator(".log-line").allTextContents();
  expect(new Set(lines).size, "a line is there twice").toBe(lines.length);
  const times = await page.locator(".log-line time").allTextContents();
  expect([...times].sort(), "lines are in the order of their times").toEqual(times);
});
