// A gate at which a run waits, with its choices as buttons.

import { answerGate, describeFailure } from "./api.js";
import { ClickGuard } from "./click_guard.js";
import { announce, element, showText, uniqueId } from "./dom.js";
import { formatTime } from "./time.js";

/** Names the author of an answer, by its source. */
const SOURCES = { person: "another client", default: "the default, after the deadline" };

/** Shows one gate of a run until the view closes: while it waits, while an answer is sent, and then the answer with its author. */
export class GateCard {
  #run;
  #gate;
  #isSending = false;
  #isOpen = true;
  #sent = null;
  #label = element("p", { class: "gate-label" }, "? Waits for an answer");
  #title = element("h3", { id: uniqueId("gate") });
  #answers;
  #guard;
  #note = element("p", { class: "note", hidden: true });

  constructor(run, gate, canAnswer) {
    this.#run = run;
    this.#gate = gate;
    this.#title.append(element("bdi", {}, gate.step_id));
    this.#answers = canAnswer ? this.#createAnswers() : element("p", { class: "note" }, "This browser may only look.");
    this.#guard = new ClickGuard(this.#answers);
    this.element = element(
      "section",
      { class: "dialog gate", "aria-labelledby": this.#title.id },
      this.#label,
      this.#title,
      element("pre", { class: "plain question" }, gate.question),
      element("p", { class: "note", hidden: this.#deadlineText() === "" }, this.#deadlineText()),
      this.#answers,
      this.#note,
    );
    this.ignoreClicks();
  }

  /** True while the gate waits. */
  get isOpen() {
    return this.#isOpen;
  }

  /** Ignores clicks for a moment, because the buttons have moved. */
  ignoreClicks() {
    this.#guard.ignoreClicks();
  }

  /** Shows the end of the gate. `answer` has its `choice` and its source in `by`; null if the run ended first, or it is unknown. */
  end(answer) {
    if (!this.#isOpen) {
      return;
    }
    this.#isOpen = false;
    this.#answers.hidden = true;
    this.element.classList.add("closed");
    showText(this.#label, "✓ Gate closed");
    this.#report(this.#endText(answer));
  }

  #endText(answer) {
    if (answer === null) {
      return this.#sent === null ? "The gate has closed." : `"${this.#sent}": sent, the gate has closed.`;
    }
    if (this.#sent === answer.choice && answer.by === "person") {
      return `"${answer.choice}": sent → answered.`;
    }
    return `"${answer.choice}": answered by ${SOURCES[answer.by] ?? answer.by}.`;
  }

  #deadlineText() {
    const { default: fallback, deadline_at: deadline } = this.#gate;
    if (!deadline) {
      return "";
    }
    return `Until ${formatTime(deadline)}; then ${typeof fallback === "string" ? `the answer is "${fallback}"` : "the step fails"}.`;
  }

  #createAnswers() {
    const choices = this.#gate.choices ?? [];
    return choices.length === 0 ? this.#createForm() : element("ul", { class: "choices" }, ...choices.map((choice) => this.#createChoice(choice)));
  }

  #createChoice(choice) {
    const properties = { type: "button", "aria-describedby": this.#title.id, onclick: () => this.#click(choice) };
    return element("li", {}, element("button", properties, choice));
  }

  #createForm() {
    const text = element("textarea", { id: uniqueId("answer"), rows: 2 });
    const submit = (event) => {
      event.preventDefault();
      this.#answer(text.value);
    };
    const label = element("label", { class: "visually-hidden", for: text.id }, `Answer for ${this.#gate.step_id}`);
    return element("form", { class: "prompt", onsubmit: submit }, label, text, element("button", { type: "submit", class: "primary" }, "Answer"));
  }

  #click(choice) {
    if (this.#guard.isSteady) {
      this.#answer(choice);
    }
  }

  async #answer(choice) {
    if (this.#isSending || !this.#isOpen) {
      return;
    }
    this.#setSending(true);
    this.#sent = choice;
    this.#report(`"${choice}": sending…`);
    try {
      await answerGate(this.#run, this.#gate.step_id, choice);
      if (this.#isOpen) {
        this.#report(`"${choice}": sent.`);
      }
    } catch (error) {
      this.#sent = null;
      this.#fail(error);
    }
  }

  #fail(error) {
    // The gate may have closed meanwhile: then the note names the author of the answer.
    if (this.#isOpen) {
      this.#setSending(false);
      this.#report(describeFailure("Not answered", error, "the answer may have been sent. Check the run before you answer again."));
      this.#note.classList.add("failed");
    }
  }

  #setSending(isSending) {
    this.#isSending = isSending;
    this.#answers.querySelectorAll("button, textarea").forEach((field) => {
      field.disabled = isSending;
    });
  }

  #report(text) {
    this.#note.classList.remove("failed");
    showText(this.#note, text);
    announce(`${this.#gate.step_id}: ${text}`);
  }
}
