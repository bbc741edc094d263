// The answers to dialogs, as the audit log of their node has them.

import { listLogEntries } from "./api.js";

/** Number of entries that are searched for an answer: prompts may follow it at once. */
const LAST_ENTRIES = 20;

/** Follows the answers to the dialogs of a node, which may open one after another. */
export class AnswerLog {
  #openedAt;
  /** The number of the last answer in the log. */
  #seq = 0;
  #last = Promise.resolve(null);

  /** Begins with the dialog that opened at a time of the server (RFC 3339). */
  constructor(openedAt) {
    this.#openedAt = Date.parse(openedAt);
  }

  /** Returns the answer to the dialog that has closed; null if the log has none, or cannot be read. The next call is about the next dialog. */
  next(node) {
    this.#last = this.#last.then(() => this.#find(node));
    return this.#last;
  }

  async #find(node) {
    const entries = await listLogEntries(node, LAST_ENTRIES).catch(() => []);
    const isAnswer = ({ op, dialog }) => (op === "answer" || op === "cancel") && dialog;
    const found = entries.find((entry) => isAnswer(entry) && entry.seq > this.#seq && Date.parse(entry.ts) >= this.#openedAt);
    this.#seq = found?.seq ?? this.#seq;
    return found ?? null;
  }
}

/** Names the choice and the client: a browser by its address and web session, a local one by its user and process. */
export function describeAnswer({ choice, client, transport }) {
  return `${choice ? `"${choice}": answered` : "Closed without an answer"} by ${client} (${transport})`;
}
