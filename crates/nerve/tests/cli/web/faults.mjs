// Many nodes, many pages, and two answers to one dialog.

import { DEADLINE, browser, choose, intercept, link, nerve, newPage, run, sendPrompt, waitForText } from "./browser.mjs";

const NODES = 200;
/** Every tenth of them is blocked. */
const BLOCKED = NODES / 10;
/** Pages in addition to the first one. Each has a browser context of its own, and so its own connections. */
const PAGES = 4;
/** Matches the author of an answer in the audit log, if a browser gave it. */
const BROWSER = "127.0.0.1:\\d+, web session [0-9a-f]{12} \\(http\\)";

function madeUpNode(number) {
  const isBlocked = number % (NODES / BLOCKED) === 0;
  return {
    node_id: `made-up-${number}`,
    type: "terminal",
    state: isBlocked ? "blocked" : "ready",
    progress: { state_changed_at: "2026-01-31T10:30:00.000Z", last_prompt: `prompt number ${number}`, last_line: "an answer", tokens: 1000 + number, cost_usd: number / 100 },
    metadata: { session_id: "default", queued: number % 3, cwd: `/srv/project-${number % 7}` },
  };
}

/** Answers the requests for nodes with nodes that do not exist. */
async function serveMadeUpNodes(page) {
  const nodes = Array.from({ length: NODES }, (_, index) => madeUpNode(index + 1));
  const explanation = { state: "blocked", evidence: "a dialog", source: "screen", screen: "Proceed?\n1. Yes\n2. No", choices: ["Yes", "No"] };
  const respond = (request) => {
    const { pathname } = new URL(request.url());
    const json = (value) => request.respond({ contentType: "application/json", body: JSON.stringify(value) });
    if (pathname === "/nodes") {
      json({ nodes_info: nodes });
    } else if (pathname.endsWith("/explain")) {
      json({ ...explanation, dialog_id: pathname });
    } else {
      request.continue();
    }
  };
  return intercept(page, respond);
}

/** Measures how long the page takes to handle inputs, up to the next frame, in milliseconds. */
async function measureInputs(page) {
  await page.evaluate(() => {
    globalThis.inputTimes = [];
    const note = (event) => requestAnimationFrame(() => setTimeout(() => globalThis.inputTimes.push(performance.now() - event.timeStamp)));
    addEventListener("input", note, { capture: true });
    addEventListener("wheel", note, { capture: true, passive: true });
  });
}

async function waitForCards(page, count) {
  await page.waitForFunction((wanted) => document.querySelectorAll(".node").length === wanted, { timeout: DEADLINE }, count);
}

/** Logs in with a new link in a browser context of its own. */
async function openPage() {
  const page = await newPage(await browser.createBrowserContext());
  await page.goto(nerve("web", "--no-open").trim());
  await waitForText(page, "sh\\s+ready");
  return page;
}

/** Holds the requests of a page whose path matches until `release` is called. `stop` ends the interception. */
async function holdRequests(page, pattern) {
  let release;
  const isReleased = new Promise((resolve) => (release = resolve));
  let noteHeld;
  const isHeld = new Promise((resolve) => (noteHeld = resolve));
  const hold = async (request) => {
    if (pattern.test(new URL(request.url()).pathname)) {
      noteHeld();
      await isReleased;
    }
    await request.continue();
  };
  const stop = await intercept(page, hold);
  return { isHeld, release, stop };
}

/** Starts an agent with two dialogs, one after the other. */
function startAgent(id) {
  nerve("new", id, "-c", `${process.env.NERVE_PROGRAM} mock-agent --theme --onboarding`, "--profile", "claude");
}

/** Returns the texts of the notes of a node's dialog. */
function noteOf(page, node) {
  return page.evaluate((id) => {
    const card = [...document.querySelectorAll(".node")].find((one) => one.querySelector("h2").textContent === id);
    return card.querySelector(".dialog").innerText;
  }, node);
}

const steps = {
  async "200 nodes are listed, filtered and scrolled"(page) {
    const restore = await serveMadeUpNodes(page);
    await page.goto(link);
    await waitForCards(page, NODES);
    await waitForText(page, `${BLOCKED} blocked, ${NODES - BLOCKED} ready`);
    await page.waitForFunction((wanted) => document.querySelectorAll(".choices button:enabled").length === wanted, { timeout: DEADLINE }, 2 * BLOCKED);
    await waitForText(page, "made-up-10\\s+blocked[^]*1 in the queue\\s+/srv/project-3\\s+1,010 tokens, \\$0.10");
    await measureInputs(page);
    await page.type("aria/Filter nodes by name, state, folder or prompt", "project-3 ready");
    await waitForCards(page, await page.evaluate(() => Number(/^(\d+) of/.exec(document.querySelector(".summary").textContent)[1])));
    const names = await page.$$eval(".node h2", (all) => all.map((one) => Number(one.textContent.split("-")[2])));
    if (names.length === 0 || names.some((number) => number % 7 !== 3 || number % 10 === 0)) {
      throw new Error(`the filter shows ${names}`);
    }
    for (let count = "project-3 ready".length; count > 0; count -= 1) {
      await page.keyboard.press("Backspace");
    }
    await waitForCards(page, NODES);
    await page.mouse.move(600, 600);
    await page.mouse.wheel({ deltaY: 3000 });
    await page.waitForFunction(() => scrollY > 1000, { timeout: DEADLINE });
    const times = await page.evaluate(() => globalThis.inputTimes);
    console.log(`  ${times.length} inputs, the slowest after ${Math.round(Math.max(...times))} ms`);
    await page.evaluate(() => scrollTo(0, 0));
    await restore();
    await page.reload();
    await waitForText(page, "sh\\s+ready");
  },

  async "nodes of all sessions are listed"(page) {
    nerve("session", "create", "review");
    nerve("new", "elsewhere", "-c", "bash --norc", "--env", "PS1=$ ", "--session", "review");
    await waitForText(page, "elsewhere\\s+review\\s+ready");
    await sendPrompt(page, "elsewhere", "echo in another session");
    await waitForText(page, "Answer: in another session");
  },

  async "every one of many pages shows a prompt and its answer"(page) {
    const pages = await Promise.all(Array.from({ length: PAGES }, openPage));
    await sendPrompt(page, "sh", "echo for all");
    await Promise.all([page, ...pages].map((one) => waitForText(one, "Prompt: echo for all[^]*Answer: for all")));
    await Promise.all(pages.map((one) => one.browserContext().close()));
    await page.bringToFront();
  },

  async "an answer to a dialog that has gone does not answer the next one"(page) {
    startAgent("late");
    await waitForText(page, "Asks for a theme");
    const { isHeld, release, stop } = await holdRequests(page, /\/late\/answer$/);
    await choose(page, "late", "");
    await isHeld;
    nerve("answer", "late", "1");
    await waitForText(page, "Asks whether to trust a folder");
    release();
    await waitForText(page, "Not answered: .*another dialog is open");
    if (JSON.parse(nerve("node", "info", "late", "--json")).state !== "blocked") {
      throw new Error("the late answer has answered the next dialog");
    }
    await stop();
    await choose(page, "late", "Yes");
    await waitForText(page, "late is ready now");
  },

  async "of two answers at once, one counts"(page) {
    const other = await openPage();
    startAgent("both");
    const held = [];
    for (const one of [page, other]) {
      await waitForText(one, "Asks for a theme");
      held.push(await holdRequests(one, /\/both\/answer$/));
      await one.bringToFront();
      await choose(one, "both", "");
    }
    await Promise.all(held.map(({ isHeld }) => isHeld));
    held.forEach(({ release }) => release());
    for (const one of [page, other]) {
      await one.waitForFunction((title) => document.body.innerText.includes(title), { timeout: DEADLINE }, "Asks whether to trust a folder");
      await one.waitForSelector(".choices button:enabled");
    }
    const notes = [await noteOf(page, "both"), await noteOf(other, "both")];
    const isRefused = (note) => note.includes("Not answered");
    if (notes.filter(isRefused).length !== 1) {
      throw new Error(`the pages show:\n${notes.join("\n---\n")}`);
    }
    await waitForText([page, other][notes.findIndex(isRefused)], `The dialog before this one: "[^"]+": answered by ${BROWSER}`);
    await Promise.all(held.map(({ stop }) => stop()));
    await choose(other, "both", "Yes");
    await waitForText(other, "both is ready now");
    await page.bringToFront();
    await waitForText(page, `"Yes[^"]*": answered by ${BROWSER}. both is ready now`);
    await other.browserContext().close();
  },
};

await run(steps);
