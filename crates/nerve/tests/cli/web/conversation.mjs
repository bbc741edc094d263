// The view of one node with its conversation, the search, and the form for a new node.

import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { browser, choose, expect, folder, intercept, link, nerve, newPage, run, sendPrompt, takeScreenshots, waitFor, waitForText } from "./browser.mjs";
import { ID, TURNS, writeSessionFile } from "./session_file.mjs";

const work = process.cwd();
const program = process.env.NERVE_PROGRAM;

/** Prepares a node with a long conversation, and one without a session file. */
function createNodes() {
  writeSessionFile(process.env.HOME, work);
  const claude = join(work, "claude");
  writeFileSync(claude, `#!/bin/sh\nexec '${program}' mock-agent "$@"\n`);
  chmodSync(claude, 0o755);
  nerve("new", "rich", "-c", `${claude} --resume ${ID}`, "--cwd", work);
  nerve("new", "plain", "-c", `${program} mock-agent`, "--profile", "claude");
  nerve("new", "sh", "-c", "bash --norc", "--env", "PS1=$ ");
}

/** Waits until the reader is at the end of the conversation, or not. */
function waitForEnd(page, isAtEnd) {
  const found = (wanted) => {
    const { scrollTop, scrollHeight, clientHeight } = document.querySelector(".chat-scroller");
    return scrollHeight - scrollTop - clientHeight < 30 === wanted;
  };
  return waitFor(page, `the reader is ${isAtEnd ? "not " : ""}at the end`, found, isAtEnd);
}

/** Returns the position to which the conversation is scrolled. */
function position(page) {
  return page.$eval(".chat-scroller", (one) => one.scrollTop);
}

/** Returns the numbers of the turns on the page. */
function shownTurns(page) {
  return page.$$eval(".turn", (all) => all.map((one) => Number(one.dataset.turn)));
}

/** Clicks a link with this text. */
async function follow(page, text) {
  const click = (wanted) => {
    const found = [...document.querySelectorAll("a")].find((one) => one.textContent.includes(wanted));
    found?.click();
    return found !== undefined;
  };
  await waitFor(page, `there is no link ${text}`, click, text);
}

const steps = {
  async "a node's view opens from the list, at the end of its conversation"(page) {
    createNodes();
    await page.goto(link);
    await follow(page, "rich");
    await waitForText(page, "I fixed the parser");
    await waitForEnd(page, true);
    expect(await page.title(), "rich – nerve", "title");
    expect(await page.evaluate(() => document.activeElement.textContent), "rich", "focus");
    expect(await page.evaluate(() => location.hash), "#/node/default/rich", "address");
    await takeScreenshots(page, "node");
  },

  async "Markdown is rendered, and injected HTML, links and marks are inert"(page) {
    const last = `.turn[data-turn="${TURNS}"]`;
    expect(await page.$$eval(`${last} .markdown :is(strong, li, th, td, blockquote, .code)`, (all) => all.length), 12, "parts");
    expect(await page.$$eval(`${last} :is(img, script, div[onclick])`, (all) => all.length), 0, "injected elements");
    const links = await page.$$eval(`${last} a:not(.in-recording)`, (all) => all.map(({ href, target, rel }) => [href, target, rel]));
    const safe = (href) => [href, "_blank", "noopener noreferrer"];
    expect(links, ["https://example.com/a?b=c", "https://example.com/p.png", "https://other.example/x"].map(safe), "links");
    await waitForText(page, "<img src=x onerror=");
    await waitForText(page, "bad \\(javascript:alert\\(1\\)\\)");
    await waitForText(page, "https://good.example \\(https://other.example/x\\)");
    await waitForText(page, "rm ⟨U\\+202E⟩txt.exe and ⟨U\\+202E⟩");
    await waitForText(page, "\\[31mred[^]*javascript:alert\\(1\\)[^]*linked");
    await waitForText(page, "\\^\\?⟨U\\+009B⟩");
    expect(await page.$$eval("[href^='javascript:' i], [href^='data:' i], [href^='vbscript:' i], [style*='red']", (all) => all.length), 0, "elements that act");
  },

  async "a code block is copied, or selected without access to the clipboard"(page) {
    await page.click(".code .copy");
    await waitFor(page, "nothing is reported", () => /^(Copied|Selected)/.test(document.getElementById("announcer").textContent));
  },

  async "a tool is folded, and unfolds with its result"(page) {
    const tool = '.turn[data-turn="43"] .part.tool';
    expect(await page.$eval(tool, (one) => [one.open, one.innerText.includes("FAILED")]), [false, false], "folded");
    const before = await position(page);
    await page.$eval(`${tool} summary`, (one) => one.click());
    await waitForText(page, "Bash cargo test --all error\\s+command\\s+cargo test --all\\s+Result\\s+test result: FAILED");
    await waitForEnd(page, false);
    expect(await position(page), before, "position");
    await page.$eval(`${tool} summary`, (one) => one.click());
    await waitForEnd(page, true);
  },

  async "a very long text is folded and does not freeze the page"(page) {
    const length = () => page.$eval('.turn[data-turn="44"]', (one) => one.textContent.length);
    if ((await length()) > 20000) {
      throw new Error("the long text is not folded");
    }
    const click = (one) => {
      const start = performance.now();
      one.querySelector(".show-all").click();
      one.getBoundingClientRect();
      return performance.now() - start;
    };
    const time = await page.$eval('.turn[data-turn="44"]', click);
    if ((await length()) < 1 << 20 || time > 5000) {
      throw new Error(`the long text is not shown in time: ${time} ms`);
    }
    console.log(`  1 MB in one line: ${Math.round(time)} ms`);
  },

  async "older turns are fetched on demand, and the reader stays in place"(page) {
    expect((await shownTurns(page))[0], TURNS - 19, "first turn");
    await page.$eval(".older", (one) => one.scrollIntoView());
    await waitForEnd(page, false);
    const place = () => page.$eval(`.turn[data-turn="${TURNS - 19}"]`, (one) => Math.round(one.getBoundingClientRect().top));
    const before = await place();
    await page.click(".older");
    await waitFor(page, "the older turns are missing", () => document.querySelectorAll(".turn").length === 40);
    if (Math.abs((await place()) - before) > 2) {
      throw new Error(`the turns moved by ${(await place()) - before} px`);
    }
    await page.click(".older");
    await waitFor(page, "the first turn is missing", () => document.querySelectorAll(".turn").length === 45);
    expect(await shownTurns(page), Array.from({ length: TURNS }, (_, index) => index + 1), "turns");
  },

  async "a new turn appears without a jump, and the button leads to it"(page) {
    await page.$eval('.turn[data-turn="3"]', (one) => {
      one.scrollIntoView();
      one.dataset.kept = "yes";
    });
    await waitForEnd(page, false);
    const before = await position(page);
    nerve("send", "rich", "sent from elsewhere");
    await waitFor(page, "the turn is missing", (turn) => document.querySelector(`.turn[data-turn="${turn}"]`)?.innerText.includes("You said"), TURNS + 1);
    await waitFor(page, "there is no button", () => !document.querySelector(".below").hidden);
    expect(await position(page), before, "position");
    expect(await page.$$eval("[data-kept]", (all) => all.length), 1, "turns that were kept");
    await page.click(".below");
    await waitForText(page, "You said: sent from elsewhere");
    await waitForEnd(page, true);
  },

  async "a reconnect keeps the turns and the reader's place"(page) {
    await page.$eval('.turn[data-turn="3"]', (one) => one.scrollIntoView());
    await waitForEnd(page, false);
    const before = await position(page);
    const refuse = (request) => (/\/transcript.*limit=2$/.test(request.url()) ? request.abort() : request.continue());
    const stop = await intercept(page, refuse);
    nerve("send", "rich", "sent during a reconnect");
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await waitFor(page, "the turn is missing", (turn) => document.querySelector(`.turn[data-turn="${turn}"]`) !== null, TURNS + 2);
    await stop();
    expect(await shownTurns(page), Array.from({ length: TURNS + 2 }, (_, index) => index + 1), "turns");
    expect(await position(page), before, "position");
    await page.click(".below");
    await waitForText(page, "You said: sent during a reconnect");
    await waitForEnd(page, true);
  },

  async "a prompt is sent, and its turn appears at the end"(page) {
    await sendPrompt(page, "rich", "now **bold**");
    await waitFor(page, "the answer is missing", () => [...document.querySelectorAll(".turn:last-child strong")].some((one) => one.textContent === "bold"));
    await waitForEnd(page, true);
    await page.waitForSelector(".delivery li.reached:nth-child(5)");
    expect((await shownTurns(page)).at(-1), TURNS + 3, "last turn");
  },

  async "a dialog and the prompt stay in view on a phone"(page) {
    await page.goto(new URL("/web/#/node/default/plain", link).href);
    await sendPrompt(page, "plain", "PERMIT this");
    await waitForText(page, "Asks for permission");
    await page.waitForSelector(".choices button:enabled");
    await takeScreenshots(page, "dialog");
    await page.emulate({ viewport: { width: 360, height: 640, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }, userAgent: "phone" });
    await page.waitForSelector(".choices button:enabled");
    expect(await page.evaluate(() => document.documentElement.scrollWidth), 360, "width");
    const isInView = (all) =>
      all.every((one) => {
        const { left, top, bottom } = one.getBoundingClientRect();
        const isShown = (y) => one.contains(document.elementFromPoint(left + 20, y));
        return isShown(top + 4) && isShown(bottom - 4);
      });
    await page.screenshot({ path: join(folder, "node-dialog-360.png") });
    expect(await page.$$eval(".choices button", isInView), true, "choices in view");
    await choose(page, "plain", "Yes");
    await waitForText(page, "Dialog 'permission'");
    await page.waitForSelector(".prompt .row:not([hidden]) textarea");
    expect(await page.$$eval(".prompt textarea", isInView), true, "prompt in view");
    await page.screenshot({ path: join(folder, "node-tool-360.png") });
    await page.emulate({ viewport: { width: 1280, height: 900 }, userAgent: "desktop" });
    await waitForText(page, "Bash touch made-by-tool.txt");
  },

  async "a node that was removed is gone, with its dialog"(page) {
    const requests = [];
    const note = (request) => request.url().includes("/nodes/short/explain") && requests.push(request.url());
    page.on("request", note);
    nerve("new", "short", "-c", `${program} mock-agent --onboarding`, "--profile", "claude");
    await waitFor(page, "the title shows no blocked node", () => document.title.startsWith("(1)"));
    expect(requests, [], "requests for a dialog that is not shown");
    page.off("request", note);
    await page.goto(new URL("/web/#/node/default/short", link).href);
    await page.waitForSelector(".choices button:enabled");
    nerve("stop", "short");
    nerve("rm", "short");
    await waitForText(page, "gone\\s+claude[^]*This node has stopped or was removed");
    expect(await page.$$eval(".dialog, .prompt", (all) => all.map((one) => one.hidden)), [true, true], "hidden");
  },

  async "Markdown of a chat is rendered, even if its node is known later than its turns"(page) {
    const answers = {
      nodes: { node_id: "talk", type: "chat", state: "ready", progress: {}, metadata: { session_id: "default" } },
      transcript: {
        turns: [{ turn: 1, prompt: "hello", started_at: null, ended_at: null, sections: [{ type: "text", content: "**bold**" }], dialogs: [], tokens: null, is_complete: true, source: "journal" }],
        turn_count: 1,
        notes: ["one note", "another note"],
        recording_id: null,
        conversation_id: null,
      },
    };
    let releaseList;
    const isTurnShown = new Promise((resolve) => (releaseList = resolve));
    const respond = async (request) => {
      const { pathname } = new URL(request.url());
      const json = (value) => request.respond({ contentType: "application/json", body: JSON.stringify(value) });
      if (pathname.endsWith("/talk/transcript")) {
        await json(answers.transcript);
      } else if (pathname.endsWith("/quiet/transcript")) {
        await json({ ...answers.transcript, turns: [], turn_count: 0 });
      } else if (pathname === "/nodes") {
        await isTurnShown;
        await json({ nodes_info: [answers.nodes] });
      } else {
        await request.continue();
      }
    };
    // An address in the same page would not load the list again.
    await page.goto("about:blank");
    const stop = await intercept(page, respond);
    await page.goto(new URL("/web/#/node/default/talk", link).href);
    await waitForText(page, "\\*\\*bold\\*\\*");
    releaseList();
    await waitFor(page, "the Markdown is not rendered", () => document.querySelector(".turn strong")?.textContent === "bold");
    expect(await page.$$eval(".chat-notes .note", (all) => all.map((one) => one.textContent)), answers.transcript.notes, "notes");
    await page.goto(new URL("/web/#/node/default/quiet", link).href);
    await waitFor(page, "the turns are not missing", () => document.querySelector(".chat-content").innerText.trim() === "No turns yet.");
    await stop();
    await page.goto("about:blank");
  },

  async "prompts of a shell are read from its history"(page) {
    await page.goto(new URL("/web/#/node/default/sh", link).href);
    await sendPrompt(page, "sh", "printf '# not a heading\\n'");
    await waitFor(page, "the answer is missing", () => document.querySelector(".turn pre.plain")?.closest(".turn").innerText.includes("# not a heading"));
  },

  async "a conversation that was rewound is shown anew, in its order"(page) {
    let last = 40;
    const turn = (number) => ({ turn: number, prompt: `made up ${number}`, started_at: `2026-01-31T10:30:${number}.000Z`, ended_at: null, sections: [], dialogs: [], tokens: null, is_complete: true, source: "agent" });
    const respond = (request) => {
      const url = new URL(request.url());
      if (!url.pathname.endsWith("/transcript")) {
        request.continue();
        return;
      }
      const count = Number(url.searchParams.get("limit"));
      const turns = Array.from({ length: count }, (_, index) => turn(last - count + 1 + index));
      request.respond({ contentType: "application/json", body: JSON.stringify({ turns, turn_count: last, notes: [], recording_id: null, conversation_id: null }) });
    };
    const stop = await intercept(page, respond);
    await page.goto(new URL("/web/#/node/default/plain", link).href);
    await waitForText(page, "made up 40");
    last = 30;
    nerve("send", "plain", "an event");
    await waitFor(page, "the turns are others", () => [...document.querySelectorAll(".turn")].map((one) => one.dataset.turn).join() === "11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30");
    await stop();
  },

  async "back and forward of the browser change the view, and the stream stays"(page) {
    const streams = [];
    page.on("request", (request) => request.url().includes("/events") && streams.push(request.url()));
    await follow(page, "Nodes");
    await waitForText(page, "rich\\s+ready");
    await page.setViewport({ width: 600, height: 300 });
    await page.evaluate(() => scrollTo(0, 250));
    // The page notes the position with the next frame.
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    await page.goBack();
    await waitFor(page, "the view is not back", () => document.querySelector("h1").textContent === "plain");
    await page.goForward();
    await waitFor(page, "the list is not back", () => document.querySelector("h1").textContent === "Nodes");
    expect(await page.evaluate(() => scrollY), 250, "position in the list");
    await page.setViewport({ width: 1280, height: 900 });
    expect(streams, [], "further streams");
  },

  async "a prompt that was typed stays when its view is left"(page) {
    await (await page.waitForSelector("aria/Prompt for rich")).type("a draft");
    await follow(page, "rich");
    const text = () => page.waitForSelector("aria/Prompt for rich").then((field) => field.evaluate(({ value }) => value));
    await waitFor(page, "the view is not open", () => document.querySelector("h1").textContent === "rich");
    expect(await text(), "a draft", "prompt in the view");
    await page.type("aria/Prompt for rich", ", changed");
    await follow(page, "Nodes");
    await waitFor(page, "the list is not shown", () => document.querySelector("h1").textContent === "Nodes");
    expect(await text(), "a draft, changed", "prompt in the list");
  },

  async "a sentence is found, and the hit opens its turn"(page) {
    await follow(page, "Search");
    await (await page.waitForSelector("aria/Search for")).type("sent from elsewhere");
    await page.select("aria/In", "prompt");
    await page.focus("aria/Search for");
    await page.keyboard.press("Enter");
    await waitForText(page, "turn \\d+ · .* · prompt");
    expect(await page.$eval(".hits mark", (one) => one.textContent), "sent from elsewhere", "match");
    await takeScreenshots(page, "search");
    await follow(page, "rich");
    await waitFor(page, "the turn is not marked", () => document.querySelector(".turn.wanted")?.innerText.includes("sent from elsewhere"));
    await page.goBack();
    await waitForText(page, "turn \\d+ · .* · prompt");
  },

  async "an error of a search is shown with its hint"(page) {
    await page.goto(new URL("/web/#/search?q=hello&node=rihc", link).href);
    await waitForText(page, "did you mean|'rich'");
  },

  async "a hit of a node that is gone opens its recording"(page) {
    nerve("send", "sh", "echo wordgone");
    nerve("stop", "sh");
    nerve("rm", "sh");
    await follow(page, "Nodes");
    await page.goto(new URL("/web/#/search?q=wordgone&in=prompt", link).href);
    await page.waitForSelector('.hits a[href^="#/recording/"]');
    await follow(page, "sh");
    await waitForText(page, "Recording of sh");
    await waitFor(page, "the turn is not marked", () => document.querySelector(".turn.wanted")?.innerText.includes("echo wordgone"));
  },

  async "a node is created, after an error that is explained"(page) {
    await follow(page, "New");
    await (await page.waitForSelector("aria/Name")).type("rich");
    await page.select("aria/Command", "bash");
    await page.keyboard.press("Enter");
    await page.focus("aria/Name");
    await page.keyboard.press("Enter");
    await waitForText(page, "Not created: .*rich");
    await takeScreenshots(page, "new");
    await page.type("aria/Name", "-2");
    await page.keyboard.press("Enter");
    await waitFor(page, "the node's view is not open", () => location.hash === "#/node/default/rich-2" && document.querySelector("h1").textContent === "rich-2");
    await waitForText(page, "ready");
  },

  async "a browser with the role view reads a conversation, and can only read it"() {
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(nerve("web", "--no-open", "--role", "view").trim());
    await follow(page, "plain");
    await waitForText(page, "The tool said");
    expect(await page.$$eval("textarea, a[href='#/new']", (all) => all.length), 0, "what the role does not permit");
    await page.close();
  },

  async "a link that is opened in a view logs in anew"(page) {
    await page.evaluate((address) => location.assign(address), nerve("web", "--no-open").trim());
    await waitFor(page, "the list is not shown", () => location.hash === "" && document.querySelector("h1")?.textContent === "Nodes");
    await waitForText(page, "rich-2\\s+ready");
  },
};

await run(steps);
