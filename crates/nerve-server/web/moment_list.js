// The moments of a recording: its turns, snapshots, dialogs and damaged parts.

import { element, shorten } from "./dom.js";
import { formatPosition } from "./time.js";

/** Characters of a prompt in a list. */
const PROMPT_LENGTH = 100;

/** Returns the moments of a recording in the order of their times: each has a `kind`, its time `at`, a `label` and its `data`. */
export function listMoments({ turns, snapshots, dialogs, damage }) {
  const line = (text) => shorten(text.trim().split("\n", 1)[0], PROMPT_LENGTH);
  const moments = [
    ...turns.map((turn) => ({ kind: "turn", at: turn.at_ms, label: `Turn ${turn.turn}: ${line(turn.prompt)}`, data: turn })),
    ...snapshots.map((one) => ({ kind: "snapshot", at: one.at_ms, label: `Snapshot ${one.snapshot_id}${one.label ? `: ${one.label}` : ""}`, data: one })),
    ...dialogs.map((one) => ({ kind: "dialog", at: one.at_ms, label: `Dialog '${one.dialog}' ${one.choice === null ? "closed" : `answered: ${one.choice}`}`, data: one })),
    ...damage.map((one) => ({ kind: "damage", at: one.at_ms ?? 0, label: `Damaged: ${one.missing ?? "unknown"} bytes of output missing`, data: one })),
  ];
  return moments.sort((one, other) => one.at - other.at);
}

/** Lists moments. Calls `select` with the one that is clicked. */
export class MomentList {
  #select;
  #items = element("ol", { class: "timeline-moments" });
  #count = element("summary");

  constructor(select) {
    this.#select = select;
    this.element = element("details", { class: "timeline-list", hidden: true }, this.#count, this.#items);
  }

  /** Shows other moments. The focus stays at its place in the list. */
  update(moments) {
    const focused = [...this.#items.children].findIndex((item) => item.contains(document.activeElement));
    const items = moments.map((moment) => {
      const button = element("button", { type: "button", class: "timeline-moment", onclick: () => this.#select(moment) });
      button.append(element("span", { class: "timeline-time" }, formatPosition(moment.at)), " ", element("span", {}, moment.label));
      return element("li", {}, button);
    });
    this.#items.replaceChildren(...items);
    items[focused]?.firstChild.focus({ preventScroll: true });
    this.#count.textContent = `Moments (${items.length})`;
    this.element.hidden = items.length === 0;
  }
}
