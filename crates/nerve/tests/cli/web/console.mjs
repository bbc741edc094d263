// The login, the list of nodes and the connection. Fails with a message if something cannot be seen.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { DEADLINE, browser, checkWidth, choose, folder, intercept, link, nerve, newPage, run, sendPrompt, takeScreenshots, tapChoice, waitForAnswer, waitForText } from "./browser.mjs";

/** Returns the id of a node's host. */
function hostOf(node) {
  return JSON.parse(nerve("node", "info", node, "--json")).metadata.host_id;
}

/** Opens the terminal of a node and waits until it shows a text. */
async function openTerminal(page, node, pattern) {
  await waitForText(page, `${node}\\s+ready`);
  await page.evaluate((fragment) => (location.hash = fragment), `#/node/default/${node}`);
  await (await page.waitForSelector('aria/Terminal[role="tab"]')).click();
  await waitForTerminal(page, pattern);
  await page.focus(".xterm-helper-textarea").catch(() => {});
}

/** Waits until the rows of the open terminal match. */
async function waitForTerminal(page, pattern) {
  const rows = () => [...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent).join("\n");
  const found = (source) =>
    new RegExp(source, "m").test([...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent).join("\n"));
  await page.waitForFunction(found, { timeout: DEADLINE }, pattern).catch(async () => {
    const around = await page.evaluate(() => document.querySelector(".terminal-tab")?.innerText);
    throw new Error(`the terminal does not show ${pattern}, but:\n${await page.evaluate(rows)}\n${around}`);
  });
}

async function closeTerminal(page) {
  await page.evaluate(() => (location.hash = "#/"));
  await page.waitForSelector(".nodes");
}

const steps = {
  async "a browser without a session sees how to log in"() {
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(new URL("/", link).href);
    await waitForText(page, "not logged in");
    await takeScreenshots(page, "login");
    await page.goto(new URL("/web/#code=00", link).href);
    await waitForText(page, "code is wrong");
    await page.close();
  },

  async "the link logs in, once, and the code leaves the address bar"(page) {
    await page.goto(link);
    await waitForText(page, "role: full");
    if (page.url().includes("code")) {
      throw new Error(`the address bar shows the code: ${page.url()}`);
    }
    const other = await newPage(await browser.createBrowserContext());
    await other.goto(link);
    await waitForText(other, "already used");
    await other.close();
    await page.goto("about:blank");
    await page.goto(link);
    await waitForText(page, "already used[^]*sh\\s+ready");
    await page.goto("about:blank");
    await page.goto(new URL("/web/", link).href);
  },

  async "a prompt is delivered and done"(page) {
    await waitForText(page, "sh\\s+ready");
    await sendPrompt(page, "sh", "echo hello");
    await waitForAnswer(page, "hello");
    await page.waitForSelector(".delivery li.reached:nth-child(5)");
    await waitForText(page, "Prompt: echo hello");
  },

  async "the delivery of a prompt is shown while its turn runs"(page) {
    await sendPrompt(page, "sh", "until test -e begun; do sleep 0.05; done; echo it ends");
    const isStarted = () => {
      const reached = [...document.querySelectorAll(".delivery li.reached")].map((step) => step.textContent);
      return reached.join() === "queued,typed,submitted,started" && document.querySelector('.delivery [aria-current="step"]').textContent === "started";
    };
    await page.waitForFunction(isStarted, { timeout: DEADLINE });
    writeFileSync("begun", "");
    await waitForAnswer(page, "it ends");
    await page.waitForSelector(".delivery li.reached:nth-child(5)");
  },

  async "a node without a terminal answers too"(page) {
    nerve("new", "job", "--backend", "bash");
    await waitForText(page, "job\\s+ready");
    await sendPrompt(page, "job", "echo from the job");
    await waitForAnswer(page, "from the job");
    nerve("stop", "job");
    await waitForText(page, "job\\s+stopped");
  },

  async "text of a node stays text"(page) {
    await sendPrompt(page, "sh", "echo '<img src=x onerror=\"document.title=1\"><b>bold</b>'");
    await waitForText(page, "Answer: <img src=x .*<b>bold</b>");
    if (await page.$(".nodes img, .nodes b")) {
      throw new Error("text of a node became an element");
    }
  },

  async "a terminal shows the output and takes keys"(page) {
    await openTerminal(page, "sh", "^\\$ echo hello");
    await page.keyboard.type("echo typed $((40 + 2))");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "^typed 42");
    await takeScreenshots(page, "terminal");
    await page.focus(".xterm-helper-textarea");
    await page.keyboard.type("printf '\\033[38;2;1;2;3mcolor\\033[0m\\033]52;c;aGFja2Vk\\a\\n'");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "^color");
    const color = await page.$$eval(".xterm-rows span", (all) => {
      const span = all.find((one) => one.textContent === "color");
      return span && getComputedStyle(span).color;
    });
    if (color !== "rgb(1, 2, 3)") {
      throw new Error(`the text has the colour ${color}`);
    }
    // The server answers a query of the program; the page does not answer it again.
    await page.keyboard.type("printf '\\033[c'; read -rsdc first; read -rsdc -t 1 second; echo answers ${#first} ${#second}");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "^answers [1-9]\\d* 0\\s*$");
    const { cols, rows } = JSON.parse(nerve("node", "info", "sh", "--json")).metadata;
    if (cols !== 120 || rows !== 40) {
      throw new Error(`the page has resized the program: ${cols}×${rows}`);
    }
  },

  async "a link of a program shows its target first"(page) {
    await page.keyboard.type("echo see http://example.invalid/target");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "^see http://example.invalid/target");
    const place = await page.evaluate(() => {
      const row = [...document.querySelectorAll(".xterm-rows > div")].find((one) => one.textContent.startsWith("see http"));
      const { left, top, height } = row.getBoundingClientRect();
      return { x: left + 80, y: top + height / 2 };
    });
    await page.mouse.move(place.x + 5, place.y);
    await page.mouse.move(place.x, place.y);
    await page.waitForSelector(".xterm-cursor-pointer");
    await page.mouse.click(place.x, place.y);
    await waitForText(page, "Open this link of the program\\?\\s+http://example.invalid/target");
    await page.click("aria/Cancel");
  },

  async "a flood of output ends with the newest screen"(page) {
    await page.keyboard.type("seq 1 300000");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "^300000\\s*\\n\\$");
    await page.keyboard.type("clear");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "^\\$\\s*\\n\\s*$(?![^]*300000)");
  },

  async "keys are refused while another person types"(page) {
    const host = hostOf("sh");
    const isRefused = () => document.querySelector(".terminal-tab .note").textContent.includes("is typing into node");
    for (let attempt = 0; !(await page.evaluate(isRefused)); attempt += 1) {
      if (attempt === 20) {
        throw new Error("the keys are not refused");
      }
      nerve("host", "write", host, "--escape", "\\x15");
      await page.keyboard.type("#");
      await page.waitForFunction(isRefused, { timeout: 1000 }).catch(() => {});
    }
    await page.waitForFunction(() => {
      const tab = document.querySelector(".terminal-tab");
      return !tab.querySelector(".note").hidden && tab.querySelector(".banner").hidden;
    });
    // After a pause of the other person, the page types again.
    for (let isTyped = false; !isTyped; ) {
      await page.keyboard.type("#");
      await page.waitForFunction(() => document.querySelector(".terminal-tab .note").hidden, { timeout: 500 }).catch(() => {});
      isTyped = await page.evaluate(() => /#/.test(document.querySelector(".xterm-rows").textContent));
    }
    await page.keyboard.press("Enter");
  },

  async "a terminal continues after a restart of the server"(page) {
    const host = hostOf("sh");
    nerve("server", "stop", "--keep-nodes");
    await waitForText(page, "Connection lost. This is the terminal of \\d+ s ago");
    await page.screenshot({ path: join(folder, "terminal-lost-1280.png") });
    nerve("host", "write", host, "--escape", "echo with''out a server\\r");
    nerve("server", "start", "--http", new URL(link).port);
    await waitForTerminal(page, "^without a server");
    await page.waitForFunction(() => document.querySelector(".terminal-tab .banner").hidden);
    const count = await page.$eval(".xterm-rows", (all) => all.textContent.split("without a server").length - 1);
    if (count !== 1) {
      throw new Error(`the output came ${count} times`);
    }
    await page.focus(".xterm-helper-textarea");
    await page.keyboard.type("echo and on");
    await page.keyboard.press("Enter");
    await waitForTerminal(page, "^and on");
    await closeTerminal(page);
    await page.waitForFunction(() => document.querySelector(".banner").hidden);
  },

  async "the keys of a terminal work on a phone"(page) {
    await page.emulate({ viewport: { width: 360, height: 740, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }, userAgent: "phone" });
    await openTerminal(page, "sh", "^and on");
    await page.type("aria/Text to type", "echo from a phone");
    await page.tap(".key-row button[type=submit]");
    await waitForTerminal(page, "^from a phone");
    await page.tap("aria/Up");
    await waitForTerminal(page, "echo from a phone\\s*$");
    await page.tap("aria/Ctrl");
    await page.type("aria/Text to type", "c");
    await waitForTerminal(page, "echo from a phone\\^C");
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    if (width > 360) {
      throw new Error(`the page needs ${width} px`);
    }
    await page.screenshot({ path: join(folder, "terminal-360.png") });
    await closeTerminal(page);
    await page.emulate({ viewport: { width: 1280, height: 900 }, userAgent: "desktop" });
  },

  async "a browser with the role view sees the terminal without keys"() {
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(nerve("web", "--no-open", "--role", "view").trim());
    await openTerminal(page, "sh", "^from a phone");
    await page.keyboard.type("never typed");
    nerve("send", "sh", "echo marker");
    await waitForTerminal(page, "^marker");
    if ((await page.$(".key-row")) || (await page.$eval(".xterm-rows", (rows) => rows.textContent.includes("never")))) {
      throw new Error("the terminal takes keys, which the role does not permit");
    }
    await page.close();
  },

  async "a browser with the role view can only look"() {
    const page = await newPage(await browser.createBrowserContext());
    await page.goto(nerve("web", "--no-open", "--role", "view").trim());
    await waitForText(page, "role: view");
    await waitForText(page, "This browser may only look");
    if (await page.$(".choices button:enabled, textarea")) {
      throw new Error("the page offers what the role does not permit");
    }
    await page.close();
  },

  async "a share shows one node until it is revoked"() {
    const page = await newPage(await browser.createBrowserContext());
    const share = JSON.parse(nerve("share", "sh", "--for", "1h", "--json"));
    await page.goto(share.url);
    await waitForText(page, "shared: only to look at");
    await waitForText(page, "sh\\s+ready");
    if (page.url().includes("share=") || (await page.$("nav a, textarea"))) {
      throw new Error("the page of a share shows more than its node");
    }
    nerve("send", "sh", "echo shared");
    await waitForText(page, "echo shared");
    await page.goto(new URL("/web/#/node/default/agent", link).href);
    await waitForText(page, "sh\\s+ready");
    nerve("web", "shares", "revoke", share.share_id);
    await waitForText(page, "This share has ended. Ask for a new link.");
    await page.goto("about:blank");
    await page.goto(share.url);
    await waitForText(page, "This share has ended. Ask for a new link.");
    await page.close();
  },

  async "a share that replaces the session of another page is reported there"(page) {
    const context = await browser.createBrowserContext();
    const first = await newPage(context);
    await first.goto(JSON.parse(nerve("share", "sh", "--for", "1h", "--json")).url);
    await waitForText(first, "sh\\s+ready");
    const second = await newPage(context);
    await second.goto(JSON.parse(nerve("share", "agent", "--for", "1h", "--json")).url);
    await waitForText(second, "agent\\s+blocked");
    await first.bringToFront();
    await first.evaluate(() => dispatchEvent(new Event("online")));
    await waitForText(first, "Another link has replaced the session of this browser");
    await context.close();
    await page.bringToFront();
  },

  async "a dialog is answered by a touch on a phone"(page) {
    await page.emulate({ viewport: { width: 360, height: 740, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }, userAgent: "phone" });
    await waitForText(page, "agent\\s+blocked");
    await waitForText(page, "Asks whether to trust a folder|Asks for permission|Waits for an answer");
    await page.waitForSelector(".choices button");
    await checkWidth(page, 360);
    await page.screenshot({ path: join(folder, "dialog-360.png") });
    const sizes = await page.$$eval(".choices button", (all) => all.map((one) => one.getBoundingClientRect().toJSON()));
    sizes.forEach(({ height, top }, index) => {
      const gap = index > 0 ? top - sizes[index - 1].bottom : 8;
      if (height < 44 || gap < 8) {
        throw new Error(`choices are too small or too close: ${JSON.stringify(sizes)}`);
      }
    });
    await tapChoice(page, 1, "agent is ready now");
    const { entries } = JSON.parse(nerve("logs", "agent", "--json"));
    const { sessions } = JSON.parse(nerve("web", "sessions", "list", "--json"));
    const { client, transport } = entries.find(({ op }) => op === "answer");
    if (transport !== "http" || !sessions.some(({ web_session_id: id, role }) => role === "full" && client.endsWith(`, web session ${id}`))) {
      throw new Error(`the audit log names ${client} (${transport}) as the author of the answer`);
    }
    await page.emulate({ viewport: { width: 1280, height: 900 }, userAgent: "desktop" });
    await waitForText(page, "agent\\s+ready");
  },

  async "an answer of another client is reported"(page) {
    nerve("new", "second", "-c", `${process.env.NERVE_PROGRAM} mock-agent --onboarding`, "--profile", "claude");
    await waitForText(page, "second\\s+blocked");
    await page.waitForFunction(() => {
      const enabled = [...document.querySelectorAll(".choices button:enabled")];
      return enabled.some((button) => document.getElementById(button.getAttribute("aria-describedby")).textContent === "second");
    });
    await takeScreenshots(page, "nodes");
    nerve("answer", "second", "yes");
    await waitForText(page, '"Yes[^"]*": answered by uid \\d+ pid \\d+ \\(unix\\)[^]*second is ready now');
  },

  async "the next dialog takes the place of the one that was answered"(page) {
    nerve("new", "third", "-c", `${process.env.NERVE_PROGRAM} mock-agent --theme --onboarding`, "--profile", "claude");
    await waitForText(page, "Asks for a theme");
    await choose(page, "third", "");
    await waitForText(page, "Asks whether to trust a folder");
    await choose(page, "third", "Yes");
    await waitForText(page, "third is ready now");
  },

  async "directional marks in an answer are visible"(page) {
    await sendPrompt(page, "sh", "printf 'rm \\342\\200\\256txt'");
    await waitForText(page, "rm ⟨U\\+202E⟩txt");
  },

  async "a request that failed is repeated"(page) {
    const refuse = (request) => {
      const isRefused = new URL(request.url()).pathname.startsWith("/nodes");
      isRefused ? request.respond({ status: 503, contentType: "application/json", body: "{}" }) : request.continue();
    };
    const stop = await intercept(page, refuse);
    nerve("new", "again", "-c", "bash --norc");
    await page.waitForFunction(() => !document.querySelector(".banner").hidden);
    await stop();
    await waitForText(page, "again\\s+ready");
    await page.waitForFunction(() => document.querySelector(".banner").hidden);
  },

  async "a prompt that is typed while another one is sent stays"(page) {
    let noteTyped;
    const isTyped = new Promise((resolve) => (noteTyped = resolve));
    const typeDuringSend = async (request) => {
      if (request.url().includes("/execute")) {
        await page.keyboard.type("the next one");
        noteTyped();
      }
      request.continue();
    };
    await page.focus("aria/Prompt for sh");
    await page.keyboard.type("echo first");
    const stop = await intercept(page, typeDuringSend);
    await page.keyboard.press("Enter");
    await waitForAnswer(page, "first");
    await isTyped;
    await stop();
    const text = await page.$eval("aria/Prompt for sh", (field) => field.value);
    if (text !== "the next one") {
      throw new Error(`the text that was typed meanwhile is lost: ${JSON.stringify(text)}`);
    }
    await page.$eval("aria/Prompt for sh", (field) => (field.value = ""));
  },

  async "a prompt without a reply may have been sent"(page) {
    const abort = (request) => (request.url().includes("/execute") ? request.abort() : request.continue());
    const stop = await intercept(page, abort);
    await sendPrompt(page, "sh", "echo lost");
    await waitForText(page, "No reply from the server: the prompt may have been sent");
    await stop();
    await page.$eval("aria/Prompt for sh", (field) => (field.value = ""));
  },

  async "a lost connection is shown, and what happened meanwhile comes back"(page) {
    nerve("server", "stop", "--keep-nodes");
    await waitForText(page, "Connection lost. This is the state of \\d+ s ago");
    await page.screenshot({ path: join(folder, "lost-1280.png") });
    nerve("server", "start", "--http", new URL(link).port);
    nerve("new", "late", "-c", "bash --norc");
    await waitForText(page, "late\\s+ready");
    await page.waitForFunction(() => document.querySelector(".banner").hidden);
  },

  async "a node is stopped after a confirmation, with the keyboard"(page) {
    await page.type("aria/Filter nodes by name, state, folder or prompt", "late");
    await waitForText(page, "1 of \\d+ shown");
    await page.waitForFunction(() => document.querySelectorAll(".node").length === 1);
    await page.focus(".node .danger");
    await page.keyboard.press("Enter");
    await waitForText(page, "Stop late\\?");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await waitForText(page, "late\\s+stopped");
  },

  async "a browser is notified while its page is closed"(page) {
    const { origin } = new URL(link);
    await browser.defaultBrowserContext().overridePermissions(origin, ["notifications"]);
    // A mock: a real subscription needs the push service of the browser's vendor.
    await page.evaluate(() => {
      const keys = { p256dh: `B${"A".repeat(86)}`, auth: "A".repeat(22) };
      const toJSON = () => ({ endpoint: "https://push.invalid/send/1", keys });
      PushManager.prototype.subscribe = async (options) => ({ options, toJSON, unsubscribe: async () => true });
    });
    await page.click("aria/Notify this browser");
    await page.waitForSelector("aria/Stop notifications");
    const devtools = await page.createCDPSession();
    // A folder of screenshots keeps the browser's profile, with the registrations of earlier tests.
    const isOwn = ({ scopeURL }) => scopeURL.startsWith(origin);
    const registered = new Promise((resolve) => {
      devtools.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => registrations.filter(isOwn).forEach(resolve));
    });
    await devtools.send("ServiceWorker.enable");
    const { registrationId } = await registered;
    const data = JSON.stringify({ occasion: "blocked", text: "third is blocked", node_id: "third", session_id: "default" });
    const list = async () => {
      const registration = await navigator.serviceWorker.getRegistration("/web/");
      const shown = await registration.getNotifications();
      return shown.length > 0 && shown.map(({ title, data }) => `${title} ${data}`);
    };
    await page.goto("about:blank");
    await devtools.send("ServiceWorker.deliverPushMessage", { origin, registrationId, data });
    await page.goto(new URL("/web/", link).href);
    const shown = await (await page.waitForFunction(list)).jsonValue();
    if (shown.join() !== "third is blocked /web/#/node/default/third") {
      throw new Error(`notifications: ${JSON.stringify(shown)}`);
    }
    // While the page is visible, it is silent.
    await devtools.send("ServiceWorker.deliverPushMessage", { origin, registrationId, data: data.replace("is blocked", "waits") });
    await page.waitForFunction(async () => {
      const registration = await navigator.serviceWorker.getRegistration("/web/");
      const [newest] = await registration.getNotifications();
      return newest?.title === "third waits" && newest.silent;
    });
    // A tap leads to the node in the page that is open. A real tap would give it the focus, too.
    const target = await browser.waitForTarget((one) => one.type() === "service_worker" && one.url().startsWith(origin));
    const worker = await target.worker();
    await worker.evaluate(async () => {
      const [notification] = await registration.getNotifications();
      dispatchEvent(new NotificationEvent("notificationclick", { notification }));
    });
    await page.waitForFunction(() => location.hash === "#/node/default/third");
    await waitForText(page, "third\\s+ready");
  },

  async "a revoked session leads to the login"(page) {
    const { sessions } = JSON.parse(nerve("web", "sessions", "list", "--json"));
    const own = sessions.find(({ role }) => role === "full");
    nerve("web", "sessions", "revoke", own.web_session_id);
    await waitForText(page, "session of this browser has ended");
  },
};

await run(steps);
