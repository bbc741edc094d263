// The prompts that wait for their turn on a node.

import { cancelResult, describeFailure, listResults } from "./api.js";
import { announce, element, showText } from "./dom.js";
import { RetryTimer } from "./retry.js";

/** Shows the queue of one node while it has one, and cancels its prompts. */
export class QueueList {
  #node = null;
  #canCancel;
  /** The number of the last request. Answers of earlier ones are discarded. */
  #request = 0;
  #retry = new RetryTimer(() => this.#load());
  #summary = element("summary");
  #list = element("ol");
  #others = element("p", { class: "note", hidden: true });
  #problem = element("p", { class: "note failed", role: "alert", hidden: true });

  constructor(canCancel) {
    this.#canCancel = canCancel;
    this.element = element("details", { class: "queue", hidden: true }, this.#summary, this.#list, this.#others, this.#problem);
  }

  /** Shows the queue of another description of the node. */
  update(node) {
    this.#node = node;
    const count = node.metadata.queued ?? 0;
    this.element.hidden = count === 0;
    showText(this.#summary, `${count} in the queue`);
    this.#load();
  }

  /** Ends all requests. */
  close() {
    this.#cancelLoad();
  }

  #cancelLoad() {
    this.#retry.cancel();
    this.#request += 1;
    return this.#request;
  }

  async #load() {
    const request = this.#cancelLoad();
    if (this.element.hidden) {
      return;
    }
    try {
      const results = await listResults(this.#node);
      if (request === this.#request) {
        this.#retry.reset();
        this.#show(results.filter(({ state }) => state === "queued").reverse());
      }
    } catch (error) {
      if (request === this.#request) {
        showText(this.#problem, `The queue could not be read: ${error.text ?? error.message}`);
        this.#retry.fail(error);
      }
    }
  }

  #show(results) {
    showText(this.#problem, "");
    this.#list.replaceChildren(...results.map((result) => this.#item(result)));
    const others = (this.#node.metadata.queued ?? 0) - results.length;
    showText(this.#others, others > 0 ? `${others} of clients that wait for their answers, and cancel by themselves.` : "");
  }

  #item({ result_id: id, prompt }) {
    const text = element("bdi", {}, prompt);
    const cancel = element("button", { type: "button", "aria-label": `Cancel ${prompt}`, onclick: () => this.#cancel(id, cancel) }, "Cancel");
    return element("li", {}, text, ...(this.#canCancel ? [cancel] : []));
  }

  async #cancel(id, button) {
    button.disabled = true;
    showText(this.#problem, "");
    try {
      await cancelResult(id);
      announce("The prompt was cancelled");
    } catch (error) {
      button.disabled = false;
      showText(this.#problem, describeFailure("Not cancelled", error, "the prompt may be cancelled. Check the queue."));
    }
  }
}
