// The nodes of other machines: one list, their dialogs, their screens, and a machine that goes away.

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

import { DEADLINE, browser, checkWidth, choose, expect, intercept, link, nerve, newPage, run, sendPrompt, takeScreenshots, waitFor, waitForAnswer, waitForText } from "./browser.mjs";

/** Runs nerve on the other machine. */
function nerveThere(...args) {
  const env = { ...process.env, NERVE_HOME: process.env.NERVE_OTHER_HOME };
  const done = spawnSync(process.env.NERVE_PROGRAM, args, { encoding: "utf8", env });
  if (done.status !== 0) {
    throw new Error(`nerve ${args.join(" ")}: ${done.stderr}`);
  }
  return done.stdout;
}

function open(page, hash) {
  return page.evaluate((fragment) => (location.hash = fragment), hash);
}

async function selectTab(page, name) {
  await (await page.waitForSelector(`aria/${name}[role="tab"]`)).click();
}

/** Waits until the screen of the node matches. */
function waitForScreen(page, pattern) {
  const found = (source) => new RegExp(source, "m").test(document.querySelector(".screen-tab .screen")?.innerText ?? "");
  return waitFor(page, `the screen does not show ${pattern}`, found, pattern);
}

const steps = {
  async "nodes of all machines are one list"(page) {
    await page.goto(link);
    await waitForText(page, "laptop: 2 nodes");
    await waitForText(page, "off is unreachable, never contacted: ");
    await waitForText(page, "sh\\s+ready");
    await waitForText(page, "remote\\s+laptop/default\\s+ready");
    await takeScreenshots(page, "machines");
  },

  async "a prompt to another machine is delivered and answered"(page) {
    await sendPrompt(page, "remote", "echo from-$((40 + 2))");
    await waitForAnswer(page, "from-42");
    await page.waitForSelector(".delivery li.reached:nth-child(5)");
  },

  async "a dialog there is answered here"(page) {
    await waitForText(page, "Asks (for|whether)");
    await choose(page, "agent", "Yes");
    await waitForText(page, "agent\\s+laptop/default\\s+ready");
  },

  async "the conversation and the timeline are those of the other machine"(page) {
    await open(page, "#/node/laptop/default/remote");
    await waitForText(page, "echo from-\\$\\(\\(40 \\+ 2\\)\\)");
    await selectTab(page, "Timeline");
    const isPlayed = () => [...document.querySelectorAll(".timeline-tab .xterm-rows > div")].some((row) => row.textContent.startsWith("from-42"));
    await waitFor(page, "the timeline does not show the output", isPlayed);
  },

  async "the screen is looked at and typed into"(page) {
    await selectTab(page, "Terminal");
    await waitForScreen(page, "^from-42");
    await page.type('.screen-tab input[aria-label="Text to type"]', "echo typed $((40 + 3))");
    await page.keyboard.press("Enter");
    await waitForScreen(page, "^typed 43");
    await takeScreenshots(page, "machine-screen");
    await checkWidth(page, 360);
    await page.setViewport({ width: 1280, height: 900 });
  },

  async "Enter does not follow a text that was not typed"(page) {
    const typed = [];
    const refuse = (request) => {
      if (!request.url().includes("/write")) {
        request.continue();
        return;
      }
      typed.push(JSON.parse(request.postData()).data);
      typed.length === 1 ? request.respond({ status: 502, contentType: "application/json", body: "{}" }) : request.continue();
    };
    const stop = await intercept(page, refuse);
    await page.type('.screen-tab input[aria-label="Text to type"]', "echo lost");
    await page.keyboard.press("Enter");
    await waitForText(page, "Not typed: ");
    // The next keys are typed, and replace the message.
    await page.type('.screen-tab input[aria-label="Text to type"]', "echo typed $((40 + 4))");
    await page.keyboard.press("Enter");
    await waitForScreen(page, "^typed 44");
    await page.waitForFunction(() => !/Not typed/.test(document.body.innerText), { timeout: DEADLINE });
    await stop();
    expect(typed, ["echo lost", "echo typed $((40 + 4))", "\r"], "the keys that were sent");
  },

  async "a browser that may only look cannot type there"() {
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(nerve("web", "--no-open", "--role", "view").trim());
    await waitForText(page, "laptop: 2 nodes");
    await open(page, "#/node/laptop/default/remote?tab=terminal");
    await waitForScreen(page, "^typed 43");
    await waitForText(page, "This browser may only look");
    if (await page.$(".screen-tab input, .prompt textarea")) {
      throw new Error("there is a field for input");
    }
    await page.close();
  },

  async "text of another machine stays text"(page) {
    await open(page, "#/");
    await sendPrompt(page, "remote", "echo '<img src=x onerror=\"document.title=1\"><b>bold</b>'");
    await waitForText(page, "Answer: <img src=x .*<b>bold</b>");
    if (await page.$(".nodes img, .nodes b")) {
      throw new Error("text of a node became an element");
    }
  },

  async "a machine that goes away is a row with its age, and comes back"(page) {
    nerveThere("server", "stop", "--keep-nodes");
    await waitForText(page, "laptop is unreachable, last contact \\d+ s ago: ");
    await waitForText(page, "remote\\s+laptop/default\\s+unreachable");
    await waitForText(page, "sh\\s+ready");
    const banner = await page.$eval(".banner", (one) => one.checkVisibility());
    if (banner) {
      throw new Error("the page says that its own connection is lost");
    }
    await open(page, "#/node/laptop/default/remote");
    await waitForText(page, "laptop is unreachable");
    await open(page, "#/");
    nerveThere("server", "start");
    await waitForText(page, "laptop: 2 nodes");
    await waitForText(page, "remote\\s+laptop/default\\s+ready");
  },

  async "a damaged list of machines is a row with what helps"(page) {
    const path = `${process.env.NERVE_HOME}/machines.json`;
    const list = readFileSync(path);
    writeFileSync(path, "{");
    await page.reload();
    await waitForText(page, "The list of machines could not be read: .*nerve machine add");
    writeFileSync(path, list);
    await waitForText(page, "laptop: 2 nodes");
    await waitForText(page, "remote\\s+laptop/default\\s+ready");
  },

  async "a node is created there"(page) {
    await open(page, "#/new");
    await page.type('aria/Name', "fresh");
    await page.select((await page.$$("select").then((all) => Promise.all(all.map((one) => one.evaluate((select) => `#${select.id}`)))))[1], "laptop");
    await page.select("select", "bash");
    await page.click('button[type="submit"]');
    await page.waitForFunction(() => location.hash === "#/node/laptop/default/fresh", { timeout: DEADLINE });
    await waitForText(page, "laptop/default");
    const { nodes_info: nodes } = JSON.parse(nerveThere("ls", "--json"));
    if (!nodes.some(({ node_id: id }) => id === "fresh")) {
      throw new Error("the other machine does not have the node");
    }
  },
};

await run(steps);
