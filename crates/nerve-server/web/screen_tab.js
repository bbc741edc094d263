// The screen of a node of another machine, as text, and keys for its program.

import { describeError, describeFailure, explainNode, writeKeys } from "./api.js";
import { showScreen } from "./dialog_card.js";
import { element, showText } from "./dom.js";
import { KeyRow } from "./key_row.js";
import { LatestRequest } from "./latest_request.js";
import { isAway } from "./node_store.js";

/** Time after a reply until the screen is read again, and after keys were typed, in milliseconds. */
const INTERVAL = 1000;
const AFTER_KEYS = 150;
/** Time after which Enter follows a text, in milliseconds: agents take Enter in the same write as a part of a paste. */
const ENTER_DELAY = 300;

function wait(time) {
  return new Promise((resolve) => setTimeout(resolve, time));
}

/** Reads the screen again and again while it is looked at. */
export class ScreenTab {
  #node;
  #isShown = false;
  #timer = null;
  /** Resolves when all keys so far were typed, to false if one write failed. The writes after it are dropped. */
  #typed = Promise.resolve(true);
  #screen = element("pre", { class: "screen", tabIndex: 0, "aria-label": "Screen" });
  #problem = element("p", { class: "note failed", role: "status", hidden: true });
  /** Why keys were not typed. Stays until others are typed. */
  #typingProblem = element("p", { class: "note failed", role: "alert", hidden: true });
  #request = new LatestRequest(() => explainNode(this.#node), {
    receive: ({ screen }) => this.#show(screen),
    fail: (error) => showText(this.#problem, `The screen could not be read: ${describeError(error)}`),
  });
  #handleVisibility = () => this.#read();

  constructor(node, role) {
    this.#node = node;
    const address = `${node.machine}/${node.session}/${node.id}`;
    const about = `The screen of ${node.machine} as text, read every second. 'nerve attach ${address}' opens the terminal itself.`;
    const keys = new KeyRow((text) => this.#type(text), (text) => this.#typeLine(text), () => false);
    this.element = element(
      "section",
      { class: "screen-tab", "aria-label": `Screen of ${node.id}` },
      element("p", { class: "note" }, about),
      this.#screen,
      this.#problem,
      this.#typingProblem,
      role === "full" ? keys.element : element("p", { class: "note" }, "This browser may only look."),
    );
  }

  show() {
    this.#isShown = true;
    document.addEventListener("visibilitychange", this.#handleVisibility);
    this.#read();
  }

  hide() {
    this.#isShown = false;
    document.removeEventListener("visibilitychange", this.#handleVisibility);
    this.#read();
  }

  close() {
    this.hide();
  }

  update(node) {
    this.#node = node;
    this.#read();
  }

  /** Reads the screen now if it is looked at. */
  #read() {
    clearTimeout(this.#timer);
    this.#request.sendIf(this.#isShown && !document.hidden && !isAway(this.#node.state));
  }

  #show(screen) {
    showText(this.#problem, "");
    showScreen(this.#screen, screen);
    this.#readLater(INTERVAL);
  }

  #readLater(delay) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#read(), delay);
  }

  /** Types keys after those that are on their way. Returns true: a failure is reported later. */
  #type(keys) {
    this.#append(() => this.#write(keys));
    return true;
  }

  /** Types a text, and Enter only if the text was typed: otherwise Enter would confirm what is on the screen. */
  #typeLine(text) {
    this.#append(async () => {
      const isTyped = await this.#write(text);
      if (isTyped) {
        await wait(ENTER_DELAY);
      }
      return isTyped && this.#write("\r");
    });
    return true;
  }

  /** Runs a write after those that are on their way, unless one of them fails. */
  #append(write) {
    const typed = this.#typed.then((isTyped) => isTyped && write());
    this.#typed = typed;
    typed.then(() => {
      // Keys that are typed later are not behind the failed ones.
      if (this.#typed === typed) {
        this.#typed = Promise.resolve(true);
      }
    });
  }

  /** Returns false if the keys could not be typed. */
  async #write(keys) {
    try {
      await writeKeys(this.#node, keys);
    } catch (error) {
      showText(this.#typingProblem, describeFailure("Not typed", error, "the keys may have been typed. Check the screen before you type again."));
      return false;
    }
    showText(this.#typingProblem, "");
    this.#readLater(AFTER_KEYS);
    return true;
  }
}
