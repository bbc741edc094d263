// The stream of events, which is opened again whenever it breaks.

import { retryDelay } from "./retry.js";

/** Time without an event or a heartbeat after which the stream is dead, in milliseconds. Heartbeats come after 15 s. */
const SILENCE_LIMIT = 40000;
const SILENCE_INTERVAL = 5000;
/** Time in the background after which the stream is not trusted any more, in milliseconds. */
const BACKGROUND_LIMIT = 20000;

/** Events after which the description of a node or a run may be another one. */
const TYPES = [
  "NODE_CREATED",
  "NODE_READY",
  "NODE_BUSY",
  "NODE_BLOCKED",
  "NODE_SUSPENDED",
  "NODE_QUEUE_CHANGED",
  "NODE_STOPPED",
  "NODE_REMOVED",
  "OUTPUT_PARSED",
  "RESULT_READY",
  "GRAPH_STARTED",
  "STEP_STARTED",
  "STEP_COMPLETED",
  "STEP_FAILED",
  "GATE_ASKED",
  "GATE_ANSWERED",
  "GRAPH_COMPLETED",
  "SERVER_SHUTDOWN",
];

/**
 * Reads the server's events. Dispatches "open" after each connection, "event" with the event as `detail`, "lost" when
 * the stream breaks, and "current" when `isCurrent` changes. It continues after the last event that was received.
 */
export class EventConnection extends EventTarget {
  #filter;
  #source = null;
  #timer = null;
  #failures = 0;
  #lastId = null;
  #hiddenSince = null;
  #silenceTimer = null;
  #lastHeard = 0;
  #isLive = false;
  #isClosed = false;
  #listeners = new AbortController();

  /** True if the view is up to date: the stream is open, and everything was fetched since. */
  isCurrent = false;
  /** The time at which what is shown was up to date for the last time; null before the first time. */
  lastLive = null;

  /** `filter` selects events as the query of `/events` does; without it, all nodes are followed. */
  constructor(filter = {}) {
    super();
    this.#filter = filter;
  }

  open() {
    const listen = (target, name, listener) =>
      target.addEventListener(name, listener, { signal: this.#listeners.signal });
    listen(window, "online", () => this.restart());
    listen(window, "pageshow", (event) => event.persisted && this.restart());
    listen(document, "visibilitychange", () => this.#noteVisibility());
    this.#silenceTimer = setInterval(() => this.#checkSilence(), SILENCE_INTERVAL);
    this.#connect();
  }

  close() {
    this.#isClosed = true;
    clearInterval(this.#silenceTimer);
    this.#listeners.abort();
    this.#drop();
  }

  /** Opens a new stream at once. */
  restart() {
    if (!this.#isClosed) {
      this.#connect();
      this.dispatchEvent(new Event("lost"));
    }
  }

  /** Notes whether everything that has changed was fetched. */
  setCurrent(isCurrent) {
    this.isCurrent = isCurrent && this.#isLive;
    if (this.isCurrent) {
      this.#failures = 0;
      this.lastLive = Date.now();
    }
    this.dispatchEvent(new Event("current"));
  }

  /** Notes a sign of life. */
  #recordActivity() {
    this.#lastHeard = Date.now();
    if (this.isCurrent) {
      this.lastLive = this.#lastHeard;
    }
  }

  #checkSilence() {
    if (this.#source !== null && Date.now() - this.#lastHeard > SILENCE_LIMIT) {
      this.#reconnectLater();
    }
  }

  #connect() {
    this.#drop();
    const query = new URLSearchParams({ ...this.#filter, types: TYPES.join(",") });
    if (this.#lastId !== null) {
      query.set("since", this.#lastId);
    }
    const source = new EventSource(`/events?${query}`);
    this.#source = source;
    this.#lastHeard = Date.now();
    source.addEventListener("open", () => {
      this.#recordActivity();
      this.#isLive = true;
      this.dispatchEvent(new Event("open"));
    });
    source.addEventListener("heartbeat", () => this.#recordActivity());
    source.addEventListener("message", (message) => {
      this.#recordActivity();
      this.#lastId = message.lastEventId || this.#lastId;
      this.dispatchEvent(new CustomEvent("event", { detail: JSON.parse(message.data) }));
    });
    // Also the server's last message, if the session has ended.
    source.addEventListener("error", () => {
      this.#recordActivity();
      this.#reconnectLater();
    });
  }

  /** Closes the stream and opens another one later. The browser's own way to reconnect has a fixed delay. */
  #reconnectLater() {
    this.#drop();
    this.#timer = setTimeout(() => this.#connect(), retryDelay(this.#failures));
    this.#failures += 1;
    this.dispatchEvent(new Event("lost"));
  }

  #drop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    this.#isLive = false;
    this.isCurrent = false;
  }

  #noteVisibility() {
    if (document.visibilityState === "hidden") {
      this.#hiddenSince = Date.now();
      return;
    }
    const hiddenSince = this.#hiddenSince;
    this.#hiddenSince = null;
    if (!this.#isLive || (hiddenSince !== null && Date.now() - hiddenSince > BACKGROUND_LIMIT)) {
      this.restart();
    }
  }
}
