// A prompt and a dialog of the real Claude Code, on a phone.

import { join } from "node:path";

import { folder, link, run, tapChoice, waitForText } from "./browser.mjs";

const PHONE = { viewport: { width: 360, height: 740, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }, userAgent: "phone" };

run({
  async "a prompt of a phone is delivered to the agent"(page) {
    await page.emulate(PHONE);
    await page.goto(link);
    await waitForText(page, "ada\\s+ready");
    await page.goto(new URL("/web/#/node/default/ada", link).href);
    // On a phone, Enter begins a line.
    await (await page.waitForSelector("aria/Prompt for ada")).type("WRITETOOL FILE=notes.txt");
    await page.tap("aria/Send");
    await waitForText(page, "ada\\s+blocked");
    await page.waitForSelector(".choices:not(.unsteady) button:enabled");
    await page.screenshot({ path: join(folder, "dialog.png") });
  },

  async "a touch answers its dialog, and the agent continues"(page) {
    await tapChoice(page, 0, "ada is (busy|ready) now");
    await waitForText(page, "ada\\s+ready");
    await page.waitForSelector(".turn");
    await page.screenshot({ path: join(folder, "answer.png") });
  },
});
