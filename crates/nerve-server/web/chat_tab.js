// The turns of a node or of a recording, kept up to date by events.

import { getTranscript } from "./api.js";
import { element, showText } from "./dom.js";
import { LiveActivity } from "./live_activity.js";
import { keyOf } from "./node_store.js";
import { href } from "./route.js";
import { RetryTimer } from "./retry.js";
import { TurnSection } from "./turn_section.js";

/** Turns that are fetched at a time. */
const PAGE_TURNS = 20;
/** Turns that an event may have changed: the last one, and the one that has ended before it. */
const CHANGED_TURNS = 2;
/** Maximum number of turns of a request. */
const MAX_TURNS = 1000;
/** Minimum time between requests for changes in milliseconds, and as a multiple of the time that the last one took. */
const MIN_INTERVAL = 500;
const INTERVAL_FACTOR = 4;
/** Distance from the end up to which the reader is at the end, in pixels. */
const END_TOLERANCE = 24;

const NO_TURNS = "No turns yet.";

/** Shows a transcript. It follows the end only if the reader is there. */
export class ChatTab {
  #source;
  #hasTimeline;
  #kind;
  /** The turns that are shown, by number, oldest first and without gaps. */
  #sections = new Map();
  #transcript = null;
  /** The number of the conversation that is shown. Older turns of an earlier one are discarded. */
  #generation = 0;
  /** The number of the last request for a turn. Earlier ones do not move the reader any more. */
  #turnRequest = 0;
  #node = null;
  #isShown = false;
  #isClosed = false;
  #isAtEnd = true;
  #lastTop = 0;
  /** What has to be fetched: nothing, what an event may have changed, or all turns that are shown. */
  #outdated = "all";
  #isFetching = false;
  #retry = new RetryTimer(() => this.#fetch());
  #timer = null;
  #nextFetch = 0;
  #loaded = Promise.withResolvers();
  #listeners = new AbortController();
  #sizes = new ResizeObserver(() => this.#keepPosition());
  #older = element("button", { type: "button", class: "older", hidden: true, onclick: () => this.#showOlder() }, "Show older turns");
  #notes = element("div", { class: "chat-notes", hidden: true });
  #turns = element("div", { class: "turns", onclick: (event) => this.#noteUnfold(event) });
  /** What the agent does in the running turn; null for a recording. */
  #live;
  #working = element("p", { class: "working", hidden: true });
  #problem = element("p", { class: "note failed", role: "alert", hidden: true });
  #content = element("div", { class: "chat-content" }, this.#notes, this.#older, this.#turns, this.#working, this.#problem);
  #scroller = element("div", { class: "chat-scroller", tabIndex: 0, role: "region", "aria-label": "Conversation", onscroll: () => this.#noteScroll() }, this.#content);
  #below = element("button", { type: "button", class: "below", hidden: true, onclick: () => this.followEnd() }, "New below ↓");

  /** Shows a node's turns, which change with the events of `store`; or those of a recording, `{ recording }`. With `hasTimeline`, turns link to the recording. */
  constructor(source, store = null, hasTimeline = true) {
    this.#source = source;
    this.#hasTimeline = hasTimeline;
    this.#live = store === null ? null : this.#createLive();
    this.element = element("div", { class: "chat" }, this.#scroller, this.#below);
    // Such events do not bubble.
    this.#turns.addEventListener("toggle", ({ target }) => target.open || this.#noteScroll(), { capture: true });
    this.#sizes.observe(this.#scroller);
    this.#sizes.observe(this.#content);
    const key = keyOf(source.session, source.id);
    const note = ({ detail }) => (detail.key === null || detail.key === key) && this.#noteChange(detail.key === null ? "all" : "last");
    store?.addEventListener("event", note, { signal: this.#listeners.signal });
  }

  show() {
    this.#isShown = true;
    this.#live?.open();
    this.#fetch();
    this.#keepPosition();
  }

  hide() {
    this.#isShown = false;
    this.#live?.close();
  }

  close() {
    this.#isClosed = true;
    this.#live?.close();
    clearTimeout(this.#timer);
    this.#retry.cancel();
    this.#listeners.abort();
    this.#sizes.disconnect();
  }

  /** Creates the actions of the running turn. Those that arrive after its end are fetched with the transcript. */
  #createLive() {
    const live = new LiveActivity(this.#source);
    live.addEventListener("gap", () => this.#noteChange("last"));
    live.addEventListener("grow", () => {
      this.#below.hidden = this.#isAtEnd;
      if (this.#node?.state !== "busy") {
        this.#noteChange("last");
      }
    });
    this.#working.before(live.element);
    return live;
  }

  /** Notes the state of the node. */
  update(node) {
    this.#node = node;
    if (node.kind !== this.#kind) {
      // It decides whether the texts are Markdown.
      this.#kind = node.kind;
      this.#changeTurns(() => this.#sections.forEach((section) => section.update(section.turn)));
    }
    this.#showWorking();
  }

  /** Scrolls to the end and stays there. */
  followEnd() {
    this.#isAtEnd = true;
    this.#keepPosition();
  }

  /** Brings a turn into view, and fetches the turns up to it first. */
  async showTurn(number) {
    this.#turnRequest += 1;
    const request = this.#turnRequest;
    const isOutdated = () => this.#isClosed || request !== this.#turnRequest;
    await this.#loaded.promise;
    for (let first = this.#firstTurn(); number < first && !isOutdated(); first = this.#firstTurn()) {
      const isFetched = await this.#fetchOlder(Math.min(MAX_TURNS, first - number + 1));
      if (!isFetched) {
        return;
      }
    }
    if (isOutdated()) {
      return;
    }
    const section = this.#sections.get(number);
    if (section === undefined) {
      showText(this.#problem, `There is no turn ${number} in this transcript.`);
      return;
    }
    this.#isAtEnd = false;
    this.#content.querySelector(".wanted")?.classList.remove("wanted");
    section.focus();
  }

  /**
   * Returns the number that a turn of a recording has here; null if it is not one of these turns. A conversation may have begun before
   * its newest recording, whose turns are then the last ones here.
   */
  async locate(recording, number) {
    await this.#loaded.promise;
    if (this.#transcript === null) {
      return null;
    }
    const page = (source, turn) => getTranscript(source, { before: turn + 1, limit: 1 });
    try {
      const { turns: [wanted], turn_count: count } = await page({ recording }, number);
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

  /** Returns the transcript that is shown, without its turns, as soon as there is one. */
  async described() {
    await this.#loaded.promise;
    return this.#transcript;
  }

  #firstTurn() {
    return this.#sections.keys().next().value ?? 0;
  }

  #lastTurn() {
    return [...this.#sections.keys()].at(-1) ?? 0;
  }

  #noteChange(outdated) {
    if (this.#outdated !== "all") {
      this.#outdated = outdated;
    }
    this.#fetch();
  }

  /** Fetches what has changed until nothing has. Requests have a distance that depends on their cost. */
  async #fetch() {
    if (this.#isFetching || this.#isClosed || !this.#isShown || this.#outdated === null || this.#retry.isPending) {
      return;
    }
    clearTimeout(this.#timer);
    const wait = this.#nextFetch - Date.now();
    if (wait > 0) {
      this.#timer = setTimeout(() => this.#fetch(), wait);
      return;
    }
    this.#isFetching = true;
    const isWhole = this.#outdated === "all";
    this.#outdated = null;
    const started = Date.now();
    const limit = isWhole ? Math.min(MAX_TURNS, Math.max(PAGE_TURNS, this.#sections.size)) : CHANGED_TURNS;
    try {
      this.#merge(await getTranscript(this.#source, { limit }), isWhole, started);
      this.#retry.reset();
      this.#nextFetch = Date.now() + Math.max(MIN_INTERVAL, (Date.now() - started) * INTERVAL_FACTOR);
    } catch (error) {
      this.#noteFailure(error, isWhole);
    }
    this.#isFetching = false;
    this.#fetch();
  }

  #noteFailure(error, isWhole) {
    // A node without turns has no transcript yet. An event follows when it has.
    const isEmpty = error.status === 404 && this.#source.recording === undefined;
    if (isEmpty && this.#sections.size === 0) {
      this.#showNotes([NO_TURNS]);
    }
    showText(this.#problem, isEmpty ? "" : `The turns could not be read: ${error.text ?? error.message}`);
    if (error.status >= 400 && error.status < 500) {
      this.#nextFetch = Date.now() + MIN_INTERVAL;
      this.#loaded.resolve();
      return;
    }
    this.#outdated = isWhole || this.#outdated === "all" ? "all" : "last";
    this.#retry.fail();
  }

  /**
   * Shows the newest turns. Turns that continue those that are shown are added to them; others replace them, which needs a page with
   * more than the turns that an event may have changed.
   */
  #merge(transcript, isWhole, fetchedAt) {
    if (this.#isClosed) {
      return;
    }
    const isOther = this.#isDifferent(transcript);
    if (isOther && !isWhole) {
      this.#outdated = "all";
      return;
    }
    const { turns, ...description } = transcript;
    this.#transcript = description;
    showText(this.#problem, "");
    // Notes describe what the turns lack.
    this.#showNotes(turns.length === 0 ? [NO_TURNS] : description.notes);
    const heightBefore = this.#scroller.scrollHeight;
    this.#changeTurns(() => {
      this.#live?.discardBefore(fetchedAt);
      turns.forEach((turn) => this.#putTurn(turn));
      if (isOther) {
        this.#generation += 1;
        this.#keepOnly(turns);
      }
    });
    this.#finishChange(heightBefore);
    this.#loaded.resolve();
  }

  #showNotes(lines) {
    this.#notes.replaceChildren(...lines.map((line) => element("p", { class: "note" }, line)));
    this.#notes.hidden = lines.length === 0;
  }

  /** Returns true if the last turns do not continue those that are shown: the conversation is another one, or was rewound. */
  #isDifferent({ turns, turn_count: count, recording_id: recording, conversation_id: conversation }) {
    const known = this.#transcript;
    const last = this.#lastTurn();
    const isOther = (turn) => {
      const shown = this.#sections.get(turn.turn)?.turn;
      return shown !== undefined && shown.started_at !== turn.started_at;
    };
    const hasGap = turns.length > 0 && turns[0].turn > last + 1;
    return known?.recording_id !== recording || known.conversation_id !== conversation || count < last || hasGap || turns.some(isOther);
  }

  /** Changes turns without moving the first one that the reader sees, unless the reader is at the end. */
  #changeTurns(change) {
    const { top } = this.#scroller.getBoundingClientRect();
    const isVisible = (section) => section.element.getBoundingClientRect().bottom > top;
    const anchor = this.#isAtEnd ? undefined : [...this.#sections.values()].find(isVisible)?.element;
    const before = anchor?.getBoundingClientRect().top;
    change();
    if (anchor?.isConnected) {
      this.#scroller.scrollTop += anchor.getBoundingClientRect().top - before;
    }
  }

  #putTurn(turn) {
    const shown = this.#sections.get(turn.turn);
    if (shown !== undefined) {
      shown.update(turn);
      return;
    }
    const section = new TurnSection(turn, (one) => one.source === "agent" || this.#kind === "chat", this.#timelineOf(turn));
    this.#sections.set(turn.turn, section);
    this.#turns.append(section.element);
  }

  /** Returns the address of a turn's moment in the recording; null if it is not known. */
  #timelineOf({ turn, started_at: started }) {
    const { session, id, recording } = this.#source;
    const isRecorded = this.#hasTimeline && started && this.#transcript?.recording_id;
    return isRecorded ? href(recording === undefined ? ["node", session, id] : ["recording", recording], { turn, tab: "timeline" }) : null;
  }

  /** Leaves these turns, in their order. A conversation that was rewound has other ones than before. */
  #keepOnly(turns) {
    const before = this.#sections;
    this.#sections = new Map(turns.map(({ turn }) => [turn, before.get(turn)]));
    [...before].filter(([number]) => !this.#sections.has(number)).forEach(([, section]) => section.element.remove());
    [...this.#sections.values()].forEach(({ element: wanted }, index) => {
      if (this.#turns.children[index] !== wanted) {
        this.#turns.insertBefore(wanted, this.#turns.children[index]);
      }
    });
  }

  #finishChange(heightBefore) {
    this.#older.hidden = this.#firstTurn() <= 1;
    this.#showWorking();
    const hasGrown = this.#scroller.scrollHeight > heightBefore;
    this.#below.hidden = this.#isAtEnd || (this.#below.hidden && !hasGrown);
    this.#keepPosition();
  }

  #showOlder() {
    this.#isAtEnd = false;
    this.#fetchOlder(PAGE_TURNS);
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
      showText(this.#problem, `The older turns could not be read: ${error.text ?? error.message}`);
      return false;
    } finally {
      this.#older.disabled = false;
    }
  }

  #prependTurns(turns) {
    const newer = [...this.#sections];
    this.#sections.clear();
    turns.forEach((turn) => this.#putTurn(turn));
    newer.forEach(([number, section]) => this.#sections.set(number, section));
    this.#turns.prepend(...turns.map(({ turn }) => this.#sections.get(turn).element));
    this.#older.hidden = this.#firstTurn() <= 1;
  }

  /** Shows that the node works, and its prompt until the transcript has it. */
  #showWorking() {
    const last = this.#sections.get(this.#lastTurn())?.turn;
    const isWorking = this.#node?.state === "busy";
    const prompt = last !== undefined && !last.is_complete ? "" : (this.#node?.progress.last_prompt ?? "");
    showText(this.#working, isWorking ? `Working…${prompt === "" ? "" : ` on: ${prompt}`}` : "");
  }

  #noteScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    if (scrollHeight - scrollTop - clientHeight <= END_TOLERANCE) {
      this.#isAtEnd = true;
      this.#below.hidden = true;
    } else if (scrollTop < this.#lastTop) {
      // Otherwise the end has moved since the page scrolled to it.
      this.#isAtEnd = false;
    }
    this.#lastTop = scrollTop;
  }

  /** Leaves the end when the reader unfolds something, which would move out of view otherwise. */
  #noteUnfold({ target }) {
    if (target.closest("summary, .show-all")) {
      this.#isAtEnd = false;
    }
  }

  /** Stays at the end if the reader is there. */
  #keepPosition() {
    if (this.#isAtEnd) {
      this.#below.hidden = true;
      this.#scroller.scrollTop = this.#scroller.scrollHeight;
    }
  }
}
