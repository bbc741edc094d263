// One run of a graph: its plan, its gates and its steps.

import { cancelRun, describeFailure, resumeRun } from "./api.js";
import { confirmAction } from "./confirmation.js";
import { element, showText, uniqueId } from "./dom.js";
import { GateCard } from "./gate_card.js";
import { keyOf } from "./node_store.js";
import { PlanPicture } from "./plan_picture.js";
import { isActive, isResumable } from "./run_state.js";
import { RunSummary } from "./run_summary.js";
import { StepList } from "./step_list.js";

/** Interval at which durations are updated, in milliseconds. Updates cause no request. */
const DURATION_INTERVAL = 1000;

/** Shows the run that an address names, which need not exist. */
export class RunView {
  #id;
  #runs;
  #nodes;
  #role;
  #timer;
  #listeners = new AbortController();
  #cards = new Map();
  /** Gates whose answer was reported. A description that is older than the report may still contain them. */
  #answered = new Set();
  #summary = new RunSummary();
  #name = element("bdi");
  #cancel = element("button", { type: "button", class: "danger", hidden: true, onclick: () => this.#doCancel() }, "Cancel the run");
  #resume = element("button", { type: "button", hidden: true, onclick: () => this.#doResume() }, "Resume the run");
  #actions = element("p", { class: "actions", hidden: true }, this.#resume, this.#cancel);
  #error = element("pre", { class: "plain failed", hidden: true });
  #problem = element("p", { class: "problem", role: "alert", hidden: true });
  #note = element("p", { class: "note", hidden: true });
  #gates = element("div", { class: "gates" });
  #picture;
  #steps;

  constructor(runs, nodes, role, { id }) {
    this.#id = id;
    this.#runs = runs;
    this.#nodes = nodes;
    this.#role = role;
    this.title = `Run ${id}`;
    this.#steps = new StepList(id, (node) => this.#findNode(node));
    this.#picture = new PlanPicture((step) => this.#steps.show(step));
    const stepsTitle = element("h2", { id: uniqueId("steps") }, "Steps");
    this.#name.textContent = "Run";
    this.element = element(
      "div",
      { class: "page-view run" },
      element("header", {}, element("h1", { tabIndex: -1 }, this.#name), this.#summary.state, this.#summary.facts),
      this.#actions,
      this.#problem,
      this.#error,
      this.#note,
      this.#gates,
      this.#picture.element,
      element("section", { "aria-labelledby": stepsTitle.id }, stepsTitle, this.#steps.element),
    );
    const { signal } = this.#listeners;
    runs.addEventListener("change", () => this.#update(), { signal });
    runs.addEventListener("event", ({ detail }) => this.#handleEvent(detail), { signal });
    this.#timer = setInterval(() => this.#updateDurations(), DURATION_INTERVAL);
    runs.open(id);
  }

  close() {
    clearInterval(this.#timer);
    this.#listeners.abort();
    this.#runs.close();
  }

  /** Ignores clicks for a moment, because the buttons of the gates have moved. */
  checkMoves() {
    this.#cards.forEach((card) => card.ignoreClicks());
  }

  /** Returns the node of a step: one of the run's own session, or of the session in which the run was started. */
  #findNode(id) {
    const session = this.#runs.runs.get(this.#id)?.session_id;
    return [this.#id, session].map((name) => this.#nodes.nodes.get(keyOf(name, id))).find((node) => node !== undefined);
  }

  #handleEvent({ type, data }) {
    if (type === "GATE_ANSWERED") {
      this.#answered.add(data.step_id);
      this.#cards.get(data.step_id)?.end(data);
      this.checkMoves();
    } else if (type === "GATE_ASKED") {
      this.#answered.delete(data.step_id);
    }
  }

  #update() {
    const run = this.#runs.runs.get(this.#id);
    showText(this.#note, run === undefined && this.#runs.isLoaded ? `There is no run '${this.#id}', or its journal cannot be read.` : "");
    if (run === undefined) {
      return;
    }
    const { plan = [], steps = [], error, hint, faults = [] } = run;
    showText(this.#name, run.graph_id);
    this.element.dataset.state = run.state;
    this.#summary.update(run);
    showText(this.#error, [error, hint, ...faults].filter((text) => text).join("\n"));
    this.#updateActions(run);
    this.#updateGates(run);
    this.#picture.update(plan, new Map(steps.map((step) => [step.step_id, step.state])));
    this.#steps.update(plan, steps);
  }

  #updateActions(run) {
    const isFull = this.#role === "full";
    this.#cancel.hidden = !isFull || !(isActive(run) || run.state === "interrupted");
    this.#resume.hidden = !isFull || !isResumable(run);
    this.#actions.hidden = this.#cancel.hidden && this.#resume.hidden;
  }

  #updateGates(run) {
    // The gates of an interrupted run are answered after it has been resumed.
    const gates = isActive(run) ? (run.gates ?? []) : [];
    const waiting = gates.filter((gate) => !this.#answered.has(gate.step_id));
    const ids = new Set(waiting.map((gate) => gate.step_id));
    this.#cards.forEach((card, id) => !ids.has(id) && card.end(null));
    const previousCount = this.#gates.children.length;
    for (const gate of waiting) {
      this.#showGate(gate);
    }
    if (previousCount !== this.#gates.children.length) {
      this.checkMoves();
    }
  }

  #showGate(gate) {
    const previous = this.#cards.get(gate.step_id);
    if (previous?.isOpen) {
      return;
    }
    previous?.element.remove();
    const card = new GateCard(this.#id, gate, this.#role !== "view");
    this.#cards.set(gate.step_id, card);
    this.#gates.append(card.element);
  }

  #updateDurations() {
    this.#summary.updateDuration();
    this.#steps.updateDurations();
  }

  async #doCancel() {
    const question = "Cancel the run? Its running steps are interrupted; you can resume it later.";
    if (await confirmAction(question, "Cancel the run", "Keep it")) {
      await this.#act("Not cancelled", () => cancelRun(this.#id));
    }
  }

  async #doResume() {
    await this.#act("Not resumed", () => resumeRun(this.#id));
  }

  async #act(failure, action) {
    showText(this.#problem, "");
    try {
      await action();
      // No event reports that an interrupted run was cancelled.
      this.#runs.refresh();
    } catch (error) {
      showText(this.#problem, describeFailure(failure, error, "the request may have been executed. Check the state of the run."));
    }
  }
}
