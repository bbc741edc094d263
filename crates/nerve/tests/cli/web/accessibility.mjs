// Accessibility: axe-core finds no serious defect in any view, and the keyboard alone is enough.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { DEADLINE, browser, link, modules, nerve, newPage, run, sendPrompt, showAddress, waitForText } from "./browser.mjs";

const AXE = readFileSync(join(modules, "axe-core/axe.min.js"), "utf8");
const SERIOUS = ["serious", "critical"];
/** Steps of the Tab key after which a control counts as unreachable. */
const MAX_TABS = 150;
const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true };
const DESKTOP = { width: 1280, height: 900 };
/** Rules that can have another result in another colour scheme or width. */
const VARIABLE_RULES = ["color-contrast", "target-size", "scrollable-region-focusable", "link-in-text-block"];

/** Returns the serious defects of what the page shows. */
async function findDefects(page, rules) {
  const options = { resultTypes: ["violations"], ...(rules === null ? {} : { runOnly: { type: "rule", values: rules } }) };
  // The page stays the same when the address changes. Reading the library takes longer than most checks.
  if (!(await page.evaluate(() => "axe" in globalThis))) {
    await page.evaluate(AXE);
  }
  const found = await page.evaluate((given) => globalThis.axe.run(document, given), options);
  return found.violations
    .filter(({ impact }) => SERIOUS.includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html, any }) => `${html.slice(0, 200)} ${any[0]?.message ?? ""}`).join("\n  ")}`);
}

/** Fails if a view has a serious defect, light or dark, on a desktop or a phone. */
async function checkView(page, view) {
  const defects = [];
  for (const [width, viewport] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
    await page.setViewport(viewport);
    for (const scheme of ["light", "dark"]) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      const rules = width === "desktop" && scheme === "light" ? null : VARIABLE_RULES;
      defects.push(...(await findDefects(page, rules)).map((defect) => `${view}, ${width}, ${scheme}: ${defect}`));
    }
  }
  await page.setViewport(DESKTOP);
  await page.emulateMediaFeatures([]);
  if (defects.length > 0) {
    throw new Error(defects.join("\n"));
  }
}

/** Presses Tab until the focused element matches. */
async function tabTo(page, what, isWanted, ...values) {
  for (let count = 0; count < MAX_TABS; count += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(isWanted, ...values)) {
      return;
    }
  }
  throw new Error(`Tab does not lead to ${what}`);
}

/** Presses Tab until a control with this name has the focus. */
function tabToName(page, name) {
  const isFocused = (wanted) => {
    const { activeElement: focused } = document;
    const labels = [...(focused.labels ?? [])].map((label) => label.textContent);
    return [focused.getAttribute("aria-label"), ...labels, focused.textContent.trim()].includes(wanted);
  };
  return tabTo(page, name, isFocused, name);
}

/** Fails if Tab does not lead to every control that is visible, once around the page. */
async function checkTabs(page, view) {
  const CONTROLS = "a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, summary, [tabindex='0']";
  await page.evaluate((controls) => {
    document.activeElement.blur();
    const isStop = (one) => one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true }) && !one.closest("[aria-hidden='true'], .xterm");
    globalThis.unreached = new Set([...document.querySelectorAll(controls)].filter(isStop));
    globalThis.reached = new Set();
  }, CONTROLS);
  let rest = [];
  for (let count = 0; count < MAX_TABS; count += 1) {
    await page.keyboard.press("Tab");
    rest = await page.evaluate(() => {
      globalThis.unreached.delete(document.activeElement);
      return [...globalThis.unreached].filter((one) => one.isConnected && one.checkVisibility()).map((one) => one.outerHTML.slice(0, 120));
    });
    if (rest.length === 0) {
      return;
    }
  }
  throw new Error(`${view}: Tab does not lead to\n${rest.join("\n")}`);
}

/** Waits until a function returns true in the page. */
function waitFor(page, isDone, ...values) {
  return page.waitForFunction(isDone, { timeout: DEADLINE }, ...values);
}

/** Waits until the buttons of dialogs react: they do not right after a move. */
function waitUntilSteady(page) {
  return waitFor(page, () => document.querySelector(".choices.unsteady") === null);
}

const steps = {
  async "the login has no defects"() {
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(new URL("/web/", link).href);
    await waitForText(page, "not logged in");
    await checkView(page, "login");
    await page.close();
  },

  async "the list of nodes has no defects"(page) {
    nerve("new", "agent", "-c", `${process.env.NERVE_PROGRAM} mock-agent --theme --onboarding`, "--profile", "claude");
    await page.goto(link);
    await waitForText(page, "sh\\s+ready");
    await page.waitForSelector(".choices button:enabled");
    await sendPrompt(page, "sh", "echo hello");
    await waitForText(page, "Answer: hello");
    await page.evaluate(() => [...document.querySelectorAll("details")].forEach((one) => (one.open = true)));
    await waitForText(page, "\\$ echo hello");
    await checkView(page, "list");
  },

  async "the views of a node have no defects"(page) {
    await showAddress(page, "#/node/default/sh");
    await page.waitForSelector(".turn");
    await checkView(page, "chat");
    await page.click('aria/Terminal[role="tab"]');
    await page.waitForSelector(".xterm-rows > div");
    await checkView(page, "terminal");
    await showAddress(page, "#/node/default/agent");
    await page.waitForSelector(".choices button:enabled");
    await checkView(page, "dialog");
  },

  async "the views of runs have no defects"(page) {
    const graph = join(process.cwd(), "ship.yaml");
    writeFileSync(graph, 'graph: ship\nsteps: [{id: why, gate: {question: "Ship it?", choices: ["yes", "no"]}}]\n');
    const id = nerve("graph", "run", graph, "--no-wait").trim();
    await showAddress(page, "#/runs");
    await waitForText(page, "why: Ship it\\?");
    await checkView(page, "runs");
    await showAddress(page, `#/run/${id}`);
    await page.waitForSelector(".gate button:enabled");
    await checkView(page, "run");
    await checkTabs(page, "run");
    await tabToName(page, "yes");
    await waitUntilSteady(page);
    await page.keyboard.press("Enter");
    await waitForText(page, '"yes": sent → answered');
  },

  async "the search and the form for a node have no defects"(page) {
    await showAddress(page, "#/search?q=hello");
    await page.waitForSelector(".hits mark");
    await checkView(page, "search");
    await checkTabs(page, "search");
    await showAddress(page, "#/new");
    await page.waitForSelector("aria/Name");
    await checkView(page, "new");
    await checkTabs(page, "new");
  },

  async "Tab leads to every control of the list, which works with the keyboard"(page) {
    await showAddress(page, "#/");
    await page.waitForSelector(".choices button:enabled");
    await checkTabs(page, "list");
    await tabToName(page, "Filter nodes by name, state, folder or prompt");
    await page.keyboard.type("sh");
    await waitForText(page, "1 of 2 shown");
    await page.keyboard.press("Backspace");
    await page.keyboard.press("Backspace");
    await waitForText(page, "agent\\s+blocked[^]*sh\\s+ready");
    await tabToName(page, "Why this state");
    const isOpen = await page.evaluate(() => document.activeElement.parentElement.open);
    await page.keyboard.press("Enter");
    await waitFor(page, (before) => document.activeElement.parentElement.open !== before, isOpen);
    await tabToName(page, "Prompt for sh");
    await page.keyboard.type("echo by key");
    await page.keyboard.press("Enter");
    await waitForText(page, "Answer: by key");
    await tabToName(page, "Stop sh");
    await page.keyboard.press("Enter");
    await waitForText(page, "Stop sh\\?");
    await page.keyboard.press("Escape");
    await waitFor(page, () => document.querySelector("dialog") === null);
    if ((await page.evaluate(() => document.activeElement.getAttribute("aria-label"))) !== "Stop sh") {
      throw new Error("the focus is lost when a question is closed");
    }
  },

  async "a dialog is answered with the keyboard, and the next one, too"(page) {
    await tabTo(page, "a choice", () => document.activeElement.closest(".choices") !== null);
    await waitUntilSteady(page);
    await page.keyboard.press("Enter");
    await waitForText(page, "Asks whether to trust a folder");
    await page.waitForSelector(".choices button:enabled");
    await waitUntilSteady(page);
    await tabTo(page, "the choice Yes", () => document.activeElement.closest(".choices") !== null && document.activeElement.textContent.includes("Yes"));
    await page.keyboard.press("Enter");
    await waitForText(page, "agent is ready now");
  },

  async "the view of a node works with the keyboard, and the terminal is no trap"(page) {
    await tabToName(page, "sh");
    await page.keyboard.press("Enter");
    await waitFor(page, () => document.querySelector("h1").textContent === "sh");
    await page.waitForSelector(".turn");
    await checkTabs(page, "chat");
    await tabTo(page, "the tabs", () => document.activeElement.role === "tab");
    await page.keyboard.press("ArrowRight");
    await page.waitForSelector(".xterm-rows > div");
    await waitFor(page, () => document.activeElement.classList.contains("xterm-helper-textarea"));
    await page.keyboard.type("echo typed");
    await page.keyboard.press("Enter");
    await waitFor(page, () => /\ntyped/.test([...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent.trim()).join("\n")));
    await page.keyboard.down("Control");
    await page.keyboard.press("]");
    await page.keyboard.up("Control");
    await waitFor(page, () => document.activeElement.role === "tab");
    await page.keyboard.press("ArrowRight");
    await page.waitForSelector(".timeline-tab .xterm-rows > div");
    await tabTo(page, "the recorded screen", () => document.activeElement.matches(".timeline-tab .xterm-helper-textarea"));
    await tabToName(page, "Play");
    await tabTo(page, "the tabs", () => document.activeElement.role === "tab");
    await page.keyboard.press("Home");
    await page.waitForSelector(".turn");
    await tabToName(page, "Prompt for sh");
    await page.keyboard.type("echo in the view");
    await page.keyboard.press("Enter");
    await waitForText(page, "in the view[^]*in the view");
    await tabToName(page, "Nodes");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".nodes");
  },
};

await run(steps);
