// ttyd, a peer: a terminal in a page. Measured if it is in PATH.

import { spawn } from "node:child_process";
import { createServer } from "node:net";

import { DEADLINE, sleep, versionOf } from "./harness.mjs";

/** Returns a free port of loopback. */
function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Starts ttyd with a program; null if it is not installed. Its renderer is the one that nerve uses. */
export async function openTtyd(argv) {
  const version = versionOf("ttyd");
  if (version === null) {
    return null;
  }
  const port = await freePort();
  const options = ["-W", "-i", "127.0.0.1", "-p", String(port), "-t", "rendererType=dom", "-t", "disableResizeOverlay=true"];
  const process = spawn("ttyd", [...options, ...argv], { stdio: "ignore" });
  const address = `http://127.0.0.1:${port}/`;
  for (const start = performance.now(); ; await sleep(20)) {
    if (await fetch(address).then(({ ok }) => ok, () => false)) {
      return { address, version, end: () => process.kill() };
    }
    if (performance.now() - start > DEADLINE) {
      throw new Error("ttyd does not listen");
    }
  }
}
