// The user's other machines: how many nodes each has, or why it cannot be reached.

import { describeUnreachable } from "./combined_node_store.js";
import { arrangeChildren, element, showText } from "./dom.js";

/** Returns what the row of a machine says. */
function describe(machine) {
  const { name, isReachable, hasFailed, count } = machine;
  if (isReachable === false) {
    return describeUnreachable(machine);
  }
  const nodes = `${name}: ${count} ${count === 1 ? "node" : "nodes"}`;
  const description = hasFailed ? `${nodes}, but they could not be read: what you see may be old` : nodes;
  return isReachable === null ? `Connecting to ${name}…` : description;
}

/** Shows one row for each machine. */
export class MachineList {
  #rows = new Map();
  #machines = [];
  #problem = element("li", { class: "failed", role: "status" }, element("bdi"));
  element = element("ul", { class: "machines", "aria-label": "Other machines", hidden: true });

  /** Shows these machines, and why the list of them could not be read: an empty text if it could. */
  update(machines, problem) {
    this.#machines = machines;
    this.element.hidden = machines.length === 0 && problem === "";
    showText(this.#problem.firstChild, problem);
    const rows = new Map(machines.map(({ name }) => [name, this.#rows.get(name) ?? element("li", {}, element("bdi"))]));
    this.#rows = rows;
    arrangeChildren(this.element, [...rows.values(), ...(problem === "" ? [] : [this.#problem])]);
    this.updateAges();
  }

  /** Shows how long ago the last contact was. */
  updateAges() {
    for (const machine of this.#machines) {
      const row = this.#rows.get(machine.name);
      row.dataset.reachable = String(machine.isReachable);
      showText(row.firstChild, describe(machine));
    }
  }
}
