// A browser, commands of nerve, and the figures that main.rs reads.

import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, chromium, link, folder] = process.argv.slice(2);
export { folder, link, modules };
export const require = createRequire(join(modules, "index.js"));
export const { NERVE_PROGRAM: program, NERVE_SERVER_PID: server } = process.env;
/** Small numbers, to try the benchmark. */
export const isQuick = process.env.NERVE_BENCH_QUICK === "1";
export const DEADLINE = 60000;
/** Clock ticks per second in /proc on every Linux since 2.6 (USER_HZ). */
const TICKS = 100;

const browsers = [];

/** Starts a browser with an empty profile. */
export async function startBrowser() {
  const browser = await require("puppeteer-core").launch({
    executablePath: chromium,
    defaultViewport: { width: 1280, height: 900 },
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    userDataDir: join(folder, `profile-${browsers.length}`),
    protocolTimeout: 10 * DEADLINE,
  });
  browsers.push(browser);
  return browser;
}

export async function endBrowsers() {
  await Promise.all(browsers.map((browser) => browser.close()));
}

/** Opens a page in a context of its own: with an empty cache, and logged in if the address is one of the console. */
export async function openPage(browser, address = null) {
  const page = await (await browser.createBrowserContext()).newPage();
  page.setDefaultTimeout(DEADLINE);
  if (address !== null) {
    await page.goto(address);
    if (address.includes("#code=")) {
      // A navigation before the end of the login would lose the code.
      await page.waitForSelector("header nav");
    }
  }
  return page;
}

export function closePage(page) {
  return page.browserContext().close();
}

/** Runs nerve and returns its output. */
export function nerve(...args) {
  const done = spawnSync(program, args, { encoding: "utf8", maxBuffer: 1 << 30 });
  if (done.status !== 0) {
    throw new Error(`nerve ${args.join(" ")}: ${done.stderr}`);
  }
  return done.stdout;
}

/** Returns a link that logs in, with the view to show afterwards. */
export function newLink() {
  return nerve("web", "--no-open").trim();
}

/** Creates a node that runs a program. */
export function startNode(id, ...argv) {
  const quoted = argv.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  nerve("new", id, "-c", quoted);
}

/** Returns the CPU time of a process in seconds, in steps of 10 ms. */
export function cpuSeconds(pid = server) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** Returns the CPU time that the server uses during a time in seconds, in percent of a core. */
export async function serverShare(seconds) {
  const [before, start] = [cpuSeconds(), performance.now()];
  await sleep(seconds * 1000);
  return (100 * (cpuSeconds() - before)) / ((performance.now() - start) / 1000);
}

export function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Prints a figure: the median of the values, with a goal if there is one. */
export function report(what, unit, values, goal = null) {
  console.log(JSON.stringify({ what, unit, values: [values].flat(), at_most: goal }));
}

/** Prints a note below the figures. */
export function note(text) {
  console.log(JSON.stringify({ note: text }));
}

/** Returns the value that the share `q` of all values does not exceed. */
export function quantile(values, q) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
}

/** Returns the version that a program prints; null if it is not installed. */
export function versionOf(name) {
  try {
    return execFileSync(name, ["--version"], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
  } catch {
    return null;
  }
}

/** Counts the bytes that a page receives, as they come over the network. Returns a function that returns the sum. */
export async function countBytes(page) {
  const devtools = await page.createCDPSession();
  let sum = 0;
  devtools.on("Network.loadingFinished", ({ encodedDataLength }) => (sum += encodedDataLength));
  await devtools.send("Network.enable");
  return () => sum;
}

/** Functions for the page itself, installed before its scripts run. */
export function installClock(page) {
  return page.evaluateOnNewDocument(() => {
    globalThis.bench = {
      /** Returns the time right after the frame in which a condition becomes true. Terminals change their rows while a frame is made. */
      async frameOf(isTrue) {
        await new Promise((resolve) => {
          const observer = new MutationObserver(() => isTrue() && resolve());
          observer.observe(document, { subtree: true, childList: true, characterData: true });
          isTrue() && resolve();
        });
        await new Promise((resolve) => setTimeout(resolve));
        return performance.now();
      },
      shows: (text) => (document.querySelector(".xterm-rows")?.textContent ?? "").includes(text),
    };
  });
}
