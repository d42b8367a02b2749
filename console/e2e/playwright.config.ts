// Browser tests on a running server: MUSTER_URL=http://127.0.0.1:8088 npm run e2e. They expect `muster up --demo`. The first start is tested
// on a server without --demo: MUSTER_URL=… MUSTER_SETUP_LINK=… npm run e2e.
import { defineConfig } from "@playwright/test";

const baseURL = process.env.MUSTER_URL;
if (!baseURL)
  throw new Error("set MUSTER_URL to the address of a running `muster up --demo`, such as http://127.0.0.1:8088");

/** A server that waits for its first administrator has no demo to log in to. */
const first = process.env.MUSTER_SETUP_LINK !== undefined;

export default defineConfig({
  testDir: ".",
  outputDir: "../test-results",
  workers: 1,
  timeout: 60_000,
  expect: { timeout: 10_000 },
  reporter: [["list"]],
  use: {
    baseURL,
    locale: "en-GB",
    viewport: { width: 1280, height: 860 },
    permissions: ["clipboard-read", "clipboard-write"],
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-dev-shm-usage"],
    },
  },
  projects: first
    ? [{ name: "setup", testMatch: "first.setup.ts" }]
    : [
        { name: "login", testMatch: "login.setup.ts" },
        {
          name: "console",
          testMatch: "*.spec.ts",
          dependencies: ["login"],
          use: { storageState: new URL("../test-results/state.json", import.meta.url).pathname },
        },
      ],
});
