// Runs of graphs: the list, the picture of the plan, gates, outputs, and the end of a run.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { DEADLINE, browser, checkWidth, choose, link, nerve, newPage, run, takeScreenshots, waitForText } from "./browser.mjs";

const work = process.cwd();
const graph = join(work, "ship.yaml");
const note = join(work, "note.yaml");
const limited = join(work, "limited.yaml");

function writeGraphs() {
  const build = "echo '<b>built</b>'; until test -e go; do sleep 0.05; done; seq 4000";
  writeFileSync(
    graph,
    `graph: ship
nodes: {shell: {type: bash}}
steps:
  - {id: build, node: shell, input: "${build}"}
  - id: approve
    depends_on: [build]
    gate: {question: "Ship it?", choices: ["yes", "no"]}
  - {id: ship, node: shell, input: echo shipped, depends_on: [approve], when: "steps.approve.choice == 'yes'"}
`,
  );
  writeFileSync(
    limited,
    `graph: limited
budget: {max_steps: 1, at_limit: ask}
nodes: {shell: {type: bash}}
steps:
  - {id: one, node: shell, input: echo one}
  - {id: two, node: shell, input: echo two, depends_on: [one]}
`,
  );
  writeFileSync(note, 'graph: note\nsteps: [{id: why, gate: {question: "Why?"}}]\n');
}

function start(file) {
  return nerve("graph", "run", file, "--no-wait").trim();
}

function open(page, id) {
  return page.evaluate((hash) => (location.hash = hash), `#/run/${id}`);
}

/** Waits until the picture shows these states. */
async function waitForStates(page, ...states) {
  const found = (wanted) => [...document.querySelectorAll(".step-box")].map((box) => box.dataset.state).join() === wanted;
  await page.waitForFunction(found, { timeout: DEADLINE }, states.join()).catch(async () => {
    throw new Error(`the states are not ${states}, but:\n${await page.evaluate(() => document.body.innerText)}`);
  });
}

/** Clicks a visible button with this text. */
async function click(page, selector, text) {
  const find = (all, wanted) => {
    const found = [...document.querySelectorAll(all)].find((one) => one.checkVisibility() && one.textContent === wanted);
    found?.click();
    return found !== undefined;
  };
  await page.waitForFunction(find, { timeout: DEADLINE }, selector, text);
}

async function openStep(page, id) {
  await page.$$eval(".step-head", (all, name) => all.find((one) => one.querySelector(".step-name").textContent === name).click(), id);
}

let first;
let second;
let third;

const steps = {
  async "a run appears in the list while it runs"(page) {
    writeGraphs();
    await page.goto(link);
    await click(page, "nav a", "Runs");
    await waitForText(page, "No runs yet");
    first = start(graph);
    await waitForText(page, "ship\\s+▶ running\\s+0 of 3 steps");
  },

  async "its view shows the plan, with the step that runs"(page) {
    await click(page, ".run-row a", "ship");
    await waitForStates(page, "running", "planned", "planned");
    const places = await page.$$eval(".step-box", (all) => all.map((one) => one.getBoundingClientRect().x));
    if (!(places[0] < places[1] && places[1] < places[2]) || (await page.$$(".edge")).length !== 2) {
      throw new Error(`the steps are not in layers: ${places}`);
    }
  },

  async "progress is shown live, up to the gate"(page) {
    writeFileSync(join(work, "go"), "");
    await waitForStates(page, "completed", "waiting", "planned");
    await waitForText(page, "Ship it\\?");
    await takeScreenshots(page, "run");
    await checkWidth(page, 360);
    await page.setViewport({ width: 1280, height: 900 });
  },

  async "the role view shows no buttons that change something"() {
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(nerve("web", "--no-open", "--role", "view").trim());
    await waitForText(page, "role: view");
    await open(page, first);
    await waitForText(page, "This browser may only look");
    const buttons = await page.$$eval(".run button", (all) => all.filter((one) => one.checkVisibility()).map((one) => one.className));
    if (buttons.some((name) => name !== "step-head")) {
      throw new Error(`buttons: ${buttons}`);
    }
    await page.close();
  },

  async "a click answers the gate, and the run completes"(page) {
    await choose(page, "approve", "yes");
    await waitForText(page, '"yes": sent → answered');
    await waitForStates(page, "completed", "completed", "completed");
    await waitForText(page, "✓ completed\\s+3 of 3 steps");
  },

  async "a step shows its output as text, folded if it is long"(page) {
    await page.click(".step-box");
    await waitForText(page, "Output\\s+<b>built</b>\\s+1\\s+2");
    const length = () => page.$eval(".step-result", (one) => one.textContent.length);
    if ((await length()) > 18000) {
      throw new Error("the output is not folded");
    }
    await page.$eval(".show-all", (one) => one.click());
    await waitForText(page, "3999\\s+4000");
    await openStep(page, "approve");
    await waitForText(page, '"choice": "yes"');
    await takeScreenshots(page, "run-output");
  },

  async "a run is cancelled after a confirmation, and resumed"(page) {
    second = start(graph);
    await open(page, second);
    await waitForStates(page, "completed", "waiting", "planned");
    await click(page, ".run .danger", "Cancel the run");
    await click(page, "dialog .danger", "Cancel the run");
    await waitForText(page, "■ cancelled");
    await waitForStates(page, "completed", "cancelled", "planned");
    await click(page, ".run button", "Resume the run");
    await waitForText(page, "\\? waiting");
  },

  async "an answer of another client closes the gate, with its source"(page) {
    nerve("graph", "answer", second, "no");
    await waitForText(page, '"no": answered by another client');
    await waitForStates(page, "reused", "completed", "skipped");
  },

  async "a gate without choices takes text"(page) {
    await open(page, start(note));
    const text = await page.waitForSelector("aria/Answer for why");
    await text.type("because");
    await click(page, ".gate button", "Answer");
    await waitForText(page, '"because": sent → answered');
    await waitForText(page, "✓ completed");
  },

  async "the question of a budget is answered like a gate"(page) {
    await open(page, start(limited));
    await waitForText(page, "@max_steps");
    await page.waitForSelector(".gate .choices:not(.unsteady) button:enabled");
    await waitForStates(page, "completed", "planned");
    await click(page, ".gate button", "continue");
    await waitForText(page, '"continue": sent → answered');
    await waitForStates(page, "completed", "completed");
    await waitForText(page, "✓ completed");
  },

  async "the list has all runs, newest first"(page) {
    await click(page, "nav a", "Runs");
    await waitForText(page, "limited\\s+✓ completed[^]*note\\s+✓ completed[^]*ship\\s+✓ completed[^]*ship\\s+✓ completed");
    third = start(graph);
    await waitForText(page, "approve: Ship it\\?");
    await takeScreenshots(page, "runs");
    await checkWidth(page, 360);
  },

  async "a run that is gone leaves the list"(page) {
    const refuse = (request) => (request.url().includes(`/runs/${third}?`) ? request.respond({ status: 404, contentType: "application/json", body: "{}" }) : request.continue());
    await page.setRequestInterception(true);
    page.on("request", refuse);
    nerve("graph", "answer", third, "no");
    await page.waitForFunction((id) => document.querySelector(`.run-list a[href="#/run/${id}"]`) === null, { timeout: DEADLINE }, third);
    page.off("request", refuse);
    await page.setRequestInterception(false);
  },

  async "a run that does not exist is explained"(page) {
    await open(page, "nosuch");
    await waitForText(page, "There is no run 'nosuch'");
  },
};

await run(steps);
