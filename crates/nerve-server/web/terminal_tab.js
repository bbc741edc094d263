// The terminal of a node: live output, keys, and how old the output is.

import { element, showText, uniqueId } from "./dom.js";
import { KeyRow } from "./key_row.js";
import { TerminalConnection } from "./terminal_connection.js";
import { formatAge } from "./time.js";

/** Interval in which ages are updated, in milliseconds. */
const AGE_INTERVAL = 1000;

/** States of a node without a program. */
const ENDED = ["stopped", "gone"];

/** Time after which Enter follows a text that the program does not echo, in milliseconds. */
const ECHO_LIMIT = 300;

/** Asks before a link of a program is opened: its text can differ from its target. */
function confirmLink(target) {
  if (!/^https?:\/\//i.test(target)) {
    return;
  }
  const cancel = element("button", { type: "button", onclick: () => box.close() }, "Cancel");
  const open = element("a", { class: "button", href: target, target: "_blank", rel: "noopener noreferrer", onclick: () => box.close() }, "Open");
  const title = element("p", { id: uniqueId("link") }, "Open this link of the program?");
  const box = element("dialog", { class: "confirm", "aria-labelledby": title.id, onclose: () => box.remove() });
  box.append(title, element("p", {}, element("code", {}, target)), element("p", { class: "actions" }, cancel, open));
  document.body.append(box);
  box.showModal();
  cancel.focus();
}

/** Shows the terminal of a node. The program keeps its size; the font follows the width of the page. */
export class TerminalTab {
  #node;
  #canType;
  #connection;
  #screen = null;
  #loading = null;
  #isShown = false;
  #endReason = null;
  #timer = null;
  #banner = element("p", { class: "banner", role: "status", hidden: true });
  #note = element("p", { class: "note failed", role: "status", hidden: true });
  #size = element("span", { class: "age" });
  #host = element("div", { class: "terminal-host" });
  #keys = new KeyRow((keys) => this.#type(keys), (text) => this.#typeLine(text), () => this.#screen?.hasApplicationKeys ?? false);
  #resizes = new ResizeObserver(() => this.#screen?.fit());

  constructor(node, role) {
    this.#node = node;
    this.#canType = role === "full";
    this.#connection = new TerminalConnection(node);
    const zoom = (label, name, steps) =>
      element("button", { type: "button", "aria-label": name, onclick: () => this.#screen?.zoom(steps) }, label);
    this.view = element("div", { class: "terminal-view" }, this.#host);
    this.element = element(
      "section",
      { class: "terminal-tab", "aria-label": `Terminal of ${node.id}` },
      this.#banner,
      element("p", { class: "terminal-tools" }, this.#size, zoom("A−", "A−: smaller text", -1), zoom("Fit", "Fit the width", 0), zoom("A+", "A+: larger text", 1)),
      this.view,
      this.#note,
      this.#canType ? this.#keys.element : element("p", { class: "note" }, "This browser may only look."),
    );
    this.#listen();
  }

  /** Connects, and shows what was written meanwhile. */
  async show() {
    this.#isShown = true;
    this.element.hidden = false;
    try {
      await this.#load();
    } catch {
      showText(this.#banner, "The terminal could not be loaded. Show it again to try again.");
      return;
    }
    if (this.#isShown) {
      this.#resizes.observe(this.view);
      this.#timer ??= setInterval(() => this.#showState(), AGE_INTERVAL);
      this.#open();
      this.#screen.fit();
      this.#screen.focus();
    }
  }

  /** Disconnects. What is shown stays. */
  hide() {
    this.#isShown = false;
    this.element.hidden = true;
    this.#resizes.disconnect();
    clearInterval(this.#timer);
    this.#timer = null;
    this.#connection.close();
  }

  /** Ends the tab. */
  close() {
    this.hide();
    this.#screen?.dispose();
    this.#screen = null;
    this.element.remove();
  }

  /** Takes the current description of the node. A node that was started again is shown again. */
  update(node) {
    const before = this.#node;
    this.#node = node;
    if (ENDED.includes(before.state) && !ENDED.includes(node.state) && this.#isShown && this.#screen !== null) {
      this.#open();
    }
  }

  #open() {
    this.#endReason = null;
    this.#connection.open();
    this.#showState();
  }

  /** Loads the emulator once. */
  #load() {
    this.#loading ??= this.#createScreen().catch((error) => {
      this.#loading = null;
      throw error;
    });
    return this.#loading;
  }

  async #createScreen() {
    const { TerminalScreen } = await import("./terminal_screen.js");
    const type = this.#canType ? (keys) => this.#type(typeof keys === "string" ? this.#keys.withControl(keys) : keys) : null;
    this.#screen = new TerminalScreen(this.#host, { type, openLink: confirmLink, leave: () => this.#leave() });
  }

  /** Moves the focus to the tab: the program gets the Tab key. */
  #leave() {
    const tab = this.element.closest("[role=tabpanel]")?.getAttribute("aria-labelledby");
    document.getElementById(tab)?.focus();
  }

  #listen() {
    const listen = (name, listener) => this.#connection.addEventListener(name, ({ detail }) => listener(detail));
    listen("state", () => this.#showState());
    listen("dump", ({ cols, rows }) => {
      this.#screen?.reset(cols, rows);
      this.#showSize(cols, rows);
    });
    for (const name of ["resume", "resize"]) {
      listen(name, ({ cols, rows }) => {
        this.#screen?.resize(cols, rows);
        this.#showSize(cols, rows);
      });
    }
    listen("output", ({ bytes, end }) => this.#screen?.write(bytes, () => this.#connection.acknowledge(end)));
    listen("refused", (message) => showText(this.#note, `Not typed: ${message}`));
    listen("end", (reason) => {
      this.#endReason = reason;
      this.#showState();
    });
  }

  /** Types keys. Returns false if they were not sent. */
  #type(keys) {
    showText(this.#note, "");
    const isSent = this.#connection.sendKeys(keys);
    if (!isSent) {
      showText(this.#note, "Not typed: there is no connection");
    }
    return isSent;
  }

  /** Types a text, and Enter after its echo: agents take Enter in the same write as a part of a paste. Returns false if not sent. */
  #typeLine(text) {
    const isSent = this.#type(text);
    if (isSent) {
      const enter = () => {
        clearTimeout(timer);
        this.#connection.removeEventListener("output", enter);
        this.#type("\r");
      };
      const timer = setTimeout(enter, ECHO_LIMIT);
      this.#connection.addEventListener("output", enter);
    }
    return isSent;
  }

  #showSize(cols, rows) {
    showText(this.#size, `${cols} × ${rows}`);
  }

  #showState() {
    const { isLive, lastLive } = this.#connection;
    if (this.#endReason !== null) {
      showText(this.#banner, `The program has ended: ${this.#endReason}`);
    } else if (isLive) {
      showText(this.#banner, "");
    } else if (lastLive === null) {
      showText(this.#banner, "Connecting…");
    } else {
      showText(this.#banner, `Connection lost. This is the terminal of ${formatAge(lastLive)} ago. Connecting…`);
    }
  }
}
