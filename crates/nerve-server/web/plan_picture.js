// The plan of a run as a picture. Screen readers and the keyboard use the list of steps, which says the same.

import { element, svgElement } from "./dom.js";
import { BOX, layOut } from "./plan_layout.js";
import { stateText } from "./run_state.js";

/** Maximum number of steps for which a plan is drawn. */
const MAX_STEPS = 300;
/** Characters of a name that fit into a box. */
const NAME_LENGTH = 19;

function fitName(text) {
  const characters = [...text];
  return characters.length > NAME_LENGTH ? `${characters.slice(0, NAME_LENGTH - 1).join("")}…` : text;
}

/** Returns the path of an edge through places, from the right side of the first to the left side of the last. */
function edgePath(places) {
  const middle = ({ y }) => y + BOX.height / 2;
  const parts = places.slice(1).map((place, index) => {
    const start = { x: places[index].x + BOX.width, y: middle(places[index]) };
    const end = { x: place.x, y: middle(place) };
    const bend = (end.x - start.x) / 2;
    return `L${start.x},${start.y} C${start.x + bend},${start.y} ${end.x - bend},${end.y} ${end.x},${end.y}`;
  });
  return parts.join(" ").replace("L", "M");
}

/** Draws the steps as boxes in layers. A click on a box calls `onSelect` with the step's id. */
export class PlanPicture {
  #onSelect;
  #shown = null;
  #boxes = new Map();
  element = element("div", { class: "plan", hidden: true, "aria-hidden": "true" });

  constructor(onSelect) {
    this.#onSelect = onSelect;
  }

  /** Shows the steps of a plan. `states` has the states by the steps' ids. */
  update(plan, states) {
    const key = JSON.stringify(plan);
    if (key !== this.#shown) {
      this.#shown = key;
      this.#draw(plan);
    }
    for (const [id, { box, state }] of this.#boxes) {
      const current = states.get(id) ?? "planned";
      box.setAttribute("data-state", current);
      state.textContent = stateText(current);
    }
  }

  #draw(plan) {
    this.#boxes.clear();
    this.element.hidden = plan.length === 0 || plan.length > MAX_STEPS;
    if (this.element.hidden) {
      return;
    }
    const { places, edges, width, height } = layOut(plan);
    const paths = edges.map(({ from, via, to }) => svgElement("path", { class: "edge", d: edgePath([from, ...via, to].map((id) => places.get(id))) }));
    const boxes = plan.map((step) => this.#box(step, places.get(step.step_id)));
    this.element.replaceChildren(svgElement("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, ...paths, ...boxes));
  }

  #box(step, { x, y }) {
    const { width, height } = BOX;
    const line = (row, name, text) => svgElement("text", { class: name, x: 14, y: row }, text);
    const state = line(56, "step-state", "");
    const box = svgElement(
      "g",
      { class: "step-box", transform: `translate(${x} ${y})` },
      svgElement("title", {}, step.step_id),
      svgElement("rect", { width, height, rx: 8 }),
      svgElement("rect", { class: "stripe", y: 8, width: 5, height: height - 16 }),
      line(20, "step-name", fitName(step.step_id)),
      line(38, "step-node", fitName(step.node_id || "gate")),
      state,
    );
    box.addEventListener("click", () => this.#onSelect(step.step_id));
    this.#boxes.set(step.step_id, { box, state });
    return box;
  }
}
