// Accessibility: axe-core finds no serious defect in any view.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { browser, link, modules, nerve, newPage, run, sendPrompt, showAddress, waitForText } from "./browser.mjs";

const AXE = readFileSync(join(modules, "axe-core/axe.min.js"), "utf8");
const SERIOUS = ["serious", "critical"];
const PHONE = { width: 360, height: 740, isMobile: true, hasTouch: true };
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

/** Fails if a view has a serious defect, light or dark, on a desktop or a phone, or is wider than the phone. */
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
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  if (width > PHONE.width) {
    defects.push(`${view} needs ${width} px on a phone`);
  }
  await page.setViewport(DESKTOP);
  await page.emulateMediaFeatures([]);
  if (defects.length > 0) {
    throw new Error(defects.join("\n"));
  }
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
    await page.click('aria/Timeline[role="tab"]');
    await page.waitForSelector(".timeline-tab .xterm-rows > div");
    await checkView(page, "timeline");
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
  },

  async "the search and the form for a node have no defects"(page) {
    await showAddress(page, "#/search?q=hello");
    await page.waitForSelector(".hits mark");
    await checkView(page, "search");
    await showAddress(page, "#/new");
    await page.waitForSelector("aria/Name");
    await checkView(page, "new");
  },
};

await run(steps);
