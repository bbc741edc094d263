// The time from a key to its echo on the screen: in the page, in ttyd's page, and in the viewer in a terminal.

import { spawn } from "node:child_process";

import { DEADLINE, closePage, installClock, isQuick, newLink, note, openPage, program, quantile, report, sleep, startNode } from "./harness.mjs";
import { openTtyd } from "./ttyd.mjs";
import { openTerminal } from "./terminal_page.mjs";

/** All fit in one row of the terminal. */
const KEYS = isQuick ? 20 : 100;
/** A key that nothing else prints. */
const KEY = "~";
/** The prompt of the shell. */
const PROMPT = "$> ";
/** Time between two keys in milliseconds. */
const PAUSE = 40;

/** Returns the times from the browser's event for a key to the frame with its echo, in milliseconds. */
async function timeKeys(page) {
  const times = [];
  await page.focus(".xterm-helper-textarea");
  await page.evaluate((prompt) => globalThis.bench.frameOf(() => globalThis.bench.shows(prompt)), PROMPT.trim());
  await page.evaluate(() => addEventListener("keydown", ({ timeStamp }) => (globalThis.keyTime = timeStamp), { capture: true }));
  for (let count = 1; count <= KEYS; count += 1) {
    const echoed = page.evaluate(async (wanted) => {
      const at = await globalThis.bench.frameOf(() => globalThis.bench.shows(wanted));
      return at - globalThis.keyTime;
    }, KEY.repeat(count));
    await page.keyboard.press(KEY);
    times.push(await echoed);
    await sleep(PAUSE);
  }
  return times;
}

/** Returns the times from a key to the viewer's output with its echo, in the pseudo-terminal of script(1), in milliseconds. */
async function timeNativeKeys(node) {
  const viewer = spawn("script", ["-qfc", `stty cols 120 rows 40; '${program}' attach ${node}`, "/dev/null"], { stdio: ["pipe", "pipe", "ignore"] });
  let listener = () => {};
  viewer.stdout.on("data", (data) => listener(data));
  const waitFor = (text) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the viewer does not show ${text}`)), DEADLINE);
      listener = (data) => {
        if (data.includes(text)) {
          clearTimeout(timer);
          resolve();
        }
      };
    });
  await waitFor(PROMPT.trim());
  // The viewer may still be loading.
  const isFirstEchoed = waitFor(KEY);
  const firstKeys = setInterval(() => viewer.stdin.write(KEY), 1000);
  await isFirstEchoed;
  clearInterval(firstKeys);
  await sleep(10 * PAUSE);
  const times = [];
  while (times.length < KEYS) {
    const start = performance.now();
    const isEchoed = waitFor(KEY);
    viewer.stdin.write(KEY);
    await isEchoed;
    times.push(performance.now() - start);
    await sleep(PAUSE);
  }
  viewer.kill();
  return times;
}

export async function measureEcho(browser) {
  const shell = ["env", `PS1=${PROMPT}`, "bash", "--norc", "--noediting"];
  startNode("native", ...shell);
  const native = await timeNativeKeys("native");
  report("key to echo, viewer in a terminal", "ms", native);
  startNode("echo", ...shell);
  const page = await openPage(browser, newLink());
  await openTerminal(page, "echo");
  const own = await timeKeys(page);
  await closePage(page);
  report("key to echo, page: from the browser's event to the frame", "ms", own);
  report("the same, p99", "ms", quantile(own, 0.99));
  report("key to echo, page: more than in a terminal, medians", "ms", quantile(own, 0.5) - quantile(native, 0.5), 30);
  const ttyd = await openTtyd(shell);
  if (ttyd === null) {
    note("ttyd is not in PATH, so it was not measured.");
    return;
  }
  const other = await openPage(browser);
  await installClock(other);
  await other.goto(ttyd.address);
  await other.waitForSelector(".xterm-rows");
  report("key to echo, ttyd's page", "ms", await timeKeys(other));
  await closePage(other);
  ttyd.end();
}
