// The steps of a run as a list. A click on a step opens its details.

import { describeError, getStepResult } from "./api.js";
import { arrangeChildren, element, showText, uniqueId } from "./dom.js";
import { longText } from "./long_text.js";
import { nodeHref } from "./route.js";
import { stateText } from "./run_state.js";
import { formatDuration, formatTime, serverNow } from "./time.js";

/** Items, rounds and inner steps that are listed for one step: the latest ones. */
const MAX_INNER = 100;

const numbers = new Intl.NumberFormat("en");

/** Returns a result for display. */
function resultText(result) {
  if (typeof result === "string") {
    return result;
  }
  return typeof result?.text === "string" ? result.text : JSON.stringify(result, null, 2);
}

/** Returns how long a step took, or has been running. */
function durationText({ started_at: started, ended_at: ended }) {
  return started ? formatDuration((ended ? Date.parse(ended) : serverNow()) - Date.parse(started)) : "";
}

/** Returns the id of the step of the graph itself that contains the step of a path: an item, a round or an inner step. */
function outerId(path) {
  return path.split(/[/[#]/, 1)[0];
}

/** Returns the steps in the order of the list. Without a plan, these are the started ones. */
function listSteps(plan, steps) {
  const outer = new Map(plan.map((step) => [step.step_id, { ...step, state: "planned" }]));
  const inner = new Map();
  for (const step of steps) {
    const id = outerId(step.step_id);
    if (id === step.step_id) {
      outer.set(id, step);
    } else {
      inner.set(id, [...(inner.get(id) ?? []).slice(1 - MAX_INNER), step]);
    }
  }
  return [...outer].flatMap(([id, step]) => [
    { step, isNested: false },
    ...(inner.get(id) ?? []).map((one) => ({ step: one, isNested: true })),
  ]);
}

/** One step: a button with its state, and its details below. */
class StepRow {
  #run;
  #findNode;
  #step = null;
  #resultOf = null;
  #state = element("span", { class: "step-state" });
  #node = element("bdi", { class: "step-node" });
  #facts = element("span", { class: "step-facts" });
  #details = element("div", { class: "step-details", id: uniqueId("step"), hidden: true });
  #about = element("p", { class: "facts" });
  #error = element("pre", { class: "plain failed", hidden: true });
  #result = element("div", { class: "step-result" });
  #button;

  constructor(run, id, findNode) {
    this.#run = run;
    this.#findNode = findNode;
    this.#button = element(
      "button",
      { type: "button", class: "step-head", "aria-expanded": "false", "aria-controls": this.#details.id, onclick: () => this.toggle() },
      element("bdi", { class: "step-name" }, id),
      this.#state,
      this.#node,
      this.#facts,
    );
    this.#details.append(this.#about, this.#error, this.#result);
    this.element = element("li", { class: "step" }, this.#button, this.#details);
  }

  update(step) {
    this.#step = step;
    this.element.dataset.state = step.state;
    showText(this.#state, stateText(step.state));
    showText(this.#node, step.node_id || "gate");
    this.updateDuration();
    this.#showDetails();
  }

  /** Shows how long the step has been running. */
  updateDuration() {
    const { tokens_used: tokens } = this.#step;
    const texts = [durationText(this.#step), tokens ? `${numbers.format(tokens)} tokens` : ""];
    showText(this.#facts, texts.filter((text) => text).join(" · "));
  }

  /** Opens the details, or closes them. */
  toggle(isOpen = this.#details.hidden) {
    this.#details.hidden = !isOpen;
    this.#button.setAttribute("aria-expanded", String(isOpen));
    this.#showDetails();
  }

  /** Opens the details and leads there. */
  show() {
    this.toggle(true);
    this.#button.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  #showDetails() {
    if (this.#details.hidden) {
      return;
    }
    const { started_at: started, attempt, error, hint, node_id: id } = this.#step;
    const texts = [started ? `started ${formatTime(started)}` : "", attempt > 1 ? `attempt ${attempt}` : ""];
    const node = this.#findNode(id);
    const link = node === undefined ? [] : [element("a", { href: nodeHref(node) }, `Open ${id}`)];
    this.#about.replaceChildren(...texts.filter((text) => text).map((text) => element("span", {}, text)), ...link);
    showText(this.#error, [error, hint].filter((text) => text).join("\n"));
    this.#showResult();
  }

  /** Fetches the result once for each end of the step. */
  async #showResult() {
    const { step_id: id, state, ended_at: ended } = this.#step;
    const version = `${state} ${ended}`;
    if (version === this.#resultOf) {
      return;
    }
    this.#resultOf = version;
    if (!ended) {
      this.#showNote(this.#step.state === "planned" ? "Not started." : "No output yet.");
      return;
    }
    this.#showNote("Loading…");
    try {
      const result = await getStepResult(this.#run, id);
      if (version === this.#resultOf) {
        this.#showOutput(result);
      }
    } catch (error) {
      if (version === this.#resultOf) {
        this.#resultOf = null;
        this.#showNote(`Not loaded: ${describeError(error)}. Open the step again to retry.`);
      }
    }
  }

  #showNote(text) {
    this.#result.replaceChildren(element("p", { class: "note" }, text));
  }

  #showOutput(result) {
    if (result === undefined || result === null) {
      this.#showNote("No output.");
    } else {
      this.#result.replaceChildren(element("p", { class: "label" }, "Output"), longText(resultText(result)));
    }
  }
}

/** Lists the steps of the plan in its order, each followed by its items, rounds and inner steps. */
export class StepList {
  #run;
  #findNode;
  #rows = new Map();
  element = element("ol", { class: "steps" });

  /** `findNode` returns the node of the run with an id; undefined if it does not run. */
  constructor(run, findNode) {
    this.#run = run;
    this.#findNode = findNode;
  }

  update(plan, steps) {
    const listed = listSteps(plan, steps);
    const rows = listed.map(({ step, isNested }) => this.#updateRow(step, isNested));
    arrangeChildren(this.element, rows.map((row) => row.element));
    const ids = new Set(listed.map(({ step }) => step.step_id));
    [...this.#rows.keys()].filter((id) => !ids.has(id)).forEach((id) => this.#rows.delete(id));
  }

  /** Shows how long steps have been running. */
  updateDurations() {
    this.#rows.forEach((row) => row.updateDuration());
  }

  /** Opens a step. */
  show(id) {
    this.#rows.get(id)?.show();
  }

  #updateRow(step, isNested) {
    if (!this.#rows.has(step.step_id)) {
      const row = new StepRow(this.#run, step.step_id, this.#findNode);
      row.element.classList.toggle("nested", isNested);
      this.#rows.set(step.step_id, row);
    }
    const row = this.#rows.get(step.step_id);
    row.update(step);
    return row;
  }
}
