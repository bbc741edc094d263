// Requests whose replies come late, in another order, or not at all; and very long conversations.

import { DEADLINE, expect, intercept, link, nerve, run, waitForText } from "./browser.mjs";

/** Turns of a made-up conversation. */
const TURNS = 10000;

/** Runs a function in the page with a module of the page. */
async function withModule(page, name, test) {
  const path = await page.$eval("script[type=module]", ({ src }) => src.replace(/main\.js$/, ""));
  return page.evaluate(`import(${JSON.stringify(path + name)}).then(${test})`);
}

function madeUpTurn(turn) {
  const sections = [{ type: "text", content: `**answer** number ${turn}` }];
  return { turn, prompt: `made up ${turn}`, started_at: new Date(Date.UTC(2026, 0, 1) + 1000 * turn).toISOString(), ended_at: null, sections, dialogs: [], tokens: null, is_complete: true, source: "agent" };
}

const steps = {
  async "of several requests only the latest counts"(page) {
    await page.goto(link);
    await waitForText(page, "sh\\s+ready");
    const seen = await withModule(page, "latest_request.js", async ({ LatestRequest }) => {
      const replies = [];
      const seen = [];
      const request = new LatestRequest(() => new Promise((resolve, reject) => replies.push({ resolve, reject })), {
        receive: (reply, hadFailed) => seen.push([reply, hadFailed]),
        fail: (error) => seen.push(error.message),
      });
      const isSent = async (count) => {
        while (replies.length < count) {
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      };
      const done = [request.send(), request.send()];
      replies[1].resolve("second");
      replies[0].resolve("first");
      await Promise.all(done);
      const failed = request.send();
      replies[2].reject(new Error("broken"));
      await failed;
      // It is repeated without a call.
      await isSent(4);
      replies[3].resolve("fourth");
      await new Promise((resolve) => setTimeout(resolve));
      const cancelled = request.send();
      request.cancel();
      replies[4].reject(new Error("too late"));
      await cancelled;
      const gone = request.send();
      replies[5].reject(Object.assign(new Error("gone"), { status: 404 }));
      await gone;
      return [...seen, replies.length];
    });
    expect(seen, [["second", false], "broken", ["fourth", true], "gone", 6], "what was seen");
  },

  async "changes are fetched one at a time, and again after a failure"(page) {
    const seen = await withModule(page, "fetch_loop.js", async ({ FetchLoop }) => {
      const seen = [];
      const replies = [];
      const store = new EventTarget();
      let isOpen = true;
      let changes = 1;
      const loop = new FetchLoop(store, {
        isOpen: () => isOpen,
        hasChanges: () => changes > 0,
        fetchChanges: () => {
          changes = 0;
          return new Promise((resolve) => replies.push(resolve));
        },
      });
      const ended = () => new Promise((resolve) => ["current", "failed"].forEach((name) => store.addEventListener(name, () => resolve(name), { once: true })));
      const isSent = async (count) => {
        while (replies.length < count) {
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      };
      let end = ended();
      loop.run();
      // A change that arrives meanwhile waits for the reply.
      changes = 1;
      loop.wake();
      seen.push(replies.length, loop.isCurrent);
      replies[0](true);
      await isSent(2);
      replies[1](true);
      seen.push(await end, loop.isCurrent);
      changes = 1;
      end = ended();
      loop.run();
      changes = 1;
      replies[2](false);
      seen.push(await end, loop.isCurrent);
      // Only the retry fetches it.
      loop.wake();
      seen.push(replies.length);
      end = ended();
      await isSent(4);
      isOpen = false;
      replies[3](false);
      seen.push(await end, loop.isCurrent);
      return seen;
    });
    expect(seen, [1, false, "current", true, "failed", false, 3, "current", true], "what was seen");
  },

  async "a reader who leaves the end within a frame stays in place"(page) {
    const seen = await withModule(page, "follow_mode.js", async ({ FollowMode }) => {
      const [scroller, content] = [document.createElement("div"), document.createElement("div")];
      Object.assign(scroller.style, { height: "100px", overflow: "auto" });
      content.style.height = "2000px";
      scroller.append(content);
      document.body.append(scroller);
      const follow = new FollowMode(scroller, content, "summary");
      const frames = async () => {
        for (let count = 0; count < 3; count += 1) {
          await new Promise((resolve) => requestAnimationFrame(resolve));
        }
        return scroller.scrollTop;
      };
      const seen = [await frames()];
      scroller.scrollTop = 300;
      seen.push(await frames());
      // To the end and back, which the browser reports once.
      follow.followEnd();
      scroller.scrollTop = 300;
      await frames();
      content.style.height = "2500px";
      seen.push(await frames());
      follow.close();
      scroller.remove();
      return seen;
    });
    expect(seen, [1900, 300, 300], "positions");
  },

  async "a reply about a node that is not shown any more changes nothing"(page) {
    nerve("new", "other", "-c", "bash --norc");
    await waitForText(page, "other\\s+ready");
    let release;
    const isReleased = new Promise((resolve) => (release = resolve));
    let noteHeld;
    const isHeld = new Promise((resolve) => (noteHeld = resolve));
    const hold = async (request) => {
      if (/\/nodes\/other\/transcript/.test(request.url())) {
        noteHeld();
        await isReleased;
        await request.respond({ contentType: "application/json", body: JSON.stringify({ turns: [madeUpTurn(1)], turn_count: 1, notes: [], recording_id: null, conversation_id: null }) });
      } else {
        await request.continue();
      }
    };
    const stop = await intercept(page, hold);
    await page.evaluate(() => (location.hash = "#/node/default/other?turn=1"));
    await isHeld;
    await page.evaluate(() => (location.hash = "#/node/default/sh"));
    await page.waitForFunction(() => document.querySelector("h1").textContent === "sh", { timeout: DEADLINE });
    release();
    await stop();
    nerve("send", "sh", "echo still here");
    await waitForText(page, "still here");
    expect(await page.evaluate(() => [document.querySelector("h1").textContent, document.body.innerText.includes("made up")]), ["sh", false], "view");
  },

  async "a turn of a conversation with 10,000 turns is shown, and the page still reacts"(page) {
    const respond = (request) => {
      const url = new URL(request.url());
      if (!url.pathname.endsWith("/other/transcript")) {
        request.continue();
        return;
      }
      const before = Number(url.searchParams.get("before") ?? TURNS + 1);
      const count = Math.min(Number(url.searchParams.get("limit")), before - 1);
      const turns = Array.from({ length: count }, (_, index) => madeUpTurn(before - count + index));
      request.respond({ contentType: "application/json", body: JSON.stringify({ turns, turn_count: TURNS, notes: [], recording_id: null, conversation_id: null }) });
    };
    const stop = await intercept(page, respond);
    const start = performance.now();
    await page.evaluate(() => (location.hash = "#/node/default/other?turn=3"));
    await page.waitForFunction(() => document.querySelector(".turn.wanted")?.innerText.includes("made up 3"), { timeout: DEADLINE });
    console.log(`  turn 3 of ${TURNS} after ${Math.round(performance.now() - start)} ms`);
    const scrolled = await page.evaluate(async () => {
      const start = performance.now();
      document.querySelector(".chat-scroller").scrollTop += 2000;
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      return performance.now() - start;
    });
    console.log(`  scrolled after ${Math.round(scrolled)} ms, ${await page.$$eval(".turn", ({ length }) => length)} turns on the page`);
    await stop();
    await page.evaluate(() => (location.hash = "#/"));
    await page.waitForSelector(".nodes");
  },

  async "an answer of 4 MB in one line does not freeze the list"(page) {
    const text = "x".repeat(4 << 20);
    const respond = (request) => {
      const { pathname } = new URL(request.url());
      if (/^\/results\//.test(pathname)) {
        request.respond({ contentType: "application/json", body: JSON.stringify({ result_id: "r", state: "done", response: { text } }) });
      } else {
        request.continue();
      }
    };
    const stop = await intercept(page, respond);
    await (await page.waitForSelector("aria/Prompt for sh")).focus();
    await page.keyboard.type("echo much");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".answer .show-all");
    const length = await page.$eval(".answer", ({ textContent }) => textContent.length);
    if (length > 20000) {
      throw new Error(`the answer is not folded: ${length} characters`);
    }
    await stop();
  },
};

await run(steps);
