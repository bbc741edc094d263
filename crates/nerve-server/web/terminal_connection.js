// The WebSocket of one terminal, which is opened again whenever it breaks and then continues at the same byte.

import { explainNode, terminalPath } from "./api.js";
import { RetryTimer } from "./retry.js";

/** Time without a message after which the connection is dead, in milliseconds. Heartbeats come every 15 s. */
const SILENCE_LIMIT = 40000;
const SILENCE_INTERVAL = 5000;
/** Time without a message after which a page that was in the background connects again, in milliseconds. */
const BACKGROUND_LIMIT = 20000;
/** Bytes of an offset before the output in a binary message. */
const OFFSET_BYTES = 8;
/** Output after which the page reports its position, so that the server sends no more than it can show. */
const ACK_INTERVAL = 64 * 1024;

/** Code with which the server closes the connection after a message that is too large (RFC 6455, section 7.4.1). */
const TOO_LARGE = 1009;

/**
 * Receives a terminal over a WebSocket. Dispatches "dump" and "resume" with `cols` and `rows`, "output" with `bytes`
 * and `end`, "resize", "refused" with a message, and "end" with a reason, each as `detail`. Dispatches "state" when
 * `isLive` changes.
 */
export class TerminalConnection extends EventTarget {
  #node;
  #socket = null;
  #retry = new RetryTimer(() => this.#connect());
  #silenceTimer = null;
  /** The number of the last attempt that was refused. */
  #attempt = 0;
  #stream = null;
  #offset = null;
  /** True if the next binary message is a dump. */
  #expectsDump = false;
  #acknowledged = 0;
  #lastReceived = 0;
  #listeners = null;

  /** True if output arrives as the program writes it. */
  isLive = false;
  /** The last time at which the terminal was up to date; null before the first time. */
  lastLive = null;

  constructor(node) {
    super();
    this.#node = node;
  }

  /** Connects, and again after each break, until it is closed or the program ends. */
  open() {
    if (this.#listeners !== null) {
      return;
    }
    this.#listeners = new AbortController();
    const listen = (target, name, listener) => target.addEventListener(name, listener, { signal: this.#listeners.signal });
    listen(window, "online", () => this.#connect());
    listen(window, "pageshow", (event) => event.persisted && this.#connect());
    listen(document, "visibilitychange", () => document.visibilityState === "visible" && this.#checkReturn());
    this.#silenceTimer = setInterval(() => this.#checkSilence(), SILENCE_INTERVAL);
    this.#connect();
  }

  close() {
    this.#listeners?.abort();
    this.#listeners = null;
    clearInterval(this.#silenceTimer);
    this.#drop();
  }

  /** Types keys. Returns false if there is no connection: they are not typed later, when the screen may be another one. */
  sendKeys(keys) {
    return this.#send(typeof keys === "string" ? JSON.stringify({ type: "keys", text: keys }) : keys);
  }

  /** Reports that the output before this offset is shown. */
  acknowledge(offset) {
    if (offset - this.#acknowledged >= ACK_INTERVAL || offset < this.#acknowledged) {
      this.#acknowledged = offset;
      this.#send(JSON.stringify({ type: "ack", offset }));
    }
  }

  #send(message) {
    const isOpen = this.#socket?.readyState === WebSocket.OPEN;
    if (isOpen) {
      this.#socket.send(message);
    }
    return isOpen;
  }

  #connect() {
    this.#drop();
    const position = this.#offset === null ? null : `${this.#stream}-${this.#offset}`;
    const url = new URL(terminalPath(this.#node, position), location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    this.#lastReceived = Date.now();
    // A socket that was replaced may still have events.
    const listen = (name, listener) => socket.addEventListener(name, (event) => socket === this.#socket && listener(event));
    let hasOpened = false;
    listen("open", () => {
      hasOpened = true;
    });
    listen("message", ({ data }) => this.#read(data));
    listen("close", ({ code, reason }) => {
      if (code === TOO_LARGE) {
        this.#dispatch("refused", reason);
      }
      this.#reconnectLater(hasOpened);
    });
  }

  #read(data) {
    this.#lastReceived = Date.now();
    if (typeof data === "string") {
      this.#readJson(JSON.parse(data));
    } else {
      this.#readOutput(data);
    }
    if (this.isLive) {
      this.lastLive = this.#lastReceived;
    }
  }

  #readJson(message) {
    switch (message.type) {
      case "dump":
      case "resume":
        this.#stream = message.stream;
        this.#offset = message.type === "resume" ? message.offset : null;
        this.#expectsDump = message.type === "dump";
        this.#acknowledged = message.offset;
        this.#retry.reset();
        this.#setLive(true);
        this.#dispatch(message.type, message);
        break;
      case "resize":
        this.#dispatch("resize", message);
        break;
      case "error":
        this.#dispatch("refused", message.hint ? `${message.message} (${message.hint})` : message.message);
        break;
      case "end":
        this.#end(message.reason);
        break;
    }
  }

  #readOutput(data) {
    const start = Number(new DataView(data).getBigUint64(0));
    const bytes = new Uint8Array(data, OFFSET_BYTES);
    this.#offset = this.#expectsDump ? start : start + bytes.length;
    if (this.#expectsDump) {
      // The server waits for the first report after a dump.
      this.#acknowledged = -ACK_INTERVAL;
    }
    this.#expectsDump = false;
    this.#dispatch("output", { bytes, end: this.#offset });
  }

  #dispatch(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  #setLive(isLive) {
    if (this.isLive !== isLive) {
      this.isLive = isLive;
      this.dispatchEvent(new Event("state"));
    }
  }

  #end(reason) {
    this.close();
    this.#offset = null;
    this.#dispatch("end", reason);
  }

  #checkSilence() {
    if (this.#socket !== null && Date.now() - this.#lastReceived > SILENCE_LIMIT) {
      this.#connect();
    }
  }

  /** Checks the connection of a page that becomes visible: after the sleep of a phone, keys would be sent into a dead one. */
  #checkReturn() {
    if (!this.isLive || Date.now() - this.#lastReceived > BACKGROUND_LIMIT) {
      this.#connect();
    }
  }

  async #reconnectLater(hasOpened) {
    this.#drop();
    this.#retry.fail();
    if (hasOpened) {
      return;
    }
    // A refused WebSocket gives no reason.
    this.#attempt += 1;
    const attempt = this.#attempt;
    const problem = await explainNode(this.#node).then(() => null, (error) => error);
    const isFinal = problem?.status >= 400 && problem.status < 500 && problem.status !== 429;
    if (isFinal && this.#retry.isPending && this.#attempt === attempt) {
      this.#end(problem.text);
    }
  }

  #drop() {
    this.#retry.cancel();
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#setLive(false);
  }
}
