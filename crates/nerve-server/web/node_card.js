// One node: its state with the evidence, what it works on, its dialog and its prompt.

import { DialogCard } from "./dialog_card.js";
import { element, showText, uniqueId } from "./dom.js";
import { EvidencePanel } from "./evidence_panel.js";
import { NodeActions } from "./node_actions.js";
import { placeOf } from "./node_store.js";
import { NodeSummary } from "./node_summary.js";
import { PromptForm } from "./prompt_form.js";
import { nodeHref } from "./route.js";

function lineOf(label) {
  const text = element("bdi");
  return { text, row: element("p", { class: "line", hidden: true }, element("span", { class: "label" }, `${label}: `), text) };
}

/** Shows one node. Its elements stay, so that focus and typed text survive changes. */
export class NodeCard {
  node = null;
  #summary = new NodeSummary();
  #prompt = lineOf("Prompt");
  #answer = lineOf("Answer");
  #evidence = new EvidencePanel();
  #actions;

  constructor(node, role, drafts) {
    const title = element("h2", { id: uniqueId("node") }, element("a", { href: nodeHref(node) }, element("bdi", {}, node.id)));
    const place = placeOf(node);
    const session = place === "" ? [] : [element("span", { class: "session" }, place)];
    this.dialog = new DialogCard(role !== "view", title.id);
    this.form = role === "full" ? new PromptForm(node, title.id, drafts) : null;
    this.#actions = role === "full" ? new NodeActions(node.id) : null;
    this.element = element(
      "li",
      { class: "node", "aria-labelledby": title.id },
      element("header", {}, title, ...session, this.#summary.state, this.#summary.age),
      this.#summary.facts,
      this.#prompt.row,
      this.#answer.row,
      this.dialog.element,
      this.#evidence.element,
      ...[this.form, this.#actions].filter((part) => part !== null).map((part) => part.element),
    );
  }

  /** Ends all requests. */
  close() {
    this.#evidence.close();
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
    this.#evidence.update(node);
    this.#actions?.update(node);
    this.dialog.update(node);
    this.form?.update(node);
  }

  /** Shows how long the state has lasted. */
  updateAge() {
    this.#summary.updateAge();
  }

  #showLine(line, text) {
    showText(line.text, text);
    line.row.hidden = line.text.hidden;
  }
}
