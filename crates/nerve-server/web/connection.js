// The stream of events, which is opened again whenever it breaks.

/** Delays before the stream is opened again, in milliseconds. */
const FIRST_DELAY = 250;
const LAST_DELAY = 5000;
/** Time in the background after which the stream is not trusted any more, in milliseconds. */
const BACKGROUND_LIMIT = 20000;

/** Events after which the description of a node may be another one. */
const TYPES = [
  "NODE_CREATED",
  "NODE_READY",
  "NODE_BUSY",
  "NODE_BLOCKED",
  "NODE_SUSPENDED",
  "NODE_QUEUE_CHANGED",
  "NODE_STOPPED",
  "OUTPUT_PARSED",
  "RESULT_READY",
  "SERVER_SHUTDOWN",
];

/**
 * Reads the server's events. Dispatches "open" after each connection, "event" with the event as `detail`, and "lost"
 * when the stream breaks. It continues after the last event that was received.
 */
export class EventConnection extends EventTarget {
  #source = null;
  #timer = null;
  #failures = 0;
  #lastId = null;
  #hiddenSince = null;
  #isClosed = false;
  #listeners = new AbortController();

  /** The time at which what is shown was up to date for the last time. */
  lastLive = Date.now();
  isLive = false;

  open() {
    const listen = (target, name, listener) =>
      target.addEventListener(name, listener, { signal: this.#listeners.signal });
    listen(window, "online", () => this.restart());
    listen(window, "pageshow", (event) => event.persisted && this.restart());
    listen(document, "visibilitychange", () => this.#noteVisibility());
    this.#connect();
  }

  close() {
    this.#isClosed = true;
    this.#listeners.abort();
    this.#drop();
  }

  /** Opens a new stream at once. */
  restart() {
    if (!this.#isClosed) {
      this.#failures = 0;
      this.#connect();
    }
  }

  #connect() {
    this.#drop();
    const query = new URLSearchParams({ types: TYPES.join(",") });
    if (this.#lastId !== null) {
      query.set("since", this.#lastId);
    }
    const source = new EventSource(`/events?${query}`);
    this.#source = source;
    source.addEventListener("open", () => {
      this.#failures = 0;
      this.isLive = true;
      this.dispatchEvent(new Event("open"));
    });
    source.addEventListener("message", (message) => {
      this.#lastId = message.lastEventId || this.#lastId;
      this.dispatchEvent(new CustomEvent("event", { detail: JSON.parse(message.data) }));
    });
    // Also the server's last message, if the session has ended.
    source.addEventListener("error", () => this.#lose());
  }

  /** Closes the stream and opens another one later. The browser's own way to reconnect has a fixed delay. */
  #lose() {
    if (this.isLive) {
      this.lastLive = Date.now();
    }
    this.#drop();
    const longest = Math.min(LAST_DELAY, FIRST_DELAY * 2 ** this.#failures);
    this.#failures += 1;
    // Pages that were disconnected together do not come back together.
    this.#timer = setTimeout(() => this.#connect(), longest * (0.5 + Math.random() / 2));
    this.dispatchEvent(new Event("lost"));
  }

  #drop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    this.isLive = false;
  }

  #noteVisibility() {
    if (document.visibilityState === "hidden") {
      this.#hiddenSince = Date.now();
      return;
    }
    const hiddenSince = this.#hiddenSince;
    this.#hiddenSince = null;
    if (!this.isLive || (hiddenSince !== null && Date.now() - hiddenSince > BACKGROUND_LIMIT)) {
      this.restart();
    }
  }
}
