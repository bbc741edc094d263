// A node that writes 10 MB/s: the page's inputs, and what the page costs the server.

import { fileURLToPath } from "node:url";

import { closePage, isQuick, nerve, newLink, note, openPage, quantile, report, serverShare, sleep, startNode } from "./harness.mjs";
import { readSome } from "./reconnects.mjs";
import { openTerminal } from "./terminal_page.mjs";

const RATE = 10000000;
const SECONDS = isQuick ? 3 : 10;
/** Times with a page, each followed by one without. */
const ROUNDS = isQuick ? 1 : 3;
/** Time between two inputs in milliseconds. */
const PAUSE = 50;
/** Time until the page shows what it can, in milliseconds. */
const WARM_UP = 2000;

/** Returns the times from the browser's event for a key until the page has handled it, and until the next frame, in milliseconds. */
async function timeInputs(page, seconds) {
  await page.evaluate(() => {
    globalThis.handled = [];
    globalThis.painted = [];
    // After all listeners of the page.
    addEventListener("keydown", ({ timeStamp }) => {
      globalThis.handled.push(performance.now() - timeStamp);
      requestAnimationFrame(() => setTimeout(() => globalThis.painted.push(performance.now() - timeStamp)));
    });
  });
  for (const end = performance.now() + 1000 * seconds; performance.now() < end; await sleep(PAUSE)) {
    // The terminal handles it and types nothing.
    await page.keyboard.press("Shift");
  }
  return page.evaluate(() => ({ handled: globalThis.handled, painted: globalThis.painted }));
}

/** Returns how much a node has written. */
async function outputOf(node, token) {
  return (await readSome(node, null, token)).offset;
}

export async function measureFlood(browser) {
  const writer = fileURLToPath(new URL("paced_writer.mjs", import.meta.url));
  const token = nerve("token", "show").trim();
  startNode("flood", "sh", "-c", `read line; exec node ${writer} ${RATE} 3600 end`);
  nerve("node", "write", "flood", "--escape", "\\r");
  const [before, start] = [await outputOf("flood", token), performance.now()];
  const [handled, painted, costs, alone] = [[], [], [], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    const page = await openPage(browser, newLink());
    await openTerminal(page, "flood");
    await page.focus(".xterm-helper-textarea");
    await sleep(WARM_UP);
    const share = serverShare(SECONDS);
    const times = await timeInputs(page, SECONDS);
    handled.push(...times.handled);
    painted.push(...times.painted);
    const withPage = await share;
    await closePage(page);
    await sleep(WARM_UP);
    alone.push(await serverShare(SECONDS));
    costs.push(withPage - alone.at(-1));
  }
  const rate = ((await outputOf("flood", token)) - before) / (performance.now() - start) / 1000;
  nerve("stop", "flood");
  report("a node writes without pause: what its terminal took", "MB/s", rate);
  report("10 MB/s: a key until the page has handled it", "ms", handled);
  report(`the same, p99 of ${handled.length}`, "ms", quantile(handled, 0.99), 100);
  report("10 MB/s: a key until the next frame", "ms", painted);
  report("10 MB/s: CPU of the server without a page", "% of a core", alone);
  report("10 MB/s: more with a page that shows the terminal", "% of a core", costs, 5);
  note("A page cannot draw 10 MB/s. The server sends it the screen with its scrollback instead, at most four times a second, and less often if the machine is busy. The browser runs on the same machine.");
}
