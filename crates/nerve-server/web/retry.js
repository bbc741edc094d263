// Repeated attempts, each later than the one before.

const FIRST_DELAY = 250;
const LAST_DELAY = 5000;

/**
 * Returns the delay after this number of failures in milliseconds. It is random, so that pages that failed together do
 * not retry together.
 */
export function retryDelay(failures) {
  return Math.min(LAST_DELAY, FIRST_DELAY * 2 ** failures) * (0.5 + Math.random() / 2);
}

/** Returns true if a retry would fail with the same error: the session has ended, or the requested object is gone. */
function isFinal(error) {
  return [401, 404].includes(error.status);
}

/** Repeats a function after failures, each time later. */
export class RetryTimer {
  #attempt;
  #failures = 0;
  #timer = null;

  constructor(attempt) {
    this.#attempt = attempt;
  }

  /** True while an attempt is scheduled. */
  get isPending() {
    return this.#timer !== null;
  }

  /** True if attempts have failed since the last success. */
  get hasFailed() {
    return this.#failures > 0;
  }

  /** Records a failure, and schedules the next attempt, unless that would fail with the same error. */
  fail(error = {}) {
    this.cancel();
    if (!isFinal(error)) {
      this.#timer = setTimeout(() => this.#run(), retryDelay(this.#failures));
    }
    this.#failures += 1;
  }

  /** Removes the scheduled attempt. */
  cancel() {
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Records a success: the next delay is the first one again. */
  reset() {
    this.cancel();
    this.#failures = 0;
  }

  #run() {
    this.#timer = null;
    this.#attempt();
  }
}
