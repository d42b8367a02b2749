// Without a mouse: from the login over the palette to the pods and their logs, and back out.
import { expect, PASSWORD, settle, test, theDock, USER } from "./person";

test("everything on the way to a log can be done by keyboard alone", async ({ browser, baseURL }) => {
  const context = await browser.newContext({
    locale: "en-GB",
    ...(baseURL && { baseURL }),
    storageState: { cookies: [], origins: [] },
  });
  const page = await context.newPage();
  const { keyboard } = page;
  /** Where the keyboard is, and that it can be seen there. */
  const focused = () =>
    page.evaluate(() => {
      const at = document.activeElement as HTMLElement;
      const style = getComputedStyle(at);
      const shown = (style.outlineStyle !== "none" && style.outlineWidth !== "0px") || style.boxShadow !== "none";
      return { tag: at.tagName, role: at.getAttribute("role"), name: at.ariaLabel ?? at.textContent ?? "", shown };
    });
  await page.goto("/");
  await expect(page.getByLabel("User name")).toBeFocused();
  await keyboard.type(USER);
  await keyboard.press("Tab");
  await expect(page.getByLabel("Password")).toBeFocused();
  await keyboard.type(PASSWORD);
  await keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Fleet overview");
  await settle(page);

  // The first stop is the way past the navigation.
  await keyboard.press("Tab");
  expect((await focused()).name).toContain("Skip to content");
  await keyboard.press("Enter");
  await keyboard.press("Tab");
  expect(await focused()).toMatchObject({ shown: true });
  expect(await page.evaluate(() => document.getElementById("content")?.contains(document.activeElement))).toBe(true);

  await keyboard.press("Control+k");
  await expect(page.getByRole("combobox", { name: "Search or jump to…" })).toBeFocused();
  await keyboard.type("Pods");
  await expect(page.getByRole("option", { name: /^Pods/ })).toBeVisible();
  const choices = await page.getByRole("option").allTextContents();
  for (let n = choices.findIndex((text) => text.startsWith("Pods")); n > 0; n -= 1) await keyboard.press("ArrowDown");
  await keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Pods");
  await settle(page);
  await expect(page.locator("tr[data-row]").first()).toBeVisible();

  await keyboard.press("/");
  await expect(page.getByRole("searchbox", { name: "Search", exact: true })).toBeFocused();
  await keyboard.type("web");
  await expect(page).toHaveURL(/q=web/);
  await expect(page.locator("tr[data-row]", { hasNotText: "web" })).toHaveCount(0);
  await keyboard.press("Tab");
  await keyboard.press("Escape");
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await keyboard.press("j");
  await expect(page.locator("tr[data-row]").first()).toBeFocused();
  await keyboard.press("j");
  await expect(page.locator("tr[data-row]").nth(1)).toBeFocused();
  expect(await focused()).toMatchObject({ tag: "TR", shown: true });
  await keyboard.press("Space");
  await expect(page.locator("tr[data-row]").nth(1).getByRole("checkbox")).toBeChecked();
  await keyboard.press("l");
  const dock = theDock(page);
  await expect(dock.locator(".log-line").first()).toBeVisible();

  // Into the dock, to its search box, by Tab alone.
  const search = dock.getByRole("searchbox");
  for (let n = 0; n < 400; n += 1) {
    if (await search.evaluate((box) => box === document.activeElement)) break;
    await keyboard.press("Tab");
  }
  await expect(search).toBeFocused();
  await keyboard.type("2");
  await expect(dock.locator("mark").first()).toBeVisible();
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await keyboard.press("`");
  await expect(dock.locator(".log-line").first()).toBeHidden();
  await keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
  await keyboard.press("Escape");
  await expect(page.getByRole("dialog", { name: "Keyboard shortcuts" })).toHaveCount(0);
  await keyboard.press("g");
  await keyboard.press("c");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Clusters");
  await context.close();
});
