// The terminal of a node: live output, keys, and how old the output is.

import { describeFailure, resizeTerminal } from "./api.js";
import { confirmAction, confirmLink } from "./confirmation.js";
import { element, showText } from "./dom.js";
import { KeyRow } from "./key_row.js";
import { TerminalConnection } from "./terminal_connection.js";
import { TerminalScreen } from "./terminal_screen.js";
import { formatAge } from "./time.js";

/** Interval in which ages are updated, in milliseconds. */
const AGE_INTERVAL = 1000;

/** States of a node without a program. */
const ENDED = ["stopped", "gone"];

/** Time after which Enter follows a text that the program does not echo, in milliseconds. */
const ECHO_LIMIT = 300;

/** Shows the terminal of a node. The program keeps its size unless a person resizes it; the font follows the width of the page. */
export class TerminalTab {
  #node;
  #canType;
  #connection;
  #screen = null;
  #isShown = false;
  #endReason = null;
  #timer = null;
  /** Types the pending Enter of the last line; null if none is pending. */
  #endLine = null;
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
    const resize = element("button", { type: "button", hidden: !this.#canType, onclick: () => this.#resizeProgram() }, "Resize");
    this.view = element("div", { class: "terminal-view" }, this.#host);
    this.element = element(
      "section",
      { class: "terminal-tab", "aria-label": `Terminal of ${node.id}` },
      this.#banner,
      element("p", { class: "terminal-tools" }, this.#size, zoom("A−", "A−: smaller text", -1), zoom("Fit", "Fit the width", 0), zoom("A+", "A+: larger text", 1), resize),
      this.view,
      this.#note,
      this.#canType ? this.#keys.element : element("p", { class: "note" }, "This browser may only look."),
    );
    this.#listen();
  }

  /** Connects, and shows what was written meanwhile. */
  show() {
    this.#isShown = true;
    this.element.hidden = false;
    // While the server answers, the emulator is prepared.
    this.#open();
    this.#screen ??= this.#createScreen();
    this.#screen.focus();
    // This also chooses the font.
    this.#resizes.observe(this.view);
    this.#timer ??= setInterval(() => this.#showState(), AGE_INTERVAL);
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
  }

  /** Updates the tab for a description of the node. Shows a node that was started again, or that did not exist before. */
  update(node) {
    const before = this.#node;
    this.#node = node;
    const hasBegun = (before.state === undefined || ENDED.includes(before.state)) && !ENDED.includes(node.state);
    if (hasBegun && this.#isShown) {
      this.#open();
    }
  }

  #open() {
    this.#endReason = null;
    this.#connection.open();
    this.#showState();
  }

  #createScreen() {
    const type = this.#canType ? (keys) => this.#type(typeof keys === "string" ? this.#keys.withControl(keys) : keys) : null;
    const refusePaste = () => this.#refuse("only text can be pasted. Save the image where the program can read it, and name its path.");
    const { cols, rows } = this.#node.metadata ?? {};
    return new TerminalScreen(this.#host, { type, openLink: confirmLink, leave: () => this.#leave(), refusePaste, cols, rows });
  }

  /** Resizes the program to the page, after a confirmation: others look at the same terminal. */
  async #resizeProgram() {
    const { cols, rows } = this.#screen.fittingSize();
    const question = `Resize the program to ${cols} × ${rows}, the size of this page? It changes for everyone who looks at it.`;
    if (await confirmAction(question, "Resize it", "Keep its size")) {
      showText(this.#note, "");
      await resizeTerminal(this.#node, cols, rows).catch((error) => {
        showText(this.#note, describeFailure("Not resized", error, "the program may have been resized."));
      });
    }
  }

  /** Moves the focus to the tab, because the program gets the Tab key. */
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
    listen("refused", (message) => this.#refuse(message));
    listen("end", (reason) => {
      this.#endReason = reason;
      this.#showState();
    });
  }

  #refuse(reason) {
    showText(this.#note, `Not typed: ${reason}`);
  }

  /** Types keys. Returns false if they were not sent. */
  #type(keys) {
    // The keys belong to the next line, so a pending Enter comes first.
    this.#endLine?.();
    return this.#send(keys);
  }

  #send(keys) {
    showText(this.#note, "");
    const isSent = this.#connection.sendKeys(keys);
    if (isSent) {
      this.#screen?.revealCursor();
    } else {
      this.#refuse("there is no connection");
    }
    return isSent;
  }

  /** Types a text, and Enter after its echo: agents take Enter in the same write as a part of a paste. Returns false if not sent. */
  #typeLine(text) {
    const isSent = this.#type(text);
    if (isSent) {
      const enter = () => {
        this.#endLine = null;
        clearTimeout(timer);
        this.#connection.removeEventListener("output", enter);
        this.#send("\r");
      };
      const timer = setTimeout(enter, ECHO_LIMIT);
      this.#connection.addEventListener("output", enter);
      this.#endLine = enter;
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
      showText(this.#banner, `Connection lost. This is the terminal of ${formatAge(lastLive, Date.now())} ago. Connecting…`);
    }
  }
}
