// Inputs of phones and of input methods, pastes, and the addresses of tabs.

import { browser, expect, intercept, link, nerve, newPage, run, showAddress, waitFor, waitForText } from "./browser.mjs";

const PHONE = { viewport: { width: 360, height: 740, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }, userAgent: "phone" };
const DESKTOP = { viewport: { width: 1280, height: 900 }, userAgent: "desktop" };
const PROMPT = "aria/Prompt for sh";

/** Waits until the rows of the open terminal match. */
function waitForTerminal(page, pattern) {
  const found = (source) => new RegExp(source, "m").test([...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent).join("\n"));
  return waitFor(page, `the terminal does not show ${pattern}`, found, pattern);
}

/** Begins or continues a composition of an input method. */
async function compose(page, text) {
  const devtools = await page.createCDPSession();
  await devtools.send("Input.imeSetComposition", { text, selectionStart: text.length, selectionEnd: text.length });
  await devtools.detach();
}

async function endComposition(page, text) {
  const devtools = await page.createCDPSession();
  await devtools.send("Input.insertText", { text });
  await devtools.detach();
}

/** Pastes an image into the focused element, as a browser does. Returns true if the page has cancelled it. */
function pasteImage(page) {
  return page.evaluate(() => {
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([new Uint8Array(8)], "picture.png", { type: "image/png" }));
    return !document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  });
}

/** Counts the requests whose path matches. */
function countRequests(page, pattern) {
  const found = { count: 0 };
  page.on("request", (request) => (found.count += pattern.test(new URL(request.url()).pathname) ? 1 : 0));
  return found;
}

const steps = {
  async "Enter that ends a composition does not send the prompt"(page) {
    await page.goto(link);
    await waitForText(page, "sh\\s+ready");
    const sent = countRequests(page, /\/execute/);
    await page.focus(PROMPT);
    await compose(page, "こんに");
    // Chromium marks the event, Safari only its code.
    for (const init of [{ isComposing: true }, { keyCode: 229 }]) {
      await page.$eval(PROMPT, (field, given) => field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...given })), init);
    }
    await endComposition(page, "こんにちは");
    expect(await page.$eval(PROMPT, ({ value }) => value), "こんにちは", "text");
    expect(sent.count, 0, "prompts");
    await page.$eval(PROMPT, (field) => field.select());
    await page.keyboard.type("echo 今日は");
    await page.keyboard.press("Enter");
    await waitForText(page, "Answer: 今日は");
  },

  async "a phone can install the page"(page) {
    const devtools = await page.createCDPSession();
    const { errors, data } = await devtools.send("Page.getAppManifest");
    const { installabilityErrors } = await devtools.send("Page.getInstallabilityErrors");
    expect([errors, installabilityErrors], [[], []], "errors");
    expect([JSON.parse(data).display, new URL(JSON.parse(data).start_url, link).pathname], ["standalone", "/web/"], "manifest");
    await devtools.detach();
  },

  async "a prompt that was typed survives a reload"(page) {
    await page.focus(PROMPT);
    await page.keyboard.type("half a prompt");
    await page.reload();
    await page.waitForSelector(PROMPT);
    expect(await page.$eval(PROMPT, ({ value }) => value), "half a prompt", "text");
    await page.$eval(PROMPT, (field) => field.select());
    await page.keyboard.press("Backspace");
  },

  async "an image that is pasted into a prompt is refused with a reason"(page) {
    await page.focus(PROMPT);
    await pasteImage(page);
    await waitForText(page, "Only text can be pasted");
    await page.keyboard.type("x");
    await page.keyboard.press("Backspace");
  },

  async "a composition is typed into a terminal once it is complete"(page) {
    await showAddress(page, "#/node/default/sh?tab=terminal");
    await waitForTerminal(page, "^\\$ ");
    await page.focus(".xterm-helper-textarea");
    await page.keyboard.type("echo ");
    await compose(page, "に");
    await compose(page, "にほ");
    await endComposition(page, "日本");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "^日本\\s*$");
  },

  async "an image that is pasted into a terminal types nothing"(page) {
    await page.keyboard.type("cat -v");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "cat -v\\s*$");
    await page.evaluate(() => document.activeElement.focus());
    // A program that has turned on bracketed paste would get an empty one.
    nerve("node", "write", "sh", "--escape", "\\x1b[?2004h\\r");
    await page.focus(".xterm-helper-textarea");
    expect(await pasteImage(page), true, "cancelled");
    await waitForText(page, "Not typed: only text can be pasted");
    await page.keyboard.type("after it");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "^after it\\s*$");
    await page.keyboard.down("Control");
    await page.keyboard.press("c");
    await page.keyboard.up("Control");
    await waitForTerminal(page, "\\^C\\s*\\n\\$ ");
  },

  async "the tab of a terminal survives a reload, and back leads to the list"(page) {
    await showAddress(page, "#/");
    await page.waitForSelector(".nodes");
    await showAddress(page, "#/node/default/sh");
    await (await page.waitForSelector('aria/Terminal[role="tab"]')).click();
    await page.waitForSelector(".xterm-rows > div");
    expect(await page.evaluate(() => location.hash), "#/node/default/sh?tab=terminal", "address");
    await page.reload();
    await page.waitForSelector(".xterm-rows > div");
    await page.goBack();
    await page.waitForSelector(".nodes");
  },

  async "back from a moment of the recording leads to the conversation"(page) {
    await showAddress(page, "#/node/default/sh");
    await (await page.waitForSelector(".turn .in-recording")).click();
    await page.waitForSelector(".timeline-tab .xterm-rows > div");
    await page.goBack();
    await page.waitForSelector(".panel:not([hidden]) .turn");
    expect(await page.evaluate(() => location.hash), "#/node/default/sh", "address");
  },

  async "a question closes with the view that it is about"(page) {
    await showAddress(page, "#/");
    await page.waitForSelector(".nodes .danger");
    await page.click(".nodes .danger");
    await page.waitForSelector("dialog[open]");
    await showAddress(page, "#/runs");
    await waitFor(page, "the question stays", () => document.querySelector("dialog") === null);
    expect(JSON.parse(nerve("node", "info", "sh", "--json")).state, "ready", "state");
  },

  async "Ctrl applies to a character that the keyboard of a phone composes"(page) {
    await page.emulate(PHONE);
    await showAddress(page, "#/node/default/sh?tab=terminal");
    await waitForTerminal(page, "^\\$ ");
    await page.focus("aria/Text to type");
    await compose(page, "ab");
    await page.tap("aria/Ctrl");
    await compose(page, "abc");
    await waitFor(page, "the character is not removed", () => document.querySelector('[aria-label="Text to type"]').value === "ab");
    expect(await page.$eval("aria/Text to type", (field) => field === document.activeElement), true, "focus");
    await waitForTerminal(page, "(\\^C[^]*){2}");
    await page.$eval("aria/Text to type", (field) => (field.value = ""));
    await page.emulate(DESKTOP);
  },

  async "two lines that follow each other at once are two lines"(page) {
    await page.waitForSelector("aria/Text to type");
    await waitForTerminal(page, "^\\$ ");
    await page.evaluate(() => {
      const field = document.querySelector('[aria-label="Text to type"]');
      for (const text of ["echo one-line", "echo another-line"]) {
        field.value = text;
        field.form.requestSubmit();
      }
    });
    await waitForTerminal(page, "^one-line\\s*$");
    await waitForTerminal(page, "^another-line\\s*$");
  },

  async "a program is resized to the page only on request"(page) {
    const size = () => {
      const { cols, rows } = JSON.parse(nerve("node", "info", "sh", "--json")).metadata;
      return [cols, rows];
    };
    const before = size();
    await page.emulate(PHONE);
    const button = await page.waitForSelector('.terminal-tools button ::-p-text(Resize)');
    await button.tap();
    await (await page.waitForSelector("dialog.confirm button:not(.danger)")).tap();
    expect(size(), before, "size after a refusal");
    await button.tap();
    await (await page.waitForSelector("dialog.confirm .danger")).tap();
    await waitFor(page, "the program has its old size", (cols) => !document.querySelector(".terminal-tools").innerText.startsWith(`${cols} ×`), before[0]);
    const [cols, rows] = size();
    await waitForText(page, `${cols} × ${rows}`);
    expect(cols >= 30 && cols < 60 && rows >= 8, true, `size ${cols} × ${rows}`);
    nerve("node", "write", "sh", "--escape", "clear; tput cols\\r");
    await waitForTerminal(page, `^${cols}\\s*$`);
    expect(await page.$eval(".terminal-view", (view) => view.scrollWidth <= view.clientWidth), true, "all columns fit");
    await page.emulate(DESKTOP);
    nerve("node", "resize", "sh", "--cols", String(before[0]), "--rows", String(before[1]));
    await waitForText(page, before.join(" × "));
  },

  async "ages are those of the server's clock"(page) {
    const hour = 3600 * 1000;
    const other = await newPage(await browser.createBrowserContext());
    await other.evaluateOnNewDocument((difference) => {
      const { now } = Date;
      Date.now = () => now() + difference;
    }, 5 * hour);
    await other.goto(nerve("web", "--no-open").trim());
    await waitForText(other, "sh\\s+ready\\s+\\d+ (s|min)");
    await other.close();
    await page.bringToFront();
  },

  async "a node that is removed and created again is shown anew"(page) {
    nerve("new", "twice", "-c", "bash --norc", "--env", "PS1=first ");
    await showAddress(page, "#/node/default/twice?tab=terminal");
    await waitForTerminal(page, "^first ");
    nerve("stop", "twice");
    nerve("rm", "twice");
    await waitForText(page, "twice\\s+gone|This node has stopped or was removed");
    nerve("new", "twice", "-c", "bash --norc", "--env", "PS1=second ");
    await waitForTerminal(page, "^second ");
    await waitFor(page, "a banner stays", () => document.querySelector(".terminal-tab .banner").hidden);
  },

  async "a tab that could not be loaded is loaded by another click"() {
    // Its cache has no module of the tab.
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(nerve("web", "--no-open").trim());
    await waitForText(page, "sh\\s+ready");
    await showAddress(page, "#/node/default/sh");
    const refuse = (request) => (/timeline_tab\.js$/.test(request.url()) ? request.abort() : request.continue());
    const stop = await intercept(page, refuse);
    const tab = await page.waitForSelector('aria/Timeline[role="tab"]');
    await tab.click();
    await waitForText(page, "Not loaded");
    await stop();
    await tab.click();
    await page.waitForSelector(".timeline-tab .xterm-rows > div");
    await page.close();
  },
};

await run(steps);
