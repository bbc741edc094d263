// The dialog of a blocked node, with its choices as buttons.

import { answerDialog, explainNode } from "./api.js";
import { announce, element, showText } from "./dom.js";

/** Rows of the screen that are shown. The dialog is at its end. */
const SCREEN_ROWS = 40;

const TITLES = {
  trust: "Asks whether to trust a folder",
  login: "Asks to log in",
  theme: "Asks for a theme",
  permission: "Asks for permission",
  limit: "Usage limit reached",
  budget: "Budget reached",
  other: "Waits for an answer",
};

/** Returns the end of a screen without empty rows. */
export function lastRows(screen) {
  const rows = screen.split("\n").map((row) => row.trimEnd());
  while (rows.length > 0 && rows[rows.length - 1] === "") {
    rows.pop();
  }
  return rows.slice(-SCREEN_ROWS).join("\n");
}

function isSame(one, other) {
  return one.length === other.length && one.every((choice, index) => choice === other[index]);
}

/** Shows the dialog of one node. */
export class DialogCard {
  #node = null;
  #canAnswer;
  #choices = [];
  #sent = null;
  #endedTurn = undefined;
  #title = element("h3");
  #screen = element("pre", { class: "screen", tabIndex: 0, "aria-label": "Screen of the node" });
  #list = element("ul", { class: "choices" });
  #note = element("p", { class: "note", hidden: true });

  constructor(canAnswer) {
    this.#canAnswer = canAnswer;
    this.element = element("section", { class: "dialog", hidden: true }, this.#title, this.#screen, this.#list, this.#note);
  }

  /** Shows the dialog of a blocked node; after its end, what became of it. */
  update(node) {
    const before = this.#node;
    this.#node = node;
    if (node.state === "blocked") {
      if (before?.state !== "blocked" || before.progress.state_changed_at !== node.progress.state_changed_at) {
        this.#sent = null;
        this.#note.hidden = true;
        this.#load();
      }
      this.element.hidden = false;
    } else if (before?.state === "blocked") {
      this.#list.hidden = true;
      this.#screen.hidden = true;
      this.#endedTurn = node.progress.turn_started_at;
      announce(this.#reportEnd());
    } else if (node.progress.turn_started_at && node.progress.turn_started_at !== this.#endedTurn) {
      // What became of the dialog is shown until the next turn.
      this.element.hidden = true;
    } else if (!this.element.hidden) {
      this.#reportEnd();
    }
  }

  async #load() {
    const node = this.#node;
    showText(this.#title, TITLES[node.metadata.blocked] ?? TITLES.other);
    try {
      const explained = await explainNode(node);
      if (this.#node?.state === "blocked" && explained.state === "blocked") {
        this.#show(explained);
      }
    } catch (error) {
      this.#fail(error.text ?? error.message);
    }
  }

  #show(explained) {
    this.#choices = explained.choices;
    showText(this.#screen, lastRows(explained.screen));
    const buttons = explained.choices.map((label, index) =>
      element(
        "li",
        {},
        element("button", { type: "button", disabled: !this.#canAnswer, onclick: () => this.#answer(index) }, label),
      ),
    );
    this.#list.replaceChildren(...buttons);
    this.#list.hidden = buttons.length === 0;
    if (buttons.length === 0) {
      showText(this.#note, "This dialog has no choices that nerve can select: answer it with 'nerve attach'.");
    } else if (!this.#canAnswer) {
      showText(this.#note, "This browser may only look.");
    }
  }

  async #answer(index) {
    const node = this.#node;
    const label = this.#choices[index];
    this.#setEnabled(false);
    this.#sent = label;
    this.#report(`"${label}": sending…`);
    try {
      // The dialog may have been replaced since it was shown.
      const current = await explainNode(node);
      if (current.state !== "blocked" || !isSame(current.choices, this.#choices)) {
        this.#sent = null;
        this.#fail("The dialog has changed: nothing was sent.");
        if (current.state === "blocked") {
          this.#show(current);
        }
        return;
      }
      const isUnique = this.#choices.filter((choice) => choice.includes(label)).length === 1;
      // A label is selected only if it is still there; a number would select whatever is in its place.
      await answerDialog(node, isUnique ? label : index + 1);
      if (this.#node.state === "blocked") {
        this.#report(`"${label}": sent, the dialog is gone.`);
      }
    } catch (error) {
      this.#sent = null;
      this.#fail(`Not answered: ${error.text ?? error.message}`);
      this.#setEnabled(this.#canAnswer);
    }
  }

  /** Shows what became of a dialog that has closed. */
  #reportEnd() {
    const { id, state } = this.#node;
    const end = this.#sent === null ? "Another client answered, or the dialog closed by itself" : `"${this.#sent}": sent, the dialog is gone`;
    const text = `${end}. ${id} is ${state} now.`;
    showText(this.#title, "Dialog closed");
    this.#note.classList.remove("failed");
    showText(this.#note, text);
    return text;
  }

  #setEnabled(isEnabled) {
    for (const button of this.#list.querySelectorAll("button")) {
      button.disabled = !isEnabled;
    }
  }

  #report(text) {
    this.#note.classList.remove("failed");
    showText(this.#note, text);
    announce(text);
  }

  #fail(text) {
    this.#note.classList.add("failed");
    showText(this.#note, text);
    announce(text);
  }
}
