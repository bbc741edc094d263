// The runs of all sessions, newest first.

import { arrangeChildren, element, showText } from "./dom.js";
import { href } from "./route.js";
import { isActive } from "./run_state.js";
import { RunSummary } from "./run_summary.js";

/** Runs that are shown at first, and more with each click. */
const PAGE_SIZE = 50;
/** Interval at which durations are updated, in milliseconds. Updates cause no request. */
const DURATION_INTERVAL = 5000;

/** One run in the list. */
class RunRow {
  #summary = new RunSummary();
  #gate = element("p", { class: "run-gate", hidden: true });

  constructor(run) {
    const title = element("h2", {}, element("a", { href: href(["run", run.run_id]) }, element("bdi", {}, run.graph_id)));
    this.element = element("li", { class: "run-row" }, element("header", {}, title, this.#summary.state), this.#summary.facts, this.#gate);
  }

  update(run) {
    this.element.dataset.state = run.state;
    this.#summary.update(run);
    const gates = isActive(run) ? (run.gates ?? []) : [];
    showText(this.#gate, gates.map((gate) => `${gate.step_id}: ${gate.question}`).join("\n"));
  }

  updateDuration() {
    this.#summary.updateDuration();
  }
}

/** Lists the runs with their progress. */
export class RunListView {
  title = "Runs";
  #runs;
  #rows = new Map();
  #limit = PAGE_SIZE;
  #timer;
  #listeners = new AbortController();
  #note = element("p", { class: "note", hidden: true });
  #list = element("ol", { class: "run-list" });
  #more = element("button", { type: "button", hidden: true, onclick: () => this.#showMore() }, "Show more");

  constructor(runs) {
    this.#runs = runs;
    this.element = element("div", { class: "page-view" }, element("h1", { tabIndex: -1 }, "Runs"), this.#note, this.#list, this.#more);
    runs.addEventListener("change", () => this.#update(), { signal: this.#listeners.signal });
    this.#timer = setInterval(() => this.#rows.forEach((row) => row.updateDuration()), DURATION_INTERVAL);
    runs.open();
  }

  close() {
    clearInterval(this.#timer);
    this.#listeners.abort();
    this.#runs.close();
  }

  #showMore() {
    this.#limit += PAGE_SIZE;
    this.#update();
  }

  #update() {
    const runs = [...this.#runs.runs.values()].sort((one, other) => Date.parse(other.started_at) - Date.parse(one.started_at));
    arrangeChildren(this.#list, runs.slice(0, this.#limit).map((run) => this.#updateRow(run).element));
    this.#more.hidden = runs.length <= this.#limit;
    showText(this.#note, runs.length === 0 ? "No runs yet. 'nerve graph run FILE' starts one." : "");
  }

  #updateRow(run) {
    if (!this.#rows.has(run.run_id)) {
      this.#rows.set(run.run_id, new RunRow(run));
    }
    const row = this.#rows.get(run.run_id);
    row.update(run);
    return row;
  }
}
