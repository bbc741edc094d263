// The state of a node with its age, and its facts: agent, queue, folder, branch, tokens.

import { element, showText } from "./dom.js";
import { formatAge } from "./time.js";

const numbers = new Intl.NumberFormat("en");

/** Returns the tokens and the cost of a node for display. */
function usageText({ tokens, cost_usd: cost, has_unpriced: hasUnpriced }) {
  if (!tokens) {
    return "";
  }
  const price = typeof cost === "number" ? `, $${cost.toFixed(2)}${hasUnpriced ? "+" : ""}` : "";
  return `${numbers.format(tokens)} tokens${price}`;
}

/** Shows the state, its age and the facts of one node in elements that the caller arranges. */
export class NodeSummary {
  #node = null;
  state = element("span", { class: "state" });
  age = element("span", { class: "age" });
  facts = element("p", { class: "facts" });

  update(node) {
    this.#node = node;
    showText(this.state, node.state);
    this.updateAge();
    const { kind, metadata, progress } = node;
    const queued = metadata.queued ? `${metadata.queued} in the queue` : "";
    const reason = metadata.reason === node.state ? "" : metadata.reason;
    const texts = [metadata.profile ?? kind, queued, metadata.cwd, metadata.branch, usageText(progress), reason];
    const shown = texts.filter((text) => text).map((text) => element("bdi", {}, String(text)));
    this.facts.replaceChildren(...shown);
  }

  /** Shows how long the state has lasted. */
  updateAge() {
    // The beginning of 1970 stands for an unknown time.
    const since = Date.parse(this.#node?.progress.state_changed_at);
    showText(this.age, since > 0 ? formatAge(since) : "");
  }
}
