// The buttons that start, restart and stop a node.

import { describeFailure, startNode, stopNode } from "./api.js";
import { confirmAction } from "./confirmation.js";
import { element, showText } from "./dom.js";
import { isAway } from "./node_store.js";

const UNCERTAIN = "the request may have been executed. Check the state of the node.";

/** Starts, restarts and stops one node. Reports failures. */
export class NodeActions {
  #node = null;
  #isBusy = false;
  #start;
  #restart;
  #stop;
  #problem = element("p", { class: "note failed", role: "alert", hidden: true });

  /** Creates the buttons for the node with this id. */
  constructor(id) {
    const button = (label, name, onclick) => element("button", { type: "button", class: name, hidden: true, "aria-label": `${label} ${id}`, onclick }, label);
    this.#start = button("Start", "", () => this.#doStart());
    this.#restart = button("Restart", "", () => this.#doRestart());
    this.#stop = button("Stop", "danger", () => this.#doStop());
    this.element = element("div", { class: "node-actions" }, this.#problem, element("p", { class: "actions" }, this.#start, this.#restart, this.#stop));
  }

  /** Shows the buttons for a description of the node. */
  update(node) {
    this.#node = node;
    this.#showButtons();
  }

  #showButtons() {
    const isStopped = this.#node.state === "stopped";
    const isEnding = this.#node.state === "stopping" || isAway(this.#node.state);
    this.#start.hidden = !isStopped;
    this.#restart.hidden = isStopped || isEnding;
    this.#stop.hidden = isStopped || isEnding;
    for (const button of [this.#start, this.#restart, this.#stop]) {
      button.disabled = this.#isBusy;
    }
  }

  #doStart() {
    return this.#act("Not started", () => startNode(this.#node));
  }

  async #doRestart() {
    const node = this.#node;
    const question = `Restart ${node.id}? Its program ends and is started again; an agent resumes its conversation.`;
    if (await confirmAction(question, `Restart ${node.id}`, "Keep it running")) {
      await this.#act("Not restarted", async () => {
        await stopNode(node);
        await startNode(node);
      });
    }
  }

  async #doStop() {
    const node = this.#node;
    const question = `Stop ${node.id}? Its program ends; an agent can resume its conversation later.`;
    if (await confirmAction(question, `Stop ${node.id}`, "Keep it")) {
      await this.#act("Not stopped", () => stopNode(node));
    }
  }

  async #act(failure, action) {
    showText(this.#problem, "");
    this.#isBusy = true;
    this.#showButtons();
    try {
      await action();
    } catch (error) {
      showText(this.#problem, describeFailure(failure, error, UNCERTAIN));
    } finally {
      this.#isBusy = false;
      this.#showButtons();
    }
  }
}
