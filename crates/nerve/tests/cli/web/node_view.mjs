// The view of one node: its actions while it works, its queue, its evidence, and its start, restart and stop.

import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { DEADLINE, browser, checkWidth, folder, link, nerve, newPage, run, waitFor, waitForText } from "./browser.mjs";
import { ID, appendPart, writeSessionFile } from "./session_file.mjs";

/** Pages that are open at once: more than the connections that a browser opens for HTTP/1.1. */
const PAGES = 8;

const work = process.cwd();
const program = process.env.NERVE_PROGRAM;
const { HOME: home } = process.env;

/** Creates a node with a session file, which tests append to. Like Claude Code, it names the file in another one. */
function createNode() {
  writeSessionFile(home, work);
  const sessions = join(home, ".claude/sessions");
  mkdirSync(sessions, { recursive: true });
  const status = JSON.stringify({ sessionId: ID, cwd: work });
  const claude = join(work, "claude");
  writeFileSync(claude, `#!/bin/sh\necho '${status}' > '${sessions}'/$$.json\nexec '${program}' mock-agent "$@"\n`);
  chmodSync(claude, 0o755);
  nerve("new", "rich", "-c", `${claude} --resume ${ID}`, "--cwd", work);
}

/** Waits until the actions of the running turn match; an empty pattern waits until there are none. */
function waitForLive(page, pattern) {
  const found = (source) => {
    const live = document.querySelector(".live");
    return source === "" ? live.hidden : !live.hidden && new RegExp(source).test(live.innerText);
  };
  return waitFor(page, `the actions do not match '${pattern}'`, found, pattern);
}

function refuseTranscripts(request) {
  return request.url().includes("/transcript?") ? request.abort() : request.continue();
}

async function clickButton(page, label) {
  await (await page.waitForSelector(`aria/${label}[role="button"]`)).click();
}

const steps = {
  async "actions of a running turn are shown as they come"(page) {
    createNode();
    await page.goto(link);
    await waitForText(page, "rich\\s+ready");
    await page.goto(new URL("/web/#/node/default/rich", link).href);
    await waitForText(page, "I fixed the parser");
    nerve("send", "rich", "STALL 600", "--no-wait");
    await waitForText(page, "Working…");
    // The transcript would replace the actions.
    await page.setRequestInterception(true);
    page.on("request", refuseTranscripts);
    appendPart(home, work, "assistant", { type: "thinking", thinking: "I look at the **tests** first." });
    appendPart(home, work, "assistant", { type: "tool_use", id: "live-1", name: "Bash", input: { command: "cargo test --live" } });
    await waitForLive(page, "I look at the tests first[^]*Bash cargo test --live running");
    await page.$eval(".live .part.tool", (one) => (one.open = true));
    appendPart(home, work, "user", { type: "tool_result", tool_use_id: "live-1", content: "test result: FAILED", is_error: true });
    await waitForLive(page, "Bash cargo test --live error[^]*test result: FAILED");
    if ((await page.$$(".live .part.tool")).length !== 1) {
      throw new Error("the result is not shown with its tool");
    }
    await page.screenshot({ path: join(folder, "node-live.png") });
  },

  async "a long turn shows a bounded number of actions"(page) {
    for (let number = 0; number < 60; number += 1) {
      appendPart(home, work, "assistant", { type: "thinking", thinking: `thought ${number} ${"x".repeat(5000)}` });
    }
    await waitForLive(page, "thought 59 x");
    const [count, longest] = await page.$$eval(".live .part", (all) => [all.length, Math.max(...all.map((one) => one.textContent.length))]);
    if (count > 40 || longest > 2100) {
      throw new Error(`${count} actions with up to ${longest} characters`);
    }
    page.off("request", refuseTranscripts);
    await page.setRequestInterception(false);
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await waitForLive(page, "");
  },

  async "the queue shows its prompts, which can be cancelled"(page) {
    nerve("send", "rich", "a queued prompt", "--no-wait");
    nerve("send", "rich", "another queued prompt", "--no-wait");
    await waitForText(page, "2 in the queue");
    await page.click(".queue summary");
    await waitFor(page, "the order is wrong", () => [...document.querySelectorAll(".queue li bdi")].map((one) => one.textContent).join() === "a queued prompt,another queued prompt");
    await checkWidth(page, 390);
    await page.screenshot({ path: join(folder, "node-queue-390.png") });
    await page.setViewport({ width: 1280, height: 900 });
    await clickButton(page, "Cancel a queued prompt");
    await waitFor(page, "the prompt is not cancelled", () => document.querySelectorAll(".queue li").length === 1);
    await waitFor(page, "the focus is lost", () => document.activeElement.ariaLabel === "Cancel another queued prompt");
    await page.waitForSelector(".queue ol:not(.unsteady)");
    await clickButton(page, "Cancel another queued prompt");
    await waitFor(page, "the queue is shown", () => document.querySelector(".queue").hidden);
  },

  async "at the end of the turn only the transcript is shown"(page) {
    nerve("node", "interrupt", "rich");
    await waitForText(page, "rich[^]*ready");
    await waitForLive(page, "");
  },

  async "the evidence of the state is shown with the screen"(page) {
    await page.click(".evidence summary");
    await waitFor(page, "there is no evidence", () => document.querySelector(".evidence p").textContent !== "" && document.querySelector(".evidence .screen").textContent !== "");
    await page.screenshot({ path: join(folder, "node-evidence.png") });
    await page.click(".evidence summary");
  },

  async "the node is stopped, started and restarted"(page) {
    const isStopped = () => document.querySelector(".node-view").dataset.state === "stopped";
    const isReady = () => document.querySelector(".node-view").dataset.state === "ready";
    /** Returns true if the node has another process than before. */
    const isOther = async (before) => {
      const response = await fetch("/nodes/rich");
      return response.ok && (await response.json()).metadata.host_id !== before;
    };
    await clickButton(page, "Stop rich");
    await page.waitForSelector("dialog.confirm");
    await page.keyboard.press("Escape");
    await waitFor(page, "the node does not run", isReady);
    await clickButton(page, "Stop rich");
    await (await page.waitForSelector("dialog.confirm .danger")).click();
    await waitFor(page, "the node runs", isStopped);
    await waitForText(page, "Stopped. Start starts it again");
    await clickButton(page, "Start rich");
    await waitFor(page, "the node does not run", isReady);
    const { host_id: before } = JSON.parse(nerve("node", "info", "rich", "--json")).metadata;
    await clickButton(page, "Restart rich");
    await (await page.waitForSelector("dialog.confirm .danger")).click();
    await waitFor(page, "the node is not restarted", isOther, before);
    await waitFor(page, "the node does not run", isReady);
    await waitForText(page, "I fixed the parser");
  },

  async "a browser with the role view has no buttons for it"() {
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(nerve("web", "--no-open", "--role", "view").trim());
    await page.goto(new URL("/web/#/node/default/rich", link).href);
    await waitForText(page, "rich[^]*ready[^]*Why this state");
    if (await page.$(".node-actions button, .queue button")) {
      throw new Error("there are buttons that the role does not permit");
    }
    await page.close();
  },

  async "more pages than connections receive an event at once"(page) {
    const pages = await Promise.all(Array.from({ length: PAGES }, () => newPage()));
    // Pages in the background render no frames.
    const options = { timeout: DEADLINE, polling: 200 };
    const isReady = (name) => new RegExp(`${name}\\s+ready`).test(document.body.innerText);
    for (const one of pages) {
      await one.goto(new URL("/web/", link).href);
      await one.waitForFunction(isReady, options, "rich");
    }
    nerve("new", "job", "--backend", "bash");
    await Promise.all(pages.map((one) => one.waitForFunction(isReady, options, "job")));
    await Promise.all(pages.map((one) => one.close()));
    await page.bringToFront();
    nerve("stop", "job");
    nerve("rm", "job");
    await page.evaluate(() => (location.hash = "#/"));
    await waitFor(page, "the removed node is shown", () => !/^job\b/m.test(document.body.innerText) && /rich/.test(document.body.innerText));
  },
};

await run(steps);
