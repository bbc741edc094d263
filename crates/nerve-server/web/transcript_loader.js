// Requests for the turns of a node or of a recording.

import { getTranscript } from "./api.js";
import { RetryTimer } from "./retry.js";

/** Turns that are fetched at first. */
const FIRST_TURNS = 20;
/** Turns that an event may have changed: the last one, and the one that has ended before it. */
const CHANGED_TURNS = 2;
/** Maximum number of turns of a request. */
export const MAX_TURNS = 1000;
/** Minimum time between requests for changes in milliseconds, and as a multiple of the time that the last one took. */
const MIN_INTERVAL = 500;
const INTERVAL_FACTOR = 4;

/**
 * Fetches the newest turns when they may have changed, one request at a time, at intervals that depend on their cost. Requests that fail
 * are repeated.
 */
export class TranscriptLoader {
  #source;
  #receiver;
  #isActive = false;
  /** The turns to fetch: none, those that an event may have changed, or all that are shown. */
  #outdated = "all";
  #isFetching = false;
  #retry = new RetryTimer(() => this.#fetch());
  #timer = null;
  #nextFetch = 0;
  #loaded = Promise.withResolvers();

  /**
   * `receiver` has `countTurns()`, the number of turns that are shown; `receive(transcript, isWhole, fetchedAt)`, which
   * returns false if all turns have to be fetched; and `fail(error)`. `isWhole` is true if the transcript has at least
   * all turns that are shown.
   */
  constructor(source, receiver) {
    this.#source = source;
    this.#receiver = receiver;
  }

  /** Resolves as soon as there are turns, or none. */
  get loaded() {
    return this.#loaded.promise;
  }

  /** Fetches changes from now on. */
  open() {
    this.#isActive = true;
    this.#fetch();
  }

  /** Sends no more requests until it is opened again. */
  close() {
    this.#isActive = false;
    clearTimeout(this.#timer);
    this.#retry.cancel();
  }

  /** Fetches the last turns, or all that are shown: `"last"` or `"all"`. */
  invalidate(scope) {
    if (this.#outdated !== "all") {
      this.#outdated = scope;
    }
    this.#fetch();
  }

  /** Fetches until nothing is outdated. */
  async #fetch() {
    if (this.#isFetching || !this.#isActive || this.#outdated === null || this.#retry.isPending) {
      return;
    }
    clearTimeout(this.#timer);
    const wait = this.#nextFetch - Date.now();
    if (wait > 0) {
      this.#timer = setTimeout(() => this.#fetch(), wait);
      return;
    }
    this.#isFetching = true;
    await this.#fetchNewest(this.#outdated === "all");
    this.#isFetching = false;
    this.#fetch();
  }

  async #fetchNewest(isWhole) {
    this.#outdated = null;
    const started = Date.now();
    const limit = isWhole ? Math.min(MAX_TURNS, Math.max(FIRST_TURNS, this.#receiver.countTurns())) : CHANGED_TURNS;
    try {
      const transcript = await getTranscript(this.#source, { limit });
      this.#retry.reset();
      this.#nextFetch = Date.now() + Math.max(MIN_INTERVAL, (Date.now() - started) * INTERVAL_FACTOR);
      if (this.#receiver.receive(transcript, isWhole, started)) {
        this.#loaded.resolve();
      } else {
        this.#outdated = "all";
      }
    } catch (error) {
      this.#receiver.fail(error);
      this.#handleFailure(error, isWhole);
    }
  }

  #handleFailure(error, isWhole) {
    if (error.status >= 400 && error.status < 500) {
      // An event follows when the reply would differ.
      this.#nextFetch = Date.now() + MIN_INTERVAL;
      this.#loaded.resolve();
      return;
    }
    this.#outdated = isWhole || this.#outdated === "all" ? "all" : "last";
    this.#retry.fail();
  }
}
