// A page with many nodes: what it costs while nothing happens, and how fast its filter and its scrolling are.

import { DEADLINE, closePage, cpuSeconds, isQuick, nerve, newLink, note, openPage, quantile, report, serverShare, sleep, startNode } from "./harness.mjs";

const IDLE = isQuick ? 5 : 50;
const LISTED = isQuick ? 20 : 200;
const SECONDS = isQuick ? 3 : 30;
/** Time without CPU time after which the server is quiet, in milliseconds. */
const QUIET = 3000;
const FILTERS = ["node-1", "bash ready", "nothing", "job-7"];

/** Waits until the server uses no CPU time. */
async function waitUntilQuiet() {
  for (const end = performance.now() + DEADLINE; performance.now() < end; ) {
    const before = cpuSeconds();
    await sleep(QUIET);
    if (cpuSeconds() === before) {
      return;
    }
  }
}

/** Waits until the page shows this many nodes of this measure. */
function waitForCards(page, count) {
  const isShown = (wanted) => [...document.querySelectorAll(".node h2")].filter((title) => /^(node|job)-/.test(title.textContent)).length === wanted;
  return page.waitForFunction(isShown, { timeout: DEADLINE }, count);
}

/** Returns the times from the browser's event for an input to the next frame, in milliseconds. */
async function timeInputs(page) {
  await page.evaluate(() => {
    globalThis.painted = [];
    const noteFrame = ({ timeStamp }) => requestAnimationFrame(() => setTimeout(() => globalThis.painted.push(performance.now() - timeStamp)));
    addEventListener("input", noteFrame);
    addEventListener("wheel", noteFrame, { passive: true });
  });
  const field = await page.waitForSelector("aria/Filter nodes by name, state, folder or prompt");
  for (const text of FILTERS) {
    await field.type(text, { delay: 30 });
    for (const _ of text) {
      await page.keyboard.press("Backspace");
    }
  }
  await page.mouse.move(600, 600);
  for (let count = 0; count < 40; count += 1) {
    await page.mouse.wheel({ deltaY: count < 20 ? 400 : -400 });
  }
  await sleep(500);
  return page.evaluate(() => globalThis.painted);
}

export async function measureList(browser) {
  for (let number = 0; number < IDLE; number += 1) {
    startNode(`node-${number}`, "env", "PS1=$ ", "bash", "--norc");
  }
  const page = await openPage(browser, newLink());
  await waitForCards(page, IDLE);
  await waitUntilQuiet();
  report(`${IDLE} idle nodes and an open page: CPU of the server over ${SECONDS} s`, "% of a core", await serverShare(SECONDS), 0);
  note("An idle server looks for revoked sessions and a changed token every 2 s, and sends each page a heartbeat every 15 s. The kernel counts CPU time in ticks of 10 ms: one tick in 30 s is 0.033 %.");
  for (let number = IDLE; number < LISTED; number += 1) {
    nerve("server", "node", "create", `job-${number}`, "--backend", "bash");
  }
  await waitForCards(page, LISTED);
  await waitUntilQuiet();
  const times = await timeInputs(page);
  report(`a list of ${LISTED} nodes: a key in the filter, or a turn of the wheel, to the next frame`, "ms", times);
  report(`the same, p99 of ${times.length}`, "ms", quantile(times, 0.99), 100);
  note("A turn of the wheel waits for the browser's software renderer, because a browser without a window has no GPU.");
  await closePage(page);
}
