// A request of which only the latest reply counts, repeated after failures.

import { RetryTimer } from "./retry.js";

/** Sends one kind of request. A reply or an error that a later request has overtaken is discarded. */
export class LatestRequest {
  #request;
  #receive;
  #fail;
  /** The number of the last request. */
  #number = 0;
  #retry = new RetryTimer(() => this.send());

  /**
   * `request` returns a promise of the reply. Calls `receive` with the reply and whether the previous request failed.
   * Calls `fail` with an error; the request is then repeated later, unless that is useless.
   */
  constructor(request, { receive, fail }) {
    this.#request = request;
    this.#receive = receive;
    this.#fail = fail;
  }

  /** Sends the request now. */
  async send() {
    this.cancel();
    const number = this.#number;
    let reply;
    try {
      reply = await this.#request();
    } catch (error) {
      if (number === this.#number) {
        this.#retry.fail(error);
        this.#fail(error);
      }
      return;
    }
    if (number === this.#number) {
      const hadFailed = this.#retry.hasFailed;
      this.#retry.reset();
      this.#receive(reply, hadFailed);
    }
  }

  /** Sends the request now if its reply would be shown; otherwise cancels it. */
  sendIf(isShown) {
    if (isShown) {
      this.send();
    } else {
      this.cancel();
    }
  }

  /** Discards the pending reply and cancels retries. */
  cancel() {
    this.#retry.cancel();
    this.#number += 1;
  }
}
