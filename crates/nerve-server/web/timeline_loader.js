// Requests for the overview of a recording. The server replies when it differs from the one that is shown.

import { getTimeline } from "./api.js";
import { RetryTimer } from "./retry.js";

/** Fetches the overview and its changes while the page is visible: a waiting request holds a connection, of which browsers have few. */
export class TimelineLoader {
  #source;
  #receive;
  #fail;
  #isOpen = false;
  /** Aborts the running request; null if there is none. */
  #abort = null;
  /** True if the overview may have been created since the running request was sent. */
  #isOutdated = false;
  /** The version of the overview that is shown; undefined until that is complete. */
  #version = undefined;
  #retry = new RetryTimer(() => this.#start());
  #handleVisibility = () => (document.hidden ? this.#stop() : this.#start());

  /** Calls `receive` with each overview that differs from the one before, and `fail` with an error: the request is then repeated later. */
  constructor(source, { receive, fail }) {
    this.#source = source;
    this.#receive = receive;
    this.#fail = fail;
  }

  open() {
    this.#isOpen = true;
    document.addEventListener("visibilitychange", this.#handleVisibility);
    this.#start();
  }

  close() {
    this.#isOpen = false;
    document.removeEventListener("visibilitychange", this.#handleVisibility);
    this.#stop();
  }

  /** Requests the overview unless a request is waiting for it: there was none, and one may exist now. */
  wake() {
    if (this.#abort !== null) {
      this.#isOutdated = true;
    } else if (!this.#retry.isPending) {
      this.#start();
    }
  }

  #stop() {
    this.#retry.cancel();
    this.#abort?.abort();
    this.#abort = null;
  }

  async #start() {
    if (!this.#isOpen || this.#abort !== null || document.hidden) {
      return;
    }
    const abort = new AbortController();
    this.#abort = abort;
    try {
      await this.#follow(abort.signal);
    } catch (error) {
      if (!abort.signal.aborted) {
        this.#retry.fail(error);
        this.#fail(error);
      }
    }
    if (this.#abort === abort) {
      this.#abort = null;
      if (this.#isOutdated) {
        this.wake();
      }
    }
  }

  /** Fetches the overview until it cannot change any more. */
  async #follow(signal) {
    for (let canChange = true; canChange; ) {
      this.#isOutdated = false;
      const timeline = await getTimeline(this.#source, this.#version, signal);
      if (signal.aborted) {
        return;
      }
      this.#retry.reset();
      if (this.#version === undefined || timeline.version !== this.#version) {
        this.#version = timeline.is_complete ? timeline.version : undefined;
        this.#receive(timeline);
      }
      // A node that starts again has another recording.
      canChange = !timeline.is_complete || timeline.live || this.#source.recording === undefined;
    }
  }
}
