// A browser that uses the web console as a person does. Shared by the scripts that web.rs starts:
//
// node SCRIPT MODULES CHROMIUM LINK FOLDER: MODULES contains puppeteer-core, LINK logs in, screenshots go to FOLDER.

import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, chromium, link, folder] = process.argv.slice(2);
export { folder, link, modules };
const puppeteer = createRequire(join(modules, "index.js"))("puppeteer-core");
export const DEADLINE = 30000;
/** Buttons of a dialog that react: clicks right after a move do not count. */
const STEADY = ".choices:not(.unsteady) button:enabled";

/** Time after which the browser is ended, in milliseconds: less than the test waits for this script. */
const LIMIT = 140000;

const problems = [];
export const browser = await puppeteer.launch({
  executablePath: chromium,
  defaultViewport: { width: 1280, height: 900 },
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  userDataDir: join(folder, "profile"),
  // Tests with TLS have a certificate of their own.
  acceptInsecureCerts: link.startsWith("https:"),
  // The browser ends with this process, even if that is killed.
  pipe: true,
});

setTimeout(() => {
  console.error(`not done after ${LIMIT} ms`);
  browser.process().kill("SIGKILL");
  process.exit(1);
}, LIMIT).unref();

/** Waits until the text of the page matches. */
export async function waitForText(page, pattern) {
  const found = (source) => new RegExp(source).test(document.body.innerText);
  await page.waitForFunction(found, { timeout: DEADLINE }, pattern).catch(async () => {
    throw new Error(`the page does not show ${pattern}, but:\n${await page.evaluate(() => document.body.innerText)}`);
  });
}

/** Waits until `found`, which runs in the page with these values, returns true. `what` describes the failure. */
export async function waitFor(page, what, found, ...values) {
  await page.waitForFunction(found, { timeout: DEADLINE }, ...values).catch(async () => {
    throw new Error(`${what}; the page shows:\n${await page.evaluate(() => document.body.innerText.slice(-3000))}`);
  });
}

/** Fails unless both values are equal. `what` names them. */
export function expect(actual, wanted, what) {
  if (JSON.stringify(actual) !== JSON.stringify(wanted)) {
    throw new Error(`${what}: ${JSON.stringify(actual)} instead of ${JSON.stringify(wanted)}`);
  }
}

/** Shows another view, by its address. */
export function showAddress(page, hash) {
  return page.evaluate((fragment) => (location.hash = fragment), hash);
}

/** Types a prompt for a node and sends it. */
export async function sendPrompt(page, node, text) {
  await (await page.waitForSelector(`aria/Prompt for ${node}`)).focus();
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
}

/** Waits until a node shows this answer. */
export async function waitForAnswer(page, text) {
  const isShown = (wanted) => [...document.querySelectorAll(".answer")].some((answer) => answer.textContent === wanted);
  await page.waitForFunction(isShown, { timeout: DEADLINE }, text).catch(async () => {
    throw new Error(`no node shows the answer ${text}; the page shows:\n${await page.evaluate(() => document.body.innerText)}`);
  });
}

/** Clicks a choice of a node's dialog as soon as the choice reacts. */
export async function choose(page, node, text) {
  const click = (buttons, name, wanted) => {
    const isOfNode = (button) => document.getElementById(button.getAttribute("aria-describedby")).textContent === name;
    const button = [...document.querySelectorAll(buttons)].find((one) => isOfNode(one) && one.textContent.includes(wanted));
    button?.click();
    return button !== undefined;
  };
  await page.waitForFunction(click, { timeout: DEADLINE }, STEADY, node, text);
}

/** Taps a choice until the page shows its effect: a tap does not count right after the buttons have moved. */
export async function tapChoice(page, index, effect) {
  const isShown = (source) => new RegExp(source).test(document.body.innerText);
  const isAnswered = (source) => new RegExp(`${source}|sending…`).test(document.body.innerText);
  for (let isTapped = false; !isTapped; ) {
    await page.waitForSelector(STEADY);
    await (await page.$$(".choices button"))[index].tap();
    const wait = page.waitForFunction(isAnswered, { timeout: 1000 }, effect);
    isTapped = await wait.then(() => true, () => page.evaluate(isShown, effect));
  }
  await waitForText(page, effect);
}

/** Fails if the page is wider than the window. */
export async function checkWidth(page, width) {
  await page.setViewport({ width, height: 900 });
  const needed = await page.evaluate(() => document.documentElement.scrollWidth);
  if (needed > width) {
    throw new Error(`the page needs ${needed} px, the window has ${width} px`);
  }
}

/** Takes the pictures of a view in docs/web-views.md: light and dark, on a desktop and a phone. */
export async function takeScreenshots(page, name) {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    for (const width of [1280, 390]) {
      await checkWidth(page, width);
      await page.waitForFunction(() => document.querySelector(".unsteady") === null);
      await page.screenshot({ path: join(folder, `${name}-${width}-${scheme}.webp`), type: "webp", quality: 75 });
    }
  }
  await page.setViewport({ width: 1280, height: 900 });
}

export async function newPage(context = browser) {
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE);
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => /Content Security Policy/.test(message.text()) && problems.push(message.text()));
  return page;
}

/** Passes the requests of a page to a function, which must answer or continue each. Returns a function that ends this. */
export async function intercept(page, respond) {
  const probe = "/web/session?probe";
  let isInForce = false;
  const listen = (request) => {
    if (request.interceptResolutionState().action === "disabled") {
      return;
    }
    if (request.url().endsWith(probe)) {
      isInForce = true;
      request.respond({ status: 204 });
    } else {
      respond(request);
    }
  };
  page.on("request", listen);
  await page.setRequestInterception(true);
  // The browser confirms it before it applies to the requests of a page that is already loaded.
  while (!isInForce && page.url() !== "about:blank") {
    await page.evaluate((path) => fetch(path).then(() => {}), probe);
  }
  return async () => {
    await page.setRequestInterception(false);
    page.off("request", listen);
  };
}

/** Runs nerve in the test's environment. */
export function nerve(...args) {
  const done = spawnSync(process.env.NERVE_PROGRAM, args, { encoding: "utf8" });
  if (done.status !== 0) {
    throw new Error(`nerve ${args.join(" ")}: ${done.stderr}`);
  }
  return done.stdout;
}

/** Runs steps in their order, in one page. The process fails with the first step that fails. */
export async function run(steps) {
  let failure = null;
  try {
    const page = await newPage();
    for (const [name, step] of Object.entries(steps)) {
      console.log(name);
      await step(page).catch(async (error) => {
        await page.screenshot({ path: join(folder, "failure.png") }).catch(() => {});
        throw new Error(`${name}: ${error.message}`);
      });
    }
    if (problems.length > 0) {
      throw new Error(`the page reported: ${problems.join("\n")}`);
    }
  } catch (error) {
    failure = error;
  } finally {
    await browser.close();
  }
  if (failure !== null) {
    console.error(failure.message);
    process.exitCode = 1;
  }
}
