// The terminal of a node in the page.

import { DEADLINE, installClock } from "./harness.mjs";

/** Shows the terminal of a node in a page that is logged in, and waits for its first row. */
export async function openTerminal(page, node) {
  await installClock(page);
  await page.goto(new URL(`/web/#/node/default/${node}`, page.url()).href);
  await page.reload();
  await clickTerminal(page);
  await page.waitForFunction(() => document.querySelector(".xterm-rows > div") !== null, { timeout: DEADLINE });
}

export async function clickTerminal(page) {
  await (await page.waitForSelector('aria/Terminal[role="tab"]')).click();
}
