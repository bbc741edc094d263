// One node: its state with the evidence, what it works on, its dialog and its prompt.

import { describeFailure, explainNode, stopNode } from "./api.js";
import { confirmAction } from "./confirmation.js";
import { DialogCard, lastRows } from "./dialog_card.js";
import { element, showText, uniqueId } from "./dom.js";
import { NodeSummary } from "./node_summary.js";
import { PromptForm } from "./prompt_form.js";
import { isFinal, retryDelay } from "./retry.js";
import { nodeHref } from "./route.js";

function lineOf(label) {
  const text = element("bdi");
  return { text, row: element("p", { class: "line", hidden: true }, element("span", { class: "label" }, `${label}: `), text) };
}

/** Shows one node. Its elements stay, so that focus and typed text survive changes. */
export class NodeCard {
  node = null;
  /** The number of the last request for evidence. Answers of earlier ones are discarded. */
  #request = 0;
  #failures = 0;
  #retry = null;
  #summary = new NodeSummary();
  #prompt = lineOf("Prompt");
  #answer = lineOf("Answer");
  #why = element("p");
  #screen = element("pre", { class: "screen", tabIndex: 0, "aria-label": "Screen" });
  #details = element("details", { ontoggle: () => this.#explain() }, element("summary", {}, "Why this state"), this.#why, this.#screen);
  #problem = element("p", { class: "note failed", hidden: true });
  #stop = element("button", { type: "button", class: "danger", onclick: () => this.#confirmStop() }, "Stop");
  #actions = element("p", { class: "actions" }, this.#stop);

  constructor(node, role, drafts) {
    const title = element("h2", { id: uniqueId("node") }, element("a", { href: nodeHref(node) }, element("bdi", {}, node.id)));
    const session = node.session === "default" ? [] : [element("span", { class: "session" }, node.session)];
    this.dialog = new DialogCard(role !== "view", title.id);
    this.form = role === "full" ? new PromptForm(node, title.id, drafts) : null;
    this.#stop.setAttribute("aria-label", `Stop ${node.id}`);
    this.#actions.hidden = role !== "full";
    this.element = element(
      "li",
      { class: "node", "aria-labelledby": title.id },
      element("header", {}, title, ...session, this.#summary.state, this.#summary.age),
      this.#summary.facts,
      this.#prompt.row,
      this.#answer.row,
      this.dialog.element,
      this.#details,
      ...(this.form === null ? [] : [this.form.element]),
      this.#problem,
      this.#actions,
    );
  }

  /** Ends all requests. */
  close() {
    clearTimeout(this.#retry);
    this.#request += 1;
    this.#details.open = false;
    this.dialog.close();
    this.form?.close();
  }

  /** Shows a description of the node, if it is another one. */
  update(node) {
    if (node === this.node) {
      return;
    }
    this.node = node;
    this.element.dataset.state = node.state;
    this.#summary.update(node);
    this.#showLine(this.#prompt, node.progress.last_prompt);
    this.#showLine(this.#answer, node.state === "blocked" ? "" : node.progress.last_line);
    // Nodes without a terminal have no evidence; a dialog shows the screen itself.
    const hasEvidence = node.progress.state_changed_at !== undefined;
    this.#details.hidden = !hasEvidence || node.state === "stopped" || node.state === "blocked";
    this.#stop.hidden = node.state === "stopped";
    this.dialog.update(node);
    this.form?.update(node);
    this.#explain();
  }

  /** Shows how long the state has lasted. */
  updateAge() {
    this.#summary.updateAge();
  }

  #showLine(line, text) {
    showText(line.text, text);
    line.row.hidden = line.text.hidden;
  }

  /** Fetches the evidence while it is shown. */
  async #explain() {
    clearTimeout(this.#retry);
    this.#request += 1;
    const request = this.#request;
    if (!this.#details.open || this.#details.hidden) {
      return;
    }
    try {
      const explained = await explainNode(this.node);
      if (request !== this.#request) {
        return;
      }
      this.#failures = 0;
      showText(this.#why, `${explained.evidence} (${explained.source})`);
      showText(this.#screen, lastRows(explained.screen));
    } catch (error) {
      if (request === this.#request) {
        showText(this.#why, error.text ?? error.message);
        if (!isFinal(error)) {
          this.#retry = setTimeout(() => this.#explain(), retryDelay(this.#failures));
        }
        this.#failures += 1;
      }
    }
  }

  async #confirmStop() {
    const { id } = this.node;
    const question = `Stop ${id}? Its program ends; an agent can resume its conversation later.`;
    if (!(await confirmAction(question, `Stop ${id}`, "Keep it"))) {
      return;
    }
    showText(this.#problem, "");
    try {
      await stopNode(this.node);
    } catch (error) {
      showText(this.#problem, describeFailure("Not stopped", error, "the node may be stopping. Check its state."));
    }
  }
}
