// Fetches changes until none are left, and repeats failed fetches later.

import { RetryTimer } from "./retry.js";

/**
 * Runs one fetch at a time, so that an older reply never replaces a newer one. Dispatches "current" to its store when all changes have
 * been fetched, and "failed" when a request has failed: it is repeated later.
 */
export class FetchLoop {
  #store;
  #isOpen;
  #hasChanges;
  #fetchChanges;
  #isRunning = false;
  #retry = new RetryTimer(() => this.run());

  /** True if all changes were fetched, or the store is not open. */
  isCurrent;

  /**
   * `isOpen` returns true while the store shows anything, and `hasChanges` while there is something to fetch. `fetchChanges` fetches it, and
   * resolves to false on failure.
   */
  constructor(store, { isOpen, hasChanges, fetchChanges }) {
    this.#store = store;
    this.#isOpen = isOpen;
    this.#hasChanges = hasChanges;
    this.#fetchChanges = fetchChanges;
    this.isCurrent = !isOpen();
  }

  /** Fetches all changes. */
  async run() {
    if (!this.#isOpen()) {
      return;
    }
    this.isCurrent = false;
    if (this.#isRunning) {
      return;
    }
    this.#isRunning = true;
    this.#retry.cancel();
    let hasSucceeded = true;
    while (hasSucceeded && this.#hasChanges()) {
      hasSucceeded = await this.#fetchChanges();
    }
    this.#isRunning = false;
    this.#end(hasSucceeded);
  }

  /** Fetches all changes unless a retry is pending: events do not start one. */
  wake() {
    if (!this.#retry.isPending) {
      this.run();
    }
  }

  /** Cancels retries of a store that was closed. */
  close() {
    this.#retry.cancel();
    this.isCurrent = true;
  }

  #end(hasSucceeded) {
    this.isCurrent = hasSucceeded || !this.#isOpen();
    if (this.isCurrent) {
      this.#retry.reset();
    } else {
      this.#retry.fail();
    }
    this.#store.dispatchEvent(new Event(this.isCurrent ? "current" : "failed"));
  }
}
