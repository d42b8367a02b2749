import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it } from "vitest";
import { dock } from "./dock/store";
import { open } from "./testing/page";

const heading = (name: string) => screen.findByRole("heading", { level: 1, name });

describe("coming in", () => {
  it("asks for a login, refuses a wrong password without saying which part is wrong, and lets in", async () => {
    const user = userEvent.setup();
    open("/", false);
    await heading("Log in to Muster");
    await user.type(screen.getByLabelText("User name"), "admin");
    await user.type(screen.getByLabelText("Password"), "wrong");
    await user.click(screen.getByRole("button", { name: "Log in" }));
    expect(await screen.findByText("The user name or the password is wrong.")).toBeTruthy();
    expect((screen.getByLabelText("Password") as HTMLInputElement).value).toBe("");
    await user.type(screen.getByLabelText("Password"), "teleport");
    await user.click(screen.getByRole("button", { name: "Log in" }));
    await heading("Fleet overview");
    expect(screen.getByText(/password that everybody knows/)).toBeTruthy();
  });

  it("makes the first administrator only with a password that is long enough, and takes the token out of the address", async () => {
    const user = userEvent.setup();
    const { asked } = open("/setup#t=secret-token", false);
    await heading("Set up Muster");
    await user.type(screen.getByLabelText("New password"), "short");
    await user.type(screen.getByLabelText("The same again"), "short");
    await user.click(screen.getByRole("button", { name: "Create administrator" }));
    expect(await screen.findByText("It needs at least 12 characters.")).toBeTruthy();
    expect(asked.some(({ url }) => url.includes("setup"))).toBe(false);
    await user.type(screen.getByLabelText("New password"), " but now longer");
    await user.type(screen.getByLabelText("The same again"), " but now longer");
    await user.click(screen.getByRole("button", { name: "Create administrator" }));
    await heading("Fleet overview");
    expect(location.href).not.toContain("secret-token");
    const sent = asked.find(({ url }) => url === "/wapi/v1/setup");
    expect(JSON.parse(sent?.body ?? "{}")).toMatchObject({ token: "secret-token", user: "admin" });
  });

  it("goes back to the login when the session ends, and says so", async () => {
    const { fake } = open("/clusters");
    await heading("Clusters");
    fake.answer = () => ({ status: 401, body: { code: 401, reason: "Unauthorized", message: "ended", details: {} } });
    const { refresh } = await import("./api/hooks");
    await refresh();
    expect(await screen.findByText("Your session has ended. Log in again.")).toBeTruthy();
  });
});

describe("lists", () => {
  it("keep the rows of a cluster that cannot be reached, marked as old", async () => {
    open("/pods");
    expect(await screen.findByText(/its rows are as they were/)).toBeTruthy();
    const table = within(screen.getByRole("table"));
    const old = table.getAllByRole("row").filter((row) => row.className === "stale");
    expect(old.length).toBe(12);
    expect(old.every((row) => row.textContent?.includes("guangzhou"))).toBe(true);
  });

  it("ask the server to sort, and keep the order in the address", async () => {
    const user = userEvent.setup();
    const { asked } = open("/pods");
    await screen.findByRole("table");
    await user.click(screen.getByRole("button", { name: "Age" }));
    await waitFor(() => expect(location.search).toContain("sort=created"));
    await user.click(screen.getByRole("button", { name: "Age" }));
    await waitFor(() => expect(asked[asked.length - 1]?.url).toContain("sort=-created"));
  });

  it("carry only the fields they show", async () => {
    const { asked } = open("/pods");
    await screen.findByRole("table");
    const list = asked.find(({ url }) => url.includes("/resources/core/v1/pods"));
    expect(new URL(list?.url ?? "", "http://x").searchParams.get("fields")).toContain("status.containerStatuses");
  });

  it("move by keyboard and open logs with l", async () => {
    const user = userEvent.setup();
    open("/pods");
    const table = await screen.findByRole("table");
    await user.keyboard("j");
    await user.keyboard("j");
    const rows = within(table).getAllByRole("row");
    expect(document.activeElement).toBe(rows[2]);
    await user.keyboard("l");
    expect(dock.get().tabs.map((tab) => tab.kind)).toEqual(["logs"]);
    expect(await screen.findByRole("region", { name: "Dock: logs and terminals" })).toBeTruthy();
  });

  it("say what failed, why, what to do, and the request id", async () => {
    const { fake } = open("/settings");
    await heading("Settings");
    const answer = fake.answer.bind(fake);
    fake.answer = (asked) =>
      asked.path === "/wapi/v1/audit"
        ? {
            status: 403,
            body: { code: 403, reason: "Forbidden", message: "get /audit is not allowed for ann", details: {} },
          }
        : answer(asked);
    const { navigate } = await import("./router/router");
    navigate("/audit");
    const alert = await screen.findByRole("alert");
    expect(alert.textContent).toContain("You may not do this");
    expect(alert.textContent).toContain("get /audit is not allowed for ann");
    expect(alert.textContent).toContain("role binding");
    expect(alert.textContent).toContain("fake-0001");
  });
});

describe("importing a cluster", () => {
  it("shows what is refused and why, and does not import it", async () => {
    const user = userEvent.setup();
    const { asked } = open("/clusters/import");
    await heading("Import cluster");
    await user.type(screen.getByLabelText("Name"), "prod");
    await user.click(screen.getByLabelText("Kubeconfig"));
    await user.paste("users: [{user: {exec: {command: /bin/sh}}}]\nexec: here");
    await user.click(screen.getByRole("button", { name: "Check" }));
    expect(await screen.findByText("users[0].user.exec")).toBeTruthy();
    expect(screen.getByRole("button", { name: "Import cluster" }).hasAttribute("disabled")).toBe(true);
    const sent = asked.filter(({ method }) => method === "POST");
    expect(sent).toHaveLength(1);
    expect(JSON.parse(sent[0]?.body ?? "{}")).toMatchObject({ name: "prod", dryRun: true });
    expect(sent[0]?.headers["x-muster-csrf"]).toBe("fake-csrf");
  });

  it("names a bad name before anything is sent", async () => {
    const user = userEvent.setup();
    open("/clusters/import");
    await heading("Import cluster");
    await user.type(screen.getByLabelText("Name"), "Not A Name");
    expect(screen.getByText(/Use lower-case letters/)).toBeTruthy();
    expect(screen.getByRole("button", { name: "Check" }).hasAttribute("disabled")).toBe(true);
  });
});

describe("the overview", () => {
  it("shows what cannot be reached first", async () => {
    open("/");
    await heading("Fleet overview");
    const cards = await screen.findAllByRole("link", { name: /^(beijing|shanghai|guangzhou)$/ });
    expect(cards.map((card) => card.textContent)).toEqual(["guangzhou", "beijing", "shanghai"]);
    expect(document.title).toBe("Fleet overview · Muster");
  });
});

describe("the frame", () => {
  it("speaks Chinese at a click, everywhere", async () => {
    const user = userEvent.setup();
    open("/clusters");
    await heading("Clusters");
    await user.click(screen.getByRole("button", { name: "切换到中文" }));
    await heading("集群");
    expect(document.documentElement.lang).toBe("zh-CN");
    expect(screen.getByRole("link", { name: "审计日志" })).toBeTruthy();
  });

  it("finds a pod by the palette and goes there", async () => {
    const user = userEvent.setup();
    open("/");
    await heading("Fleet overview");
    await user.keyboard("{Control>}k{/Control}");
    await user.type(screen.getByRole("combobox", { name: "Search or jump to…" }), "payments-7d");
    const first = await screen.findAllByRole("option", { name: /payments-7d4b9c/ });
    await user.click(first[0] as HTMLElement);
    await waitFor(() =>
      expect(location.pathname).toMatch(/^\/explore\/core\/v1\/pods\/beijing\/shop\/payments-7d4b9c/),
    );
  });

  it("goes places by two keys, but not while somebody types", async () => {
    const user = userEvent.setup();
    open("/clusters");
    await heading("Clusters");
    await user.click(screen.getByRole("searchbox", { name: "Search" }));
    await user.keyboard("ge");
    expect(location.pathname).toBe("/clusters");
    (document.activeElement as HTMLElement).blur();
    await user.keyboard("ge");
    await heading("Events");
  });

  it("removes a cluster only when its name was typed", async () => {
    const user = userEvent.setup();
    const { asked } = open("/clusters/beijing");
    await user.click(await screen.findByRole("button", { name: "Remove" }));
    const dialog = within(screen.getByRole("dialog"));
    const button = dialog.getByRole("button", { name: "Remove" });
    expect(button.hasAttribute("disabled")).toBe(true);
    await user.type(dialog.getByLabelText("Type beijing to confirm"), "beijing");
    await user.click(button);
    await waitFor(() =>
      expect(
        asked.some(({ method, url }) => method === "DELETE" && url === "/apis/zcloud.cn/v1/clusters/beijing"),
      ).toBe(true),
    );
  });
});

describe("a reconciler", () => {
  it("shows its failures, counts its objects on the server, and has one or all looked at again", async () => {
    // KC-10
    const user = userEvent.setup();
    const { asked } = open("/reconcilers/at");
    expect(await screen.findByText("the API answered 503: away", { exact: false })).toBeTruthy();
    const table = await screen.findByRole("table", { name: "At" });
    const lists = asked.filter(({ url }) => url.startsWith("/apiext/v1/demo.wukong.com/v1/ats?"));
    expect(lists.some(({ url }) => url.includes("countBy=phase") && url.includes("pageSize=0"))).toBe(true);
    const [row] = within(table).getAllByRole("row").slice(1);
    await user.click(within(row as HTMLElement).getByRole("button", { name: /^Actions for / }));
    await user.click(screen.getByRole("menuitem", { name: /Look again/ }));
    const sent = (path: string) => asked.some(({ method, url }) => method === "POST" && url === path);
    const key = encodeURIComponent((row as HTMLElement).getAttribute("data-row") ?? "");
    await waitFor(() => expect(sent(`/wapi/v1/controllers/at/requeue?key=${key}`)).toBe(true));
    await user.click(screen.getByRole("button", { name: "Look at all again" }));
    await waitFor(() => expect(sent("/wapi/v1/controllers/at/requeue")).toBe(true));
  });
});

describe("any kind", () => {
  it("deletes several objects with one confirmation, and keeps those that could not be", async () => {
    const user = userEvent.setup();
    const { fake, asked } = open("/explore/apps/v1/deployments?scope=beijing");
    const table = await screen.findByRole("table");
    const boxes = within(table).getAllByRole("checkbox");
    await user.click(boxes[0] as HTMLElement);
    await user.click(boxes[1] as HTMLElement);
    await user.click(await screen.findByRole("button", { name: "Delete 2" }));
    const answer = fake.answer.bind(fake);
    let refused = "";
    fake.answer = (it) => {
      if (it.method !== "DELETE" || refused) return answer(it);
      refused = it.path;
      return { status: 403, body: { code: 403, reason: "Forbidden", message: "not this one", details: {} } };
    };
    const dialog = within(screen.getByRole("dialog"));
    expect(dialog.getByRole("button", { name: "Delete" }).hasAttribute("disabled")).toBe(true);
    await user.type(dialog.getByLabelText("Type 2 to confirm"), "2");
    await user.click(dialog.getByRole("button", { name: "Delete" }));
    expect(await screen.findByText("1 of Deployment deleted")).toBeTruthy();
    expect(await screen.findByText("not this one")).toBeTruthy();
    expect(asked.filter(({ method }) => method === "DELETE")).toHaveLength(2);
    expect(await screen.findByRole("button", { name: "Delete 1" })).toBeTruthy();
  });

  it("says that an object of a cluster that cannot be asked is old, and does not let it be edited", async () => {
    const { fake } = open("/settings");
    const answer = fake.answer.bind(fake);
    const since = new Date(Date.now() - 600_000).toISOString();
    fake.answer = (it) => {
      const said = answer(it);
      const one = /deployments\/web$/.test(it.path) && it.query.get("raw") !== "true" && said.status === 200;
      return one ? { ...said, body: { ...(said.body as object), stale: [{ cluster: "guangzhou", since }] } } : said;
    };
    const { navigate } = await import("./router/router");
    navigate("/explore/apps/v1/deployments/guangzhou/shop/web/yaml");
    expect(await screen.findByText(/guangzhou cannot be reached/)).toBeTruthy();
    const edit = await screen.findByRole("button", { name: "Edit" });
    expect(edit.hasAttribute("disabled")).toBe(true);
  });
});

describe("a menu", () => {
  it("goes with its button while the page scrolls, and closes when that is out of sight", async () => {
    const user = userEvent.setup();
    open("/pods");
    const table = await screen.findByRole("table");
    const [button] = within(table).getAllByRole("button", { name: /^Actions for / });
    await user.click(button as HTMLElement);
    expect(screen.getByRole("menu")).toBeTruthy();
    const scrollTo = (top: number) => {
      (button as HTMLElement).getBoundingClientRect = () => new DOMRect(0, top, 20, 20);
      table.parentElement?.dispatchEvent(new Event("scroll"));
    };
    scrollTo(100);
    await waitFor(() => expect(screen.getByRole("menu").style.top).toBe("124px"));
    scrollTo(-100);
    await waitFor(() => expect(screen.queryByRole("menu")).toBeNull());
  });
});
