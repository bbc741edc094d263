// A page that loses its network, sleeps, is left and comes back, or whose server is killed: nothing is lost, doubled or loaded again.

import { join } from "node:path";

import { browser, folder, link, nerve, newPage, run, waitFor, waitForText } from "./browser.mjs";
import { Network } from "./network.mjs";

/** Rows that the program writes while the page cannot see them: they fit the screen. */
const ROWS = 20;

const { port } = new URL(link);
const network = await Network.to(port);

function hostOf(node) {
  return JSON.parse(nerve("node", "info", node, "--json")).metadata.host_id;
}

/** Lets the program write numbered rows, without the server. */
function writeRows(host, name) {
  nerve("host", "write", host, "--escape", `clear; for i in $(seq ${ROWS}); do echo ${name}''-$i; done\\r`);
}

/** Waits until the terminal shows these rows: each once, in their order. */
function waitForRows(page, name) {
  const found = (prefix, count) => {
    const rows = [...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent.trim());
    const shown = rows.filter((row) => row.startsWith(prefix)).map((row) => row.slice(prefix.length));
    return shown.join() === Array.from({ length: count }, (_, index) => index + 1).join();
  };
  return waitFor(page, `the terminal does not show ${name}-1 to ${name}-${ROWS}, each once`, found, `${name}-`, ROWS);
}

/** Waits until the page is up to date, and fails if it was loaded again. */
async function waitForCurrent(page, name) {
  await waitForRows(page, name);
  const isCurrent = () => [...document.querySelectorAll(".banner")].every((banner) => banner.hidden);
  await waitFor(page, "the page shows that it is not up to date", isCurrent);
  if (!(await page.evaluate(() => globalThis.isFirstLoad))) {
    throw new Error("the page was loaded again");
  }
}

const steps = {
  async "a page shows a terminal over the network"(page) {
    await page.goto(network.address(link));
    await waitForText(page, "sh\\s+ready");
    await page.evaluate(() => {
      globalThis.isFirstLoad = true;
      location.hash = "#/node/default/sh?tab=terminal";
    });
    writeRows(hostOf("sh"), "first");
    await waitForCurrent(page, "first");
  },

  async "a network that is cut and comes back loses no output"(page) {
    network.cut();
    await waitForText(page, "Connection lost. This is the terminal of \\d+ s ago");
    await waitForText(page, "Connection lost. This is the state of \\d+ s ago");
    await page.screenshot({ path: join(folder, "network-cut.png") });
    writeRows(hostOf("sh"), "cut");
    network.restore();
    await waitForCurrent(page, "cut");
    // The rows were typed by another client, after whose pause the page types.
    await page.focus(".xterm-helper-textarea");
    for (let isTyped = false; !isTyped; ) {
      await page.keyboard.press("#");
      isTyped = await page.waitForFunction(() => /# *#/.test(document.querySelector(".xterm-rows").textContent), { timeout: 1000 }).then(() => true, () => false);
    }
    await page.keyboard.press("Enter");
  },

  async "another network takes the place of the one that is gone"(page) {
    // The browser reports a change of networks, while the connections of the old one are dead.
    network.lose();
    writeRows(hostOf("sh"), "changed");
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await waitForCurrent(page, "changed");
  },

  async "a page that slept is up to date again when it is seen"(page) {
    const other = await newPage();
    await other.goto("about:blank");
    await other.bringToFront();
    await page.waitForFunction(() => document.visibilityState === "hidden", { polling: 100 });
    network.lose();
    writeRows(hostOf("sh"), "slept");
    nerve("new", "meanwhile", "-c", "bash --norc");
    await page.evaluate(() => {
      const { now } = Date;
      Date.now = () => now() + 30000;
    });
    await other.close();
    await page.bringToFront();
    await waitForCurrent(page, "slept");
    await page.evaluate(() => (location.hash = "#/"));
    await waitForText(page, "meanwhile\\s+ready");
    await page.evaluate(() => history.back());
    await waitForRows(page, "slept");
  },

  async "a page from the cache of back and forward is up to date again"(page) {
    network.lose();
    writeRows(hostOf("sh"), "cached");
    // Chromium keeps no page with `no-store`; other browsers do.
    await page.evaluate(() => dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })));
    await waitForCurrent(page, "cached");
  },

  async "a killed server that starts again is continued"(page) {
    const host = hostOf("sh");
    process.kill(JSON.parse(nerve("server", "status", "--json")).pid, "SIGKILL");
    await waitForText(page, "Connection lost. This is the terminal of \\d+ s ago");
    writeRows(host, "killed");
    nerve("server", "start", "--http", port);
    await waitForCurrent(page, "killed");
  },

  async "a page that is left and returned to shows the same"(page) {
    await page.goto("about:blank");
    writeRows(hostOf("sh"), "returned");
    await page.goBack();
    await waitForRows(page, "returned");
  },
};

await run(steps);
network.close();
