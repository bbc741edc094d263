// The field for a prompt, and the progress of the prompt that was sent.

import { describeError, describeFailure, explainNode, getResult, sendPrompt } from "./api.js";
import { announce, element, hasOnlyFiles, showText, uniqueId } from "./dom.js";
import { longText } from "./long_text.js";
import { isAway } from "./node_store.js";
import { RetryTimer } from "./retry.js";

/** The states of a prompt in their order. */
const STEPS = ["queued", "typed", "submitted", "started", "done"];
const ENDED = ["done", "failed", "cancelled", "lost"];
/** Code of a key that an input method handles, such as the Enter that ends a composition. Safari sets only this. */
const INPUT_METHOD_KEY = 229;

/** Returns true for a key that an input method takes. */
function isComposing(event) {
  return event.isComposing || event.keyCode === INPUT_METHOD_KEY;
}

/** Sends prompts to one node. */
export class PromptForm {
  #node = null;
  #result = null;
  #reached = -1;
  #isChecking = false;
  #isOutdated = false;
  #isClosed = false;
  #retry = new RetryTimer(() => this.#result !== null && this.#check());
  #key;
  #drafts;
  #text;
  #row;
  #send = element("button", { type: "submit", class: "primary" }, "Send");
  #steps = STEPS.map((step) => element("li", {}, step));
  #delivery = element("ol", { class: "delivery", hidden: true, "aria-label": "Delivery of the prompt" }, ...this.#steps);
  #note = element("p", { class: "note failed", hidden: true });
  #answer = element("div", { class: "answer", hidden: true, tabIndex: 0, role: "group", "aria-label": "Answer" });
  #showsAnswer;

  /**
   * Creates the form. `titleId` is the id of the element that names the node. `drafts` keeps prompts that were typed and not
   * sent. Without `showsAnswer`, the answer is shown elsewhere.
   */
  constructor({ id: name, key }, titleId, drafts, showsAnswer = true) {
    this.#key = key;
    this.#drafts = drafts;
    this.#showsAnswer = showsAnswer;
    const id = uniqueId("prompt");
    const listeners = { onkeydown: (event) => this.#onKey(event), oninput: () => this.#keepDraft(), onpaste: (event) => this.#onPaste(event) };
    this.#text = element("textarea", { id, rows: 1, placeholder: "Prompt", ...listeners });
    this.showDraft();
    this.#send.setAttribute("aria-describedby", titleId);
    this.#row = element("div", { class: "row" }, this.#text, this.#send);
    this.element = element(
      "form",
      { class: "prompt", onsubmit: (event) => this.#submit(event) },
      element("label", { class: "visually-hidden", for: id }, `Prompt for ${name}`),
      this.#row,
      this.#delivery,
      this.#note,
      this.#answer,
    );
  }

  /** Shows what was typed for the node, also in another view. */
  showDraft() {
    this.#text.value = this.#drafts.get(this.#key);
  }

  /** Ends all requests about the prompt that was sent. */
  close() {
    this.#isClosed = true;
    this.#result = null;
    this.#retry.cancel();
  }

  /** Shows the form for a node that runs, and the progress of its prompt. */
  update(node) {
    this.#node = node;
    this.element.hidden = node.state === "stopped" || isAway(node.state);
    // A dialog has priority, and its buttons stand alone.
    this.#row.hidden = node.state === "blocked";
    if (this.#result !== null) {
      this.#check();
    }
  }

  #keepDraft() {
    this.#drafts.set(this.#key, this.#text.value);
  }

  #onKey(event) {
    const isSendKey = event.ctrlKey || event.metaKey || (!event.shiftKey && !matchMedia("(pointer: coarse)").matches);
    if (event.key === "Enter" && isSendKey && !isComposing(event)) {
      event.preventDefault();
      this.element.requestSubmit();
    }
  }

  #onPaste(event) {
    showText(this.#note, "");
    if (hasOnlyFiles(event)) {
      this.#fail("Only text can be pasted. Save the image where the node can read it, and name its path.");
    }
  }

  async #submit(event) {
    event.preventDefault();
    const text = this.#text.value;
    if (text.trim() === "" || this.#send.disabled) {
      return;
    }
    this.#send.disabled = true;
    // Another view must not offer it again.
    this.#drafts.delete(this.#key);
    // The end of the previous prompt must not count as the end of this one.
    this.#result = null;
    showText(this.#note, "");
    this.#showAnswer("");
    this.#delivery.hidden = false;
    this.#mark(-1);
    try {
      const result = await sendPrompt(this.#node, text);
      this.#result = this.#isClosed ? null : result;
      // More may have been typed meanwhile.
      if (this.#text.value.startsWith(text)) {
        this.#text.value = this.#text.value.slice(text.length);
      }
      this.#mark(0);
      if (this.#result !== null) {
        this.#check();
      }
    } catch (error) {
      this.#delivery.hidden = true;
      const uncertain = "the prompt may have been sent. Check the conversation before you send it again.";
      this.#fail(describeFailure("Not sent", error, uncertain));
    } finally {
      this.#send.disabled = false;
      if (!this.#isClosed || !this.#drafts.has(this.#key)) {
        this.#keepDraft();
      }
    }
  }

  /** Fetches the state of the prompt. An event that arrives meanwhile causes another fetch. */
  async #check() {
    if (this.#isChecking) {
      this.#isOutdated = true;
      return;
    }
    this.#isChecking = true;
    this.#retry.cancel();
    do {
      this.#isOutdated = false;
      const id = this.#result;
      await this.#fetchResult(id).catch((error) => id === this.#result && this.#handleFailure(error));
    } while (this.#isOutdated && this.#result !== null);
    this.#isChecking = false;
  }

  #handleFailure(error) {
    if (error.status === 404) {
      this.#result = null;
      this.#delivery.hidden = true;
      this.#fail("The server no longer knows the result of the prompt.");
      return;
    }
    showText(this.#note, `The result could not be read: ${describeError(error)}`);
    this.#retry.fail(error);
  }

  async #fetchResult(id) {
    const result = await getResult(this.#node, id);
    if (id !== this.#result) {
      return;
    }
    if (this.#retry.hasFailed) {
      this.#retry.reset();
      showText(this.#note, "");
    }
    if (ENDED.includes(result.state)) {
      this.#finish(result);
    } else if (result.state === "running") {
      const delivery = await this.#getDelivery();
      if (id === this.#result) {
        this.#mark(Math.max(0, STEPS.indexOf(delivery)));
      }
    }
  }

  /** Returns the progress of the running turn's prompt; undefined for a node without a terminal. */
  async #getDelivery() {
    try {
      return (await explainNode(this.#node)).turn?.delivery;
    } catch (error) {
      if (error.status === 400) {
        return undefined;
      }
      throw error;
    }
  }

  #finish(result) {
    this.#result = null;
    if (result.state === "done") {
      this.#mark(STEPS.indexOf("done"));
      this.#showAnswer(this.#showsAnswer ? (result.response?.text ?? "") : "");
      announce(`${this.#node.id}: the prompt is done`);
    } else {
      this.#fail(`The prompt ${result.state === "lost" ? "is lost" : `was ${result.state}`}${result.error ? `: ${result.error}` : ""}`);
    }
  }

  #showAnswer(text) {
    this.#answer.replaceChildren(...(text === "" ? [] : [longText(text)]));
    this.#answer.hidden = text === "";
  }

  #mark(reached) {
    this.#reached = reached < 0 ? -1 : Math.max(this.#reached, reached);
    this.#steps.forEach((step, index) => {
      step.classList.toggle("reached", index <= this.#reached);
      step.setAttribute("aria-current", index === this.#reached ? "step" : "false");
    });
  }

  #fail(text) {
    showText(this.#note, text);
    announce(text);
  }
}
