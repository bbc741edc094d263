// The keyboard alone is enough, in every view.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { link, nerve, run, showAddress, waitForText } from "./browser.mjs";
import { checkTabs, tabTo, tabToName, waitForState, waitUntilSteady } from "./tab_order.mjs";

const steps = {
  async "Tab leads to every control of the list, which works with the keyboard"(page) {
    nerve("new", "agent", "-c", `${process.env.NERVE_PROGRAM} mock-agent --theme --onboarding`, "--profile", "claude");
    await page.goto(link);
    await waitForText(page, "sh\\s+ready");
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
    await waitForState(page, (before) => document.activeElement.parentElement.open !== before, isOpen);
    await tabToName(page, "Prompt for sh");
    await page.keyboard.type("echo by key");
    await page.keyboard.press("Enter");
    await waitForText(page, "Answer: by key");
    await tabToName(page, "Stop sh");
    await page.keyboard.press("Enter");
    await waitForText(page, "Stop sh\\?");
    await page.keyboard.press("Escape");
    await waitForState(page, () => document.querySelector("dialog") === null);
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
    await waitForState(page, () => document.querySelector("h1").textContent === "sh");
    await page.waitForSelector(".turn");
    await checkTabs(page, "chat");
    await tabTo(page, "the tabs", () => document.activeElement.role === "tab");
    await page.keyboard.press("ArrowRight");
    await page.waitForSelector(".xterm-rows > div");
    await waitForState(page, () => document.activeElement.classList.contains("xterm-helper-textarea"));
    await page.keyboard.type("echo typed");
    await page.keyboard.press("Enter");
    await waitForState(page, () => /\ntyped/.test([...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent.trim()).join("\n")));
    await page.keyboard.down("Control");
    await page.keyboard.press("]");
    await page.keyboard.up("Control");
    await waitForState(page, () => document.activeElement.role === "tab");
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

  async "a gate is answered with the keyboard"(page) {
    const graph = join(process.cwd(), "ship.yaml");
    writeFileSync(graph, 'graph: ship\nsteps: [{id: why, gate: {question: "Ship it?", choices: ["yes", "no"]}}]\n');
    const id = nerve("graph", "run", graph, "--no-wait").trim();
    await showAddress(page, `#/run/${id}`);
    await page.waitForSelector(".gate button:enabled");
    await checkTabs(page, "run");
    await tabToName(page, "yes");
    await waitUntilSteady(page);
    await page.keyboard.press("Enter");
    await waitForText(page, '"yes": sent → answered');
  },

  async "Tab leads to every control of the search and of the form for a node"(page) {
    await showAddress(page, "#/search?q=key");
    await page.waitForSelector(".hits mark");
    await checkTabs(page, "search");
    await showAddress(page, "#/new");
    await page.waitForSelector("aria/Name");
    await checkTabs(page, "new");
  },
};

await run(steps);
