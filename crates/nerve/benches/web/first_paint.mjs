// The first frame of a terminal and of a recording, and what the page loads for it.

import { createReadStream, existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { DEADLINE, closePage, countBytes, folder, installClock, isQuick, modules, nerve, newLink, note, openPage, report, startNode } from "./harness.mjs";
import { clickTerminal } from "./terminal_page.mjs";
import { openTtyd } from "./ttyd.mjs";

const RUNS = isQuick ? 3 : 15;
/** Bytes of the long output. */
const LONG = isQuick ? 1000000 : 10000000;
const LAST = "the last line";
const KINDS = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".cast": "text/plain" };

const PLAYER_PAGE = `<!doctype html><link rel="stylesheet" href="asciinema-player.css"><div id="player"></div>
<script src="asciinema-player.min.js"></script>
<script>AsciinemaPlayer.create("long.cast", document.getElementById("player"), { preload: true, poster: "npt:99:00:00", fit: "width" });</script>`;

/** Opens the terminal of a node in new pages, and returns the times to the first frame with a text, in milliseconds. */
async function timeTerminal(browser, node, text) {
  const times = { click: [], navigation: [], listBytes: 0, bytes: 0 };
  for (let run = 0; run < RUNS; run += 1) {
    const page = await openPage(browser);
    await installClock(page);
    const bytes = await countBytes(page);
    await page.goto(newLink());
    await page.waitForSelector(".node");
    await page.waitForFunction((name) => document.body.innerText.includes(name), { timeout: DEADLINE }, node);
    times.listBytes = bytes();
    await page.evaluate((hash) => (location.hash = hash), `#/node/default/${node}`);
    await page.waitForSelector('[role="tab"]');
    const click = (wanted) => {
      const start = performance.now();
      [...document.querySelectorAll('[role="tab"]')].find((tab) => tab.textContent === "Terminal").click();
      return globalThis.bench.frameOf(() => globalThis.bench.shows(wanted)).then((at) => at - start);
    };
    times.click.push(await page.evaluate(click, text));
    times.bytes = bytes();
    await closePage(page);
    times.navigation.push(await timeNavigation(browser, node, text));
  }
  return times;
}

/** Opens the address of a node's terminal in a browser with an empty cache. Returns the time from there to the first frame. */
async function timeNavigation(browser, node, text) {
  const page = await openPage(browser);
  // Logs in without loading a file of the page.
  const link = new URL(newLink());
  await page.goto(new URL("/health", link).href);
  await page.evaluate((code) => fetch("/web/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) }), link.hash.slice("#code=".length));
  await installClock(page);
  await page.evaluateOnNewDocument(() => {
    const click = () => {
      const tab = [...document.querySelectorAll('[role="tab"]')].find((one) => one.textContent === "Terminal");
      tab === undefined ? requestAnimationFrame(click) : tab.getAttribute("aria-selected") === "true" || tab.click();
    };
    addEventListener("DOMContentLoaded", click);
  });
  await page.goto(new URL(`/web/#/node/default/${node}`, link).href, { waitUntil: "domcontentloaded" });
  const at = await page.evaluate((wanted) => globalThis.bench.frameOf(() => globalThis.bench.shows(wanted)), text);
  await closePage(page);
  return at;
}

/** Returns the times from the navigation to a page to the first frame with a text in an element, in milliseconds. */
async function timePage(browser, address, selector, text) {
  const times = [];
  let received = 0;
  for (let run = 0; run < RUNS; run += 1) {
    const page = await openPage(browser);
    await installClock(page);
    const bytes = await countBytes(page);
    await page.goto(address, { waitUntil: "domcontentloaded" });
    const find = (all, wanted) => globalThis.bench.frameOf(() => [...document.querySelectorAll(all)].some((one) => one.textContent.includes(wanted)));
    times.push(await page.evaluate(find, selector, text));
    received = bytes();
    await closePage(page);
  }
  return { times, received };
}

/** Serves the player with a cast. */
function servePlayer() {
  writeFileSync(join(folder, "index.html"), PLAYER_PAGE);
  const bundle = join(modules, "asciinema-player/dist/bundle");
  const server = createServer(({ url }, response) => {
    const name = url === "/" ? "index.html" : url.slice(1);
    const path = [folder, bundle].map((place) => join(place, name)).find(existsSync);
    response.writeHead(path === undefined ? 404 : 200, { "Content-Type": KINDS[extname(name)] ?? "application/octet-stream" });
    path === undefined ? response.end() : createReadStream(path).pipe(response);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ address: `http://127.0.0.1:${server.address().port}/`, end: () => server.close() })));
}

async function measureLongOutput(browser) {
  const writer = fileURLToPath(new URL("paced_writer.mjs", import.meta.url));
  startNode("long", "node", writer, String(LONG), "1", LAST);
  nerve("wait", "long", "--timeout", "60");
  const { click, navigation } = await timeTerminal(browser, "long", LAST);
  const size = `${LONG / 1e6} MB of output`;
  report(`terminal after ${size}: from the click to the first frame`, "ms", click);
  report(`terminal after ${size}: from the navigation to the first frame`, "ms", navigation);
  nerve("export", "default/long", "--format", "asciicast2", "--output", join(folder, "long.cast"));
  const player = await servePlayer();
  const { times } = await timePage(browser, player.address, ".ap-term, .ap-terminal", LAST);
  report(`asciinema-player with a cast of the same, at its end: from the navigation to the first frame`, "ms", times);
  player.end();
}

export async function measureFirstPaint(browser) {
  const greeting = "echo 'the last line'; exec cat";
  startNode("paint", "sh", "-c", greeting);
  const { click, navigation, listBytes, bytes } = await timeTerminal(browser, "paint", LAST);
  report("first load of the page: received, compressed", "kB", listBytes / 1000, 300);
  report("the same, with a terminal", "kB", bytes / 1000, 300);
  report("terminal: from the click to the first frame, in a page that was just opened for the first time", "ms", click, 150);
  report("terminal: from the navigation to the first frame, nothing in the cache", "ms", navigation);
  const ttyd = await openTtyd(["sh", "-c", greeting]);
  if (ttyd !== null) {
    note(`ttyd: ${ttyd.version}.`);
    const { times, received } = await timePage(browser, ttyd.address, ".xterm-rows", LAST);
    report("ttyd: from the navigation to the first frame", "ms", times);
    report("ttyd: received", "kB", received / 1000);
    ttyd.end();
  }
  await measureLongOutput(browser);
}
