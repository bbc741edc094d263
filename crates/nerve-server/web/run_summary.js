// The state of a run and its facts: steps, duration, tokens.

import { element, showText } from "./dom.js";
import { isActive, stateText } from "./run_state.js";
import { formatAge, formatDuration } from "./time.js";

const numbers = new Intl.NumberFormat("en");

/** Shows the state and the facts of one run in elements that the caller arranges. */
export class RunSummary {
  #run = null;
  #took = element("span");
  state = element("span", { class: "state" });
  facts = element("p", { class: "facts" });

  update(run) {
    this.#run = run;
    const { done_steps: done, total_steps: total, tokens_used: tokens, session_id: session } = run;
    showText(this.state, stateText(run.state));
    const texts = [`${done} of ${total} steps`, tokens ? `${numbers.format(tokens)} tokens` : "", run.run_id, session === "default" ? "" : session];
    const facts = texts.filter((text) => text).map((text) => element("bdi", {}, text));
    facts.splice(1, 0, this.#took);
    this.facts.replaceChildren(...facts);
    this.updateDuration();
  }

  /** Shows how long ago the run began, and how long it took or has been running. */
  updateDuration() {
    if (this.#run === null) {
      return;
    }
    const { started_at: started, ended_at: ended } = this.#run;
    const took = ended ? `, took ${formatDuration(Date.parse(ended) - Date.parse(started))}` : "";
    showText(this.#took, isActive(this.#run) ? `running for ${formatAge(Date.parse(started))}` : `began ${formatAge(Date.parse(started))} ago${took}`);
  }
}
