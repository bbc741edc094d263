// The prompts that wait for their turn on a node.

import { cancelResult, describeError, describeFailure, listResults } from "./api.js";
import { ClickGuard } from "./click_guard.js";
import { announce, arrangeChildren, element, shorten, showText } from "./dom.js";
import { LatestRequest } from "./latest_request.js";

/** Characters of a prompt that are shown. */
const PROMPT_LENGTH = 300;

/** Shows the queue of one node while it has one, and cancels its prompts. */
export class QueueList {
  /** The rows of the queue by the ids of their results. Rows stay while their prompts wait, and keep the focus. */
  #rows = new Map();
  /** The ids of the results that are being cancelled. */
  #cancelling = new Set();
  #node = null;
  #canCancel;
  #request = new LatestRequest(() => listResults(this.#node), {
    receive: (results) => this.#show(results.filter(({ state }) => state === "queued").reverse()),
    fail: (error) => showText(this.#problem, `The queue could not be read: ${describeError(error)}`),
  });
  #summary = element("summary");
  #list = element("ol");
  #guard = new ClickGuard(this.#list);
  #others = element("p", { class: "note", hidden: true });
  #problem = element("p", { class: "note failed", role: "alert", hidden: true });

  constructor(canCancel) {
    this.#canCancel = canCancel;
    const properties = { class: "queue", hidden: true, ontoggle: () => this.#load() };
    this.element = element("details", properties, this.#summary, this.#list, this.#others, this.#problem);
  }

  /** Shows the queue of another description of the node. */
  update(node) {
    this.#node = node;
    const count = node.metadata.queued ?? 0;
    this.element.hidden = count === 0;
    showText(this.#summary, `${count} in the queue`);
    if (count === 0) {
      this.#show([]);
    }
    this.#load();
  }

  /** Ends all requests. */
  close() {
    this.#request.cancel();
    this.#guard.close();
  }

  /** Fetches the prompts if they are shown. */
  #load() {
    this.#request.sendIf(this.element.open && !this.element.hidden);
  }

  #show(results) {
    showText(this.#problem, "");
    this.#showRows(results);
    const others = (this.#node.metadata.queued ?? 0) - results.length;
    showText(this.#others, others > 0 ? `${others} of clients that wait for their answers, and cancel by themselves.` : "");
  }

  #showRows(results) {
    const previousRows = [...this.#list.children];
    const ids = new Set(results.map(({ result_id: id }) => id));
    for (const [id, row] of this.#rows) {
      if (!ids.has(id)) {
        this.#removeRow(id, row);
      }
    }
    arrangeChildren(this.#list, results.map((result) => this.#rows.get(result.result_id) ?? this.#createRow(result)));
    if ([...this.#list.children].some((row, index) => previousRows.includes(row) && previousRows[index] !== row)) {
      this.#guard.ignoreClicks();
    }
  }

  /** Removes a row. Its focus goes to the next row, else to the one before, else to the summary. */
  #removeRow(id, row) {
    const hasFocus = row.contains(document.activeElement);
    const next = row.nextElementSibling ?? row.previousElementSibling;
    this.#rows.delete(id);
    this.#cancelling.delete(id);
    row.remove();
    if (hasFocus) {
      (next?.querySelector("button") ?? this.#summary).focus();
    }
  }

  #createRow({ result_id: id, prompt }) {
    const shown = shorten(prompt, PROMPT_LENGTH);
    const text = element("bdi", {}, shown);
    const cancel = element("button", { type: "button", "aria-label": `Cancel ${shown}`, onclick: () => this.#click(id, cancel) }, "Cancel");
    const row = element("li", {}, text, ...(this.#canCancel ? [cancel] : []));
    this.#rows.set(id, row);
    return row;
  }

  #click(id, button) {
    if (this.#guard.isSteady && !this.#cancelling.has(id)) {
      this.#cancel(id, button);
    }
  }

  async #cancel(id, button) {
    this.#cancelling.add(id);
    // A disabled button would lose the focus.
    button.setAttribute("aria-disabled", "true");
    showText(this.#problem, "");
    try {
      await cancelResult(this.#node, id);
      announce("The prompt was cancelled");
    } catch (error) {
      this.#cancelling.delete(id);
      button.removeAttribute("aria-disabled");
      showText(this.#problem, describeFailure("Not cancelled", error, "the prompt may be cancelled. Check the queue."));
    }
  }
}
