// Why a node is in its state: the evidence and the screen.

import { explainNode } from "./api.js";
import { lastRows } from "./dialog_card.js";
import { element, showText } from "./dom.js";
import { RetryTimer } from "./retry.js";

/** Explains the state of one node while it is unfolded. */
export class EvidencePanel {
  #node = null;
  /** The number of the last request. Answers of earlier ones are discarded. */
  #request = 0;
  #retry = new RetryTimer(() => this.#load());
  #evidence = element("p");
  #screen = element("pre", { class: "screen", tabIndex: 0, "aria-label": "Screen" });

  constructor() {
    const summary = element("summary", {}, "Why this state");
    this.element = element("details", { class: "evidence", hidden: true, ontoggle: () => this.#load() }, summary, this.#evidence, this.#screen);
  }

  /** Explains another description of the node. */
  update(node) {
    this.#node = node;
    // Nodes without a terminal have no evidence; a dialog shows the screen itself.
    const hasEvidence = node.progress.state_changed_at !== undefined;
    this.element.hidden = !hasEvidence || ["stopped", "blocked", "gone"].includes(node.state);
    this.#load();
  }

  /** Ends all requests. */
  close() {
    this.element.open = false;
    this.#cancelLoad();
  }

  #cancelLoad() {
    this.#retry.cancel();
    this.#request += 1;
    return this.#request;
  }

  async #load() {
    const request = this.#cancelLoad();
    if (!this.element.open || this.element.hidden) {
      return;
    }
    try {
      const explained = await explainNode(this.#node);
      if (request === this.#request) {
        this.#retry.reset();
        showText(this.#evidence, `${explained.evidence} (${explained.source})`);
        showText(this.#screen, lastRows(explained.screen));
      }
    } catch (error) {
      if (request === this.#request) {
        showText(this.#evidence, error.text ?? error.message);
        this.#retry.fail(error);
      }
    }
  }
}
