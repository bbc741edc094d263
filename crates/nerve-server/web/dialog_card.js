// The dialog of a blocked node, with its choices as buttons.

import { ApiError, answerDialog, describeError, describeFailure, explainNode } from "./api.js";
import { ClickGuard } from "./click_guard.js";
import { AnswerLog, describeAnswer } from "./dialog_answer.js";
import { announce, element, showText } from "./dom.js";
import { LatestRequest } from "./latest_request.js";
import { isAway } from "./node_store.js";

/** Maximum number of rows of the screen that are shown. The dialog is at its end. */
const MAX_ROWS = 40;

const TITLES = {
  trust: "Asks whether to trust a folder",
  login: "Asks to log in",
  theme: "Asks for a theme",
  permission: "Asks for permission",
  limit: "Usage limit reached",
  budget: "Budget reached",
  other: "Waits for an answer",
};

/** Matches a row that is a horizontal line from side to side. A phone would wrap it. */
const RULE = /^\s*([─━═╌╍┄┅_▁▔-])\1{19,}$/;

/** Shows the last rows of a screen without empty rows around them; nothing if it is empty. */
export function showScreen(target, screen, maxRows = Infinity) {
  const rows = screen.replace(/^(\s*\n)+/, "").trimEnd().split("\n").slice(-maxRows);
  const shown = rows.map((row) => row.trimEnd()).map((row) => (RULE.test(row) ? element("span", { class: "rule" }, row) : element("span", {}, `${row}\n`)));
  target.replaceChildren(...shown);
  target.hidden = screen.trim() === "";
}

/** Returns true if two explanations show the same dialog. Older servers send no ids: then the choices decide. */
function isSame(one, other) {
  if (one.dialog_id || other.dialog_id) {
    return one.dialog_id === other.dialog_id;
  }
  const { choices } = other;
  return one.choices.length === choices.length && one.choices.every((choice, index) => choice === choices[index]);
}

/**
 * Shows the dialog of one node. The dialog is being loaded, open, being answered, or closed; only the buttons of an open one
 * are enabled.
 */
export class DialogCard {
  #node = null;
  #canAnswer;
  #titleId;
  /** The explanation that is shown. */
  #shown = null;
  /** The explanation of the dialog that was answered last. */
  #answered = null;
  #request = new LatestRequest(() => explainNode(this.#node), {
    receive: (explained, hadFailed) => this.#receive(explained, hadFailed),
    fail: (error) => this.#fail(`The dialog could not be read: ${describeError(error)}`),
  });
  #isSending = false;
  #isClosed = false;
  #sent = null;
  /** Resolves to true if the last answer of this page was accepted. */
  #outcome = Promise.resolve(false);
  #answers = null;
  /** Counts the dialogs that opened or closed. */
  #number = 0;
  /** The answer of another client to the dialog that has closed; null if it is not known. */
  #otherAnswer = null;
  #endedTurn = undefined;
  #title = element("h3");
  /** Says who answered the dialog before the one that is shown. */
  #earlier = element("p", { class: "note", hidden: true });
  #screen = element("pre", { class: "screen", tabIndex: 0, "aria-label": "Screen of the node" });
  #list = element("ul", { class: "choices" });
  #guard = new ClickGuard(this.#list);
  #note = element("p", { class: "note", hidden: true });

  /** Creates the card. `titleId` is the id of the element that names the node. */
  constructor(canAnswer, titleId) {
    this.#canAnswer = canAnswer;
    this.#titleId = titleId;
    this.element = element("section", { class: "dialog", hidden: true }, this.#title, this.#earlier, this.#screen, this.#list, this.#note);
  }

  /** Ends all requests. */
  close() {
    this.#isClosed = true;
    this.#request.cancel();
    this.#guard.close();
  }

  /** Shows the dialog of a blocked node. After its end, shows how it ended. */
  update(node) {
    const before = this.#node;
    this.#node = node;
    if (isAway(node.state)) {
      this.#request.cancel();
      this.element.hidden = true;
    } else if (node.state === "blocked") {
      if (before?.state !== "blocked") {
        this.#shown = null;
        this.#answers = new AnswerLog(node.progress.state_changed_at);
        this.#number += 1;
        showText(this.#earlier, "");
      }
      if (before?.state !== "blocked" || before.progress.state_changed_at !== node.progress.state_changed_at) {
        this.#sent = null;
        this.#note.hidden = true;
        this.ignoreClicks();
        this.#load();
      }
      showText(this.#title, TITLES[node.metadata.blocked] ?? TITLES.other);
      this.element.classList.remove("closed");
      this.element.hidden = false;
    } else if (before?.state === "blocked") {
      this.#request.cancel();
      this.#list.hidden = true;
      this.#screen.hidden = true;
      this.#endedTurn = node.progress.turn_started_at;
      this.#otherAnswer = null;
      showText(this.#earlier, "");
      announce(this.#reportEnd());
      this.#nameAuthor(this.#shown);
    } else if (node.progress.turn_started_at && node.progress.turn_started_at !== this.#endedTurn) {
      // The note about the end stays until the next turn.
      this.element.hidden = true;
    } else if (!this.element.hidden) {
      this.#reportEnd();
    }
  }

  /** Fetches the dialog again: another one may have replaced it. */
  reload() {
    if (this.#node?.state === "blocked") {
      this.#load();
    }
  }

  /** Ignores clicks for a moment, because the buttons have moved. */
  ignoreClicks() {
    this.#guard.ignoreClicks();
  }

  /** Returns the position of the buttons on the page; null if there are none. */
  position() {
    if (this.element.hidden || this.#list.hidden) {
      return null;
    }
    const { left, top } = this.#list.getBoundingClientRect();
    return `${Math.round(left + scrollX)} ${Math.round(top + scrollY)}`;
  }

  /** Fetches the dialog. Disables the buttons until it is loaded. */
  #load() {
    if (!this.#isClosed) {
      this.#setEnabled(false);
      this.#request.send();
    }
  }

  #receive(explained, hadFailed) {
    if (hadFailed) {
      showText(this.#note, "");
    }
    // Otherwise an event with the new state follows.
    if (explained.state === "blocked") {
      this.#show(explained);
    }
  }

  #show(explained) {
    const isNew = this.#shown === null || !isSame(this.#shown, explained);
    if (isNew && this.#shown !== null) {
      this.#nameAuthor(this.#shown);
    }
    if (this.#answered !== null && !isSame(this.#answered, explained)) {
      this.#sent = null;
    }
    this.#shown = explained;
    showScreen(this.#screen, explained.screen, MAX_ROWS);
    if (isNew) {
      this.#list.replaceChildren(...explained.choices.map((label, index) => this.#createChoice(label, index)));
      this.ignoreClicks();
      this.#screen.scrollTop = this.#screen.scrollHeight;
    }
    this.#list.hidden = explained.choices.length === 0;
    this.#setEnabled(this.#canAnswer && !this.#isSending);
    if (explained.choices.length === 0) {
      showText(this.#note, "This dialog has no choices that nerve can select: answer it with 'nerve attach'.");
    } else if (!this.#canAnswer) {
      showText(this.#note, "This browser may only look.");
    }
  }

  #createChoice(label, index) {
    const properties = { type: "button", "aria-describedby": this.#titleId, onclick: () => this.#click(index) };
    return element("li", {}, element("button", properties, label));
  }

  #click(index) {
    if (this.#guard.isSteady) {
      this.#answer(index);
    }
  }

  async #answer(index) {
    const node = this.#node;
    const shown = this.#shown;
    const label = shown.choices[index];
    this.#isSending = true;
    this.#setEnabled(false);
    this.#sent = label;
    this.#answered = shown;
    this.#report(`"${label}": sending…`);
    try {
      const sending = this.#send(node, shown, index);
      this.#outcome = sending.then(() => true, () => false);
      await sending;
      if (this.#node.state === "blocked") {
        this.#report(`"${label}": sent.`);
      }
    } catch (error) {
      this.#sent = null;
      this.#fail(describeFailure("Not answered", error, "the answer may have been sent. Check the dialog before you answer again."));
    } finally {
      this.#isSending = false;
      if (this.#node.state === "blocked") {
        // The next dialog may have opened without a change of the state.
        this.#load();
      }
    }
  }

  /** Sends an answer to the dialog that is shown, and to no other. */
  async #send(node, shown, index) {
    if (!shown.dialog_id) {
      const current = await explainNode(node);
      if (current.state !== "blocked" || !isSame(current, shown)) {
        throw new ApiError(409, { detail: "the dialog has changed; nothing was sent" });
      }
    }
    await answerDialog(node, index + 1, shown.dialog_id);
  }

  /** Names the client that answered a dialog which has closed, unless this page did. */
  async #nameAuthor(closed) {
    this.#number += 1;
    const number = this.#number;
    showText(this.#earlier, "");
    const answer = await this.#answers.next(this.#node);
    const isOwn = closed !== null && this.#answered !== null && isSame(this.#answered, closed) && (await this.#outcome);
    if (answer === null || isOwn || number !== this.#number || this.#isClosed) {
      return;
    }
    if (this.#node.state === "blocked") {
      showText(this.#earlier, `The dialog before this one: ${describeAnswer(answer)}.`);
    } else {
      this.#otherAnswer = answer;
      announce(this.#reportEnd());
    }
  }

  /** Shows how a closed dialog has ended. */
  #reportEnd() {
    const { id, state } = this.#node;
    const text = `${this.#describeEnd()}. ${id} is ${state} now.`;
    showText(this.#title, "Dialog closed");
    this.element.classList.add("closed");
    this.#note.classList.remove("failed");
    showText(this.#note, text);
    return text;
  }

  #describeEnd() {
    if (this.#sent !== null) {
      return `"${this.#sent}": sent, the dialog is gone`;
    }
    return this.#otherAnswer === null ? "Another client answered, or the dialog closed by itself" : describeAnswer(this.#otherAnswer);
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
