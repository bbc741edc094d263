// The conversation of a node or of a recording, kept up to date by events.

import { describeError, getTranscript } from "./api.js";
import { arrangeChildren, element, showText } from "./dom.js";
import { FollowMode } from "./follow_mode.js";
import { LiveActivity } from "./live_activity.js";
import { keyOf } from "./node_store.js";
import { href } from "./route.js";
import { MAX_TURNS, TranscriptLoader } from "./transcript_loader.js";
import { TurnCard } from "./turn_card.js";

/** Number of older turns that are fetched at a time. */
const OLDER_TURNS = 20;

const NO_TURNS = "No turns yet.";

/** Shows a transcript. Follows its end only while the reader is there. */
export class ChatTab {
  #source;
  #hasTimeline;
  #kind;
  /** The turns that are shown, by number, oldest first and without gaps. */
  #cards = new Map();
  #transcript = null;
  /** The number of the conversation that is shown. Replies with older turns of an earlier conversation are discarded. */
  #generation = 0;
  /** The number of the last request for a turn. Earlier requests do not scroll any more. */
  #turnRequest = 0;
  #node = null;
  #isClosed = false;
  #loader;
  #follow;
  #listeners = new AbortController();
  #older = element("button", { type: "button", class: "older", hidden: true, onclick: () => this.#showOlder() }, "Show older turns");
  #notes = element("div", { class: "chat-notes", hidden: true });
  #turns = element("div", { class: "turns" });
  /** The actions of the running turn; null for a recording. */
  #live;
  #working = element("p", { class: "working", hidden: true });
  #problem = element("p", { class: "note failed", role: "alert", hidden: true });
  #content = element("div", { class: "chat-content" }, this.#notes, this.#older, this.#turns, this.#working, this.#problem);
  #scroller = element("div", { class: "chat-scroller", tabIndex: 0, role: "region", "aria-label": "Conversation" }, this.#content);

  /**
   * Shows a node's turns, which change with the events of `store`; or those of a recording, `{ recording }`. With
   * `hasTimeline`, turns link to the recording.
   */
  constructor(source, store = null, hasTimeline = true) {
    this.#source = source;
    this.#hasTimeline = hasTimeline;
    this.#follow = new FollowMode(this.#scroller, this.#content, "summary, .show-all");
    this.#loader = new TranscriptLoader(source, {
      countTurns: () => this.#cards.size,
      receive: (transcript, isWhole, fetchedAt) => this.#merge(transcript, isWhole, fetchedAt),
      fail: (error) => this.#showFailure(error),
    });
    this.#live = store === null ? null : this.#createLive();
    this.element = element("div", { class: "chat" }, this.#scroller, this.#follow.button);
    const key = keyOf(source.session, source.id, source.machine);
    const handle = ({ detail }) => (detail.key === null || detail.key === key) && this.#loader.invalidate(detail.key === null ? "all" : "last");
    store?.addEventListener("event", handle, { signal: this.#listeners.signal });
  }

  show() {
    this.#live?.open();
    this.#loader.open();
    this.#follow.keepEnd();
  }

  hide() {
    this.#live?.close();
    this.#loader.close();
  }

  close() {
    this.#isClosed = true;
    this.hide();
    this.#listeners.abort();
    this.#follow.close();
  }

  /** Creates the actions of the running turn. Those that arrive after its end are fetched with the transcript. */
  #createLive() {
    const live = new LiveActivity(this.#source);
    live.addEventListener("gap", () => this.#loader.invalidate("last"));
    live.addEventListener("grow", () => {
      this.#follow.showGrowth();
      if (this.#node?.state !== "busy") {
        this.#loader.invalidate("last");
      }
    });
    this.#working.before(live.element);
    return live;
  }

  /** Updates the tab for the current description of the node. */
  update(node) {
    this.#node = node;
    if (node.kind !== this.#kind) {
      // The kind decides whether the texts are Markdown.
      this.#kind = node.kind;
      this.#changeTurns(() => this.#cards.forEach((card) => card.update(card.turn)));
    }
    this.#showWorking();
  }

  /** Scrolls to the end and stays there. */
  followEnd() {
    this.#follow.followEnd();
  }

  /** Brings a turn into view, and fetches the turns up to it first. */
  async showTurn(number) {
    this.#turnRequest += 1;
    const request = this.#turnRequest;
    const isOutdated = () => this.#isClosed || request !== this.#turnRequest;
    await this.#loader.loaded;
    for (let first = this.#firstTurn(); number < first && !isOutdated(); first = this.#firstTurn()) {
      const isFetched = await this.#fetchOlder(Math.min(MAX_TURNS, first - number + 1));
      if (!isFetched) {
        return;
      }
    }
    if (isOutdated()) {
      return;
    }
    const card = this.#cards.get(number);
    if (card === undefined) {
      showText(this.#problem, `There is no turn ${number} in this transcript.`);
      return;
    }
    this.#follow.leaveEnd();
    this.#content.querySelector(".wanted")?.classList.remove("wanted");
    card.focus();
  }

  /**
   * Converts the number of a turn in a recording to its number in this transcript; null if the transcript lacks the
   * turn. A conversation may have begun before its newest recording, whose turns are then the last ones here.
   */
  async locate(recording, number) {
    await this.#loader.loaded;
    if (this.#transcript === null) {
      return null;
    }
    const page = (source, turn) => getTranscript(source, { before: turn + 1, limit: 1 });
    try {
      const { turns: [wanted], turn_count: count } = await page({ recording, machine: this.#source.machine }, number);
      for (const candidate of new Set([this.#transcript.turn_count - count + number, number])) {
        const [found] = (await page(this.#source, candidate)).turns;
        if (found?.turn === candidate && found.started_at === wanted?.started_at && found.prompt === wanted.prompt) {
          return candidate;
        }
      }
    } catch {
      // The recording may be gone: its view reports it.
    }
    return null;
  }

  /** Waits until the transcript is loaded, and returns its description without its turns. */
  async loadDescription() {
    await this.#loader.loaded;
    return this.#transcript;
  }

  #firstTurn() {
    return this.#cards.keys().next().value ?? 0;
  }

  #lastTurn() {
    return [...this.#cards.keys()].at(-1) ?? 0;
  }

  /**
   * Shows the newest turns. Turns that continue the shown ones are added; others replace them. Replacing needs a whole
   * page, not only the turns that an event may have changed: returns false without one.
   */
  #merge(transcript, isWhole, fetchedAt) {
    const isOther = this.#isDifferent(transcript);
    if (isOther && !isWhole) {
      return false;
    }
    if (this.#isClosed) {
      return true;
    }
    const { turns, ...description } = transcript;
    this.#transcript = description;
    showText(this.#problem, "");
    // Notes describe what the turns lack.
    this.#showNotes(turns.length === 0 ? [NO_TURNS] : description.notes);
    this.#follow.watchGrowth(() => {
      this.#changeTurns(() => {
        this.#live?.discardBefore(fetchedAt);
        turns.forEach((turn) => this.#putTurn(turn));
        if (isOther) {
          this.#generation += 1;
          this.#keepOnly(turns);
        }
      });
      this.#older.hidden = this.#firstTurn() <= 1;
      this.#showWorking();
    });
    return true;
  }

  #showFailure(error) {
    // A node without turns has no transcript yet. An event follows when it has.
    const isEmpty = error.status === 404 && this.#source.recording === undefined;
    if (isEmpty && this.#cards.size === 0) {
      this.#showNotes([NO_TURNS]);
    }
    showText(this.#problem, isEmpty ? "" : `The turns could not be read: ${describeError(error)}`);
  }

  #showNotes(lines) {
    this.#notes.replaceChildren(...lines.map((line) => element("p", { class: "note" }, line)));
    this.#notes.hidden = lines.length === 0;
  }

  /** Returns true if the last turns do not continue those that are shown: the conversation is another one, or was rewound. */
  #isDifferent({ turns, turn_count: count, recording_id: recording, conversation_id: conversation }) {
    const current = this.#transcript;
    const last = this.#lastTurn();
    const isOther = (turn) => {
      const shown = this.#cards.get(turn.turn)?.turn;
      return shown !== undefined && shown.started_at !== turn.started_at;
    };
    const hasGap = turns.length > 0 && turns[0].turn > last + 1;
    return current?.recording_id !== recording || current.conversation_id !== conversation || count < last || hasGap || turns.some(isOther);
  }

  /** Changes turns without moving the reader. */
  #changeTurns(change) {
    this.#follow.keepPosition([...this.#cards.values()].map((card) => card.element), change);
  }

  #putTurn(turn) {
    const existing = this.#cards.get(turn.turn);
    if (existing !== undefined) {
      existing.update(turn);
      return;
    }
    const card = new TurnCard(turn, (one) => one.source === "agent" || this.#kind === "chat", this.#timelineOf(turn));
    this.#cards.set(turn.turn, card);
    this.#turns.append(card.element);
  }

  /** Returns the address of a turn's moment in the recording; null if it is not known. */
  #timelineOf({ turn, started_at: started }) {
    const { session, id, recording } = this.#source;
    const isRecorded = this.#hasTimeline && started && this.#transcript?.recording_id;
    return isRecorded ? href(recording === undefined ? ["node", session, id] : ["recording", recording], { turn, tab: "timeline" }) : null;
  }

  /** Keeps only these turns, in their order. A rewound conversation has other turns than before. */
  #keepOnly(turns) {
    const before = this.#cards;
    this.#cards = new Map(turns.map(({ turn }) => [turn, before.get(turn)]));
    arrangeChildren(this.#turns, [...this.#cards.values()].map((card) => card.element));
  }

  #showOlder() {
    this.#follow.leaveEnd();
    this.#fetchOlder(OLDER_TURNS);
  }

  /** Fetches turns before the first one that is shown, and keeps the reader's position. Returns false on failure. */
  async #fetchOlder(limit) {
    const first = this.#firstTurn();
    const generation = this.#generation;
    this.#older.disabled = true;
    try {
      const { turns } = await getTranscript(this.#source, { before: first, limit });
      const isOther = this.#firstTurn() !== first || this.#generation !== generation;
      if (isOther || turns.length === 0) {
        return isOther;
      }
      this.#changeTurns(() => this.#prependTurns(turns));
      return true;
    } catch (error) {
      showText(this.#problem, `The older turns could not be read: ${describeError(error)}`);
      return false;
    } finally {
      this.#older.disabled = false;
    }
  }

  #prependTurns(turns) {
    const newer = [...this.#cards];
    this.#cards.clear();
    turns.forEach((turn) => this.#putTurn(turn));
    newer.forEach(([number, card]) => this.#cards.set(number, card));
    this.#turns.prepend(...turns.map(({ turn }) => this.#cards.get(turn).element));
    this.#older.hidden = this.#firstTurn() <= 1;
  }

  /** Shows that the node works, and its prompt until the transcript has it. */
  #showWorking() {
    const last = this.#cards.get(this.#lastTurn())?.turn;
    const isWorking = this.#node?.state === "busy";
    const prompt = last !== undefined && !last.is_complete ? "" : (this.#node?.progress.last_prompt ?? "");
    showText(this.#working, isWorking ? `Working…${prompt === "" ? "" : ` on: ${prompt}`}` : "");
  }
}
