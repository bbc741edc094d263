// The stream of events over a WebSocket, which is opened again whenever it breaks.

import { eventsPath } from "./api.js";
import { RetryTimer } from "./retry.js";

/** Time without an event or a heartbeat after which the stream is dead, in milliseconds. Heartbeats come every 15 s. */
const SILENCE_LIMIT = 40000;
const SILENCE_INTERVAL = 5000;
/** Time in the background after which the stream is no longer trusted, in milliseconds. */
const BACKGROUND_LIMIT = 20000;

/** Events after which the description of a node may be another one. */
export const NODE_CHANGES = [
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
];

/** Events after which the description of a node or a run may be another one. */
const STATE_CHANGES = [
  ...NODE_CHANGES,
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
 * the stream breaks, and "current" when `isCurrent` changes.
 */
export class EventConnection extends EventTarget {
  #filter;
  #resumes;
  #machine;
  #socket = null;
  #retry = new RetryTimer(() => this.#connect());
  /** The server that counts the events, and the number of the last one; null before the first connection. */
  #server = null;
  #seq = null;
  #hiddenSince = null;
  #silenceTimer = null;
  #lastReceived = 0;
  #isLive = false;
  #isClosed = false;
  #listeners = new AbortController();

  /** True if the view is up to date: the stream is open, and everything was fetched since. */
  isCurrent = false;
  /** The last time at which the view was up to date; null before the first time. */
  lastLive = null;

  /**
   * `filter` selects events as the query of `/events` does; without it, all nodes are followed. A stream that `resumes` continues after
   * the last event that was received, otherwise with the next event of the server. With a `machine`, the events are those of that one.
   */
  constructor(filter = {}, { types = STATE_CHANGES, resumes = true, machine = null } = {}) {
    super();
    this.#filter = { ...filter, types: types.join(",") };
    this.#resumes = resumes;
    this.#machine = machine;
  }

  open() {
    const listen = (target, name, listener) =>
      target.addEventListener(name, listener, { signal: this.#listeners.signal });
    listen(window, "online", () => this.restart());
    listen(window, "pageshow", (event) => event.persisted && this.restart());
    listen(document, "visibilitychange", () => this.#checkVisibility());
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

  /** Sets whether all changes were fetched. */
  setCurrent(isCurrent) {
    this.isCurrent = isCurrent && this.#isLive;
    if (this.isCurrent) {
      this.#retry.reset();
      this.lastLive = Date.now();
    }
    this.dispatchEvent(new Event("current"));
  }

  /** Records that the connection is alive. */
  #recordActivity() {
    this.#lastReceived = Date.now();
    if (this.isCurrent) {
      this.lastLive = this.#lastReceived;
    }
  }

  #checkSilence() {
    if (this.#socket !== null && Date.now() - this.#lastReceived > SILENCE_LIMIT) {
      this.#reconnectLater();
    }
  }

  #connect() {
    this.#drop();
    const since = this.#resumes && this.#server !== null ? { since: `${this.#server}-${this.#seq}` } : {};
    const url = new URL(eventsPath(this.#machine, { ...this.#filter, ...since }), location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    this.#socket = socket;
    this.#lastReceived = Date.now();
    // A socket that was replaced may still have events.
    const listen = (name, listener) => socket.addEventListener(name, (event) => socket === this.#socket && listener(event));
    listen("message", ({ data }) => this.#read(JSON.parse(data)));
    listen("close", () => this.#reconnectLater());
  }

  #read(message) {
    this.#recordActivity();
    if (message.type === "start") {
      this.#server = message.server;
      this.#seq = message.seq;
      this.#isLive = true;
      this.dispatchEvent(new Event("open"));
    } else if (message.type === "event") {
      // A notice about lost events may have no number.
      this.#seq = message.seq || this.#seq;
      this.dispatchEvent(new CustomEvent("event", { detail: message }));
    }
  }

  #reconnectLater() {
    this.#drop();
    this.#retry.fail();
    this.dispatchEvent(new Event("lost"));
  }

  #drop() {
    this.#retry.cancel();
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#isLive = false;
    this.isCurrent = false;
  }

  #checkVisibility() {
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
