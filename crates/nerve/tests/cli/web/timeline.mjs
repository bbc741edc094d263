// The timeline: yesterday's recording is positioned, played and bookmarked, and branches begin.

import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { browser, checkWidth, link, nerve, newPage, run, takeScreenshots, waitFor, waitForText } from "./browser.mjs";
import { ID, writeSessionFile } from "./session_file.mjs";

const work = process.cwd();
const SLIDER = "aria/Position in the recording";

/** Waits until the recorded screen contains a text, and does not contain another one. */
function waitForScreen(page, text, absent = null) {
  const found = (wanted, other) => {
    const shown = document.querySelector(".timeline-tab .xterm-rows")?.textContent.replaceAll("\u00a0", " ") ?? "";
    return shown.includes(wanted) && (other === null || !shown.includes(other));
  };
  return waitFor(page, `the screen lacks '${text}' or has '${absent}'`, found, text, absent);
}

/** Waits until the position is this time. */
function waitForPosition(page, time) {
  const found = (wanted) => document.querySelector(".timeline-controls .timeline-time")?.textContent.startsWith(`${wanted} /`);
  return waitFor(page, `the position is not ${time}`, found, time);
}

function open(page, fragment) {
  return page.goto(new URL(`/web/${fragment}`, link).href);
}

/** Waits until the page has another fragment. */
function waitForAddress(page, fragment) {
  return waitFor(page, `the address is not ${fragment}`, (wanted) => location.hash === wanted, fragment);
}

const steps = {
  async "a turn in the chat leads to its moment in the recording"(page) {
    const { recordings } = JSON.parse(nerve("recording", "list", "--json"));
    const { started_at: started } = recordings.find((one) => JSON.stringify(one).includes("yesterday.ahr"));
    writeSessionFile(process.env.HOME, work, Date.parse(started) + 1000);
    await page.goto(link);
    await page.waitForSelector("h1");
    await open(page, "#/recording/yesterday?turn=40");
    await (await page.waitForSelector("aria/Show in recording: turn 40")).click();
    await waitForPosition(page, "2:37");
    await waitForScreen(page, "Prompt number 40", "Answer number 40");
    await waitForAddress(page, "#/recording/yesterday?turn=40&tab=timeline");
    await page.goBack();
    await page.waitForSelector(".panel:not([hidden]) .turn.wanted");
    await page.goForward();
    await waitForPosition(page, "2:37");
    await waitForText(page, "100 × 28");
  },

  async "keys seek, and the address keeps the position"(page) {
    await page.focus(SLIDER);
    await page.keyboard.press("ArrowRight");
    await waitForPosition(page, "2:42");
    await waitForScreen(page, "Prompt number 41", "Answer number 41");
    await page.keyboard.press("Home");
    await waitForPosition(page, "0:00");
    await waitForScreen(page, "Claude Code", "Prompt number 1");
    await waitForText(page, "80 × 24");
    await page.keyboard.press("End");
    await waitForPosition(page, "13:20");
    await waitForScreen(page, "All tests pass.");
    await page.keyboard.down("Shift");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.up("Shift");
    await waitForPosition(page, "12:20");
    await waitForScreen(page, "Answer number 45", "All tests pass.");
    await waitForAddress(page, "#/recording/yesterday?at=740.0");
    await page.reload();
    await waitForPosition(page, "12:20");
    const value = await page.$eval(SLIDER, (one) => [one.getAttribute("aria-valuenow"), one.getAttribute("aria-valuetext")]);
    if (value.join() !== "740,12:20 of 13:20") {
      throw new Error(`the slider says ${value}`);
    }
  },

  async "a click on the bar, on a mark and in the list seeks"(page) {
    const box = await (await page.waitForSelector(".timeline-slider")).boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await waitForPosition(page, "6:40");
    await page.focus('[aria-label^="Turn 1:"]');
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await waitForPosition(page, "0:05");
    await waitForScreen(page, "Prompt number 2", "Answer number 2");
    await page.click("summary::-p-text(Moments)");
    await (await page.waitForSelector(".timeline-moment::-p-text(Snapshot 1: before the parser)")).click();
    await waitForPosition(page, "1:38");
    await waitForScreen(page, "Prompt number 25", "Answer number 25");
  },

  async "the recording is played at 16 times, and its pause is skipped"(page) {
    await page.select("aria/Speed", "16");
    await page.click("aria/Play");
    await waitForText(page, "Pause");
    await waitForScreen(page, "Prompt number 30");
    // The pause alone would take longer than this waits.
    await waitForScreen(page, "All tests pass.");
    await waitForPosition(page, "13:20");
    await page.waitForSelector("aria/Play");
  },

  async "an address opens a position, on a phone too"(page) {
    await open(page, "#/recording/yesterday?at=157");
    await page.reload();
    await waitForText(page, "Recording of parser");
    await waitForScreen(page, "Prompt number 40");
    await checkWidth(page, 360);
    await page.setViewport({ width: 1280, height: 900 });
  },

  async "earlier rows are offered in a recording that has ended"(page) {
    await (await page.waitForSelector("aria/Earlier rows")).click();
    // The page before the last one.
    await waitForScreen(page, "Prompt number 30", "Prompt number 40");
  },

  async "a branch that cannot begin is explained"(page) {
    await page.click("summary::-p-text(Branch from here)");
    await waitForText(page, "continues from snapshot 1 “before the parser” at 1:38");
    await waitForText(page, "A branch from here fails: .+\\(.+\\)");
    await page.focus(SLIDER);
    await page.keyboard.press("Home");
    await waitForText(page, "There is no snapshot at or before this position");
  },

  async "a live recording grows, and a branch begins at its end"(page) {
    const claude = join(work, "claude");
    writeFileSync(claude, `#!/bin/sh\nexec '${process.env.NERVE_PROGRAM}' mock-agent "$@"\n`);
    chmodSync(claude, 0o755);
    nerve("new", "live", "-c", `${claude} --resume ${ID}`, "--cwd", work);
    nerve("send", "live", "before the branch");
    await open(page, "#/node/default/live?tab=timeline");
    await waitForText(page, "\\(live\\)");
    await waitForScreen(page, "before the branch");
    nerve("send", "live", "while it is shown");
    await waitForScreen(page, "while it is shown");
    await page.click("summary::-p-text(Branch from here)");
    await waitForText(page, "continues from the present, with a new snapshot");
    await page.type("aria/Instruction for the new node", "another way");
    await page.click("aria/Begin the branch");
    await waitFor(page, "the new node is not shown", () => /^#\/node\/default\/live-/.test(location.hash));
    await waitForText(page, "You said: another way");
  },

  async "a branch begins from a turn of yesterday's recording"(page) {
    await open(page, "#/recording/yesterday?turn=30");
    await (await page.waitForSelector("aria/Show in recording: turn 30")).click();
    await waitForPosition(page, "1:57");
    await page.click("summary::-p-text(Branch from here)");
    await waitForText(page, "continues from snapshot 1 “before the parser” at 1:38");
    await waitForText(page, "A branch from here fails: ");
    await page.click(".branch input[type=checkbox]");
    await waitForText(page, "It works in [^]*; conversation: ");
    await page.type("aria/Instruction for the new node", "yesterday, another way");
    await page.click("aria/Begin the branch");
    await waitFor(page, "the new node is not shown", () => /^#\/node\/default\/parser/.test(location.hash));
    await waitForText(page, "Prompt number 24[^]*You said: yesterday, another way");
    if (await page.evaluate(() => document.body.innerText.includes("Prompt number 30"))) {
      throw new Error("the branch has turns that came after its snapshot");
    }
  },

  async "turns, dialogs and snapshots of a node fit a desktop and a phone"(page) {
    nerve("send", "live", "Rename the module parser to lexer.");
    nerve("send", "live", "PERMIT the new name in notes.txt", "--no-wait");
    nerve("wait", "live", "--until", "blocked");
    nerve("answer", "live", "1");
    nerve("wait", "live");
    nerve("snapshot", "--recording", "live", "--label", "renamed", "--no-files");
    nerve("send", "live", "Summarise what has changed.");
    await open(page, "#/node/default/live?tab=timeline");
    await waitForScreen(page, "You said: Summarise what has changed.");
    for (const kind of ["turn", "dialog", "snapshot"]) {
      await page.waitForSelector(`.timeline-mark.${kind}`);
    }
    await takeScreenshots(page, "timeline");
    await checkWidth(page, 360);
    await page.setViewport({ width: 1280, height: 900 });
  },

  async "earlier rows are added above those of a position"(page) {
    nerve("new", "rows", "-c", "bash --norc", "--env", "PS1=$ ");
    nerve("send", "rows", "seq 1000 1999");
    nerve("send", "rows", "echo the end");
    await open(page, "#/node/default/rows?tab=timeline");
    await waitForScreen(page, "the end", "1100");
    await (await page.waitForSelector("aria/Earlier rows")).click();
    // The page before the last one.
    await waitForScreen(page, "1950", "the end");
    await page.focus(SLIDER);
    await page.keyboard.press("End");
    await waitForScreen(page, "the end", "1950");
    await page.mouse.move(300, 400);
    await page.mouse.wheel({ deltaY: -100 });
    await waitForScreen(page, "1950", "the end");
  },

  async "a live recording is followed without a seek, and played to its end"(page) {
    nerve("new", "shell", "-c", "bash --norc", "--env", "PS1=$ ");
    nerve("send", "shell", "echo before");
    await open(page, "#/node/default/shell?tab=timeline");
    await waitForScreen(page, "before");
    let seeks = 0;
    const countSeeks = (request) => {
      const { pathname, searchParams } = new URL(request.url());
      seeks += pathname === "/recorded-output" && !searchParams.has("output_only") ? 1 : 0;
    };
    page.on("request", countSeeks);
    nerve("send", "shell", "echo followed");
    await waitForScreen(page, "followed");
    page.off("request", countSeeks);
    if (seeks > 0) {
      throw new Error(`${seeks} seeks for new output`);
    }
    await page.click("aria/Play");
    await waitForText(page, "Pause");
    nerve("send", "shell", "echo the last words");
    nerve("stop", "shell");
    await waitForScreen(page, "the last words");
    await page.waitForSelector("aria/Play");
  },

  async "the new recording of a node that has started again is shown"(page) {
    nerve("start", "shell");
    nerve("send", "shell", "echo again");
    await waitForScreen(page, "echo again", "the last words");
    await waitForText(page, "\\(live\\)");
  },

  async "the intact parts of a damaged recording are shown"(page) {
    await open(page, "#/recording/damaged?at=0");
    await waitForText(page, "This recording is damaged. The rest is shown.");
    await page.waitForSelector(".timeline-mark.damage");
    await waitForScreen(page, "before the damage", "after the damage");
    await page.focus(SLIDER);
    await page.keyboard.press("End");
    await waitForScreen(page, "after the damage", "lost");
  },

  async "a browser with the role view plays, and begins no branch"() {
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(nerve("web", "--no-open", "--role", "view").trim());
    await page.waitForSelector("h1");
    await open(page, "#/recording/yesterday?at=157");
    await waitForScreen(page, "Prompt number 40");
    if ((await page.$$(".branch")).length !== 0) {
      throw new Error("the role does not permit a branch");
    }
    await page.close();
  },
};

await run(steps);
