// Build and tests. `MUSTER_SERVER=http://127.0.0.1:8088 npm run dev` works on a real server; without it `npm run dev` talks to the fake.
import { defineConfig } from "vitest/config";
import { fakeServer } from "./dev/plugin.ts";

const server = process.env.MUSTER_SERVER;
const faces = ["/api", "/apis", "/apiext", "/wapi"];

// The server takes only its own origin: a page of this one has to say that it is of that one.
const passOn = server && { target: server, ws: true, changeOrigin: true, headers: { origin: server } };
const proxy = passOn && Object.fromEntries(faces.map((face) => [`${face}/`, passOn]));

/** As the gateway sends it with every page. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; " +
  "connect-src 'self'; manifest-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

export default defineConfig({
  plugins: server ? [] : [fakeServer()],
  server: { host: "127.0.0.1", ...(proxy && { proxy }) },
  preview: { host: "127.0.0.1", headers: { "content-security-policy": policy }, ...(proxy && { proxy }) },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
    // Libraries mark modules for servers that render React; there is none here.
    rolldownOptions: { onLog: (level, log, next) => log.code !== "MODULE_LEVEL_DIRECTIVE" && next(level, log) },
  },
  test: {
    restoreMocks: true,
    testTimeout: 60_000,
    projects: [
      { extends: true, test: { name: "pure", environment: "node", include: ["src/**/*.test.ts"] } },
      {
        extends: true,
        test: {
          name: "pages",
          environment: "happy-dom",
          include: ["src/**/*.test.tsx"],
          setupFiles: ["src/testing/setup.ts"],
        },
      },
    ],
  },
});
