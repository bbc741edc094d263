// The panel that explains why a node is in its state: the evidence and the screen.

import { describeError, explainNode } from "./api.js";
import { showScreen } from "./dialog_card.js";
import { element, showText } from "./dom.js";
import { LatestRequest } from "./latest_request.js";
import { isAway } from "./node_store.js";

/** Explains the state of one node while it is unfolded. */
export class EvidencePanel {
  #node = null;
  #request = new LatestRequest(() => explainNode(this.#node), {
    receive: ({ evidence, source, screen }) => this.#show(`${evidence} (${source})`, screen),
    fail: (error) => this.#show(`The state could not be read: ${describeError(error)}`, ""),
  });
  #evidence = element("p");
  #screen = element("pre", { class: "screen", tabIndex: 0, "aria-label": "Screen" });

  constructor() {
    const summary = element("summary", {}, "Why this state");
    this.element = element("details", { class: "evidence", hidden: true, ontoggle: () => this.#load() }, summary, this.#evidence, this.#screen);
  }

  /** Updates the panel for another description of the node. */
  update(node) {
    this.#node = node;
    // Nodes without a terminal have no evidence; a dialog shows the screen itself.
    const hasEvidence = node.progress.state_changed_at !== undefined;
    this.element.hidden = !hasEvidence || ["stopped", "blocked"].includes(node.state) || isAway(node.state);
    this.#load();
  }

  /** Ends all requests. */
  close() {
    this.element.open = false;
    this.#request.cancel();
  }

  #load() {
    this.#request.sendIf(this.element.open && !this.element.hidden);
  }

  #show(evidence, screen) {
    showText(this.#evidence, evidence);
    showScreen(this.#screen, screen);
  }
}
