// One `muster up --demo` for all tests, unless MUSTER_URL names a server that runs already, or the tests have their own (the big list, the soak).
import { Server } from "./server";

export default async function demo(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.MUSTER_URL || process.env.MUSTER_BIG === "only" || process.env.MUSTER_SOAK) return undefined;
  const server = await Server.start("--demo");
  process.env.MUSTER_URL = server.url;
  return () => server.stop();
}
