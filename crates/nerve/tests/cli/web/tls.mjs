// The console over TLS: the cookie, events and a terminal.

import { browser, expect, link, run, sendPrompt, showAddress, waitFor, waitForAnswer, waitForText } from "./browser.mjs";

await run({
  async "a link logs in over TLS, with a cookie that leaves only over TLS"(page) {
    await page.goto(link);
    await waitForText(page, "sh\\s+ready");
    expect(await page.evaluate(() => [location.protocol, isSecureContext]), ["https:", true], "page");
    const [{ name, secure, httpOnly, sameSite }] = await browser.cookies();
    expect([name, secure, httpOnly, sameSite], ["__Host-nerve-session-default", true, true, "Strict"], "cookie");
  },

  async "events arrive, and a terminal takes keys"(page) {
    await sendPrompt(page, "sh", "echo over TLS");
    await waitForAnswer(page, "over TLS");
    await showAddress(page, "#/node/default/sh?tab=terminal");
    const shows = (wanted) => [...document.querySelectorAll(".xterm-rows > div")].some((row) => row.textContent.trim() === wanted);
    await waitFor(page, "the terminal shows no output", shows, "over TLS");
    await page.focus(".xterm-helper-textarea");
    await page.keyboard.type("echo ty''ped");
    await page.keyboard.press("Enter");
    await waitFor(page, "the terminal takes no keys", shows, "typed");
  },
});
