// Requests for the output of a recording: the terminal at a position, and the pages that follow it.

import { describeError, readRecording } from "./api.js";
import { OutputBuffer } from "./output_buffer.js";
import { retryDelay } from "./retry.js";

/** Output that waits to be shown, in bytes. Below it the next page is fetched. */
const MIN_QUEUED = 128 * 1024;
/** Intervals of requests for new output of a live recording, and for the progress of an index, in milliseconds. */
const LIVE_INTERVAL = 1000;
const INDEX_INTERVAL = 100;

/** Returns true if a retry would fail with the same error. A server that is busy (429) or slow (408) recovers. */
function isFinal({ status }) {
  return status >= 400 && status < 500 && ![408, 429].includes(status);
}

/**
 * Fetches one recording. Dispatches "terminal" with the terminal at a position, "problem" and "progress" with a text or
 * null, each as `detail`, and "failed" when the last seek has failed for good.
 */
export class RecordingReader extends EventTarget {
  #recording;
  /** The number of the last seek: replies to earlier requests are discarded. */
  #generation = 0;
  /**
   * The last fetch of pages that is running, delays included: its generation, and a promise that resolves when it
   * `ends`; null if none is running.
   */
  #fetch = null;
  /** The target of a seek that waits for the one before; null if none does. */
  #waiting = null;
  #failures = 0;
  #isClosed = false;

  /** The output after the last terminal. */
  buffer = new OutputBuffer();
  /** True until the terminal of the last seek is there. */
  isSeeking = false;
  /** The target of the last seek if it has failed for good; else null. */
  failedTarget = null;
  /** True while the recording may grow. */
  isLive = false;

  /** `recording` is `{ recording, machine }`: an id, and the machine if it is another one. */
  constructor(recording) {
    super();
    this.#recording = recording;
  }

  close() {
    this.#isClosed = true;
    this.#generation += 1;
  }

  /**
   * Fetches the terminal at a target, `{ at }` in seconds or `{ offset }`, and the output after it. While a person
   * drags, only the latest target is requested.
   */
  async seek(target) {
    this.#generation += 1;
    this.#waiting = target;
    this.failedTarget = null;
    if (this.isSeeking) {
      return;
    }
    this.isSeeking = true;
    while (this.#waiting !== null && !this.#isClosed) {
      const next = this.#waiting;
      this.#waiting = null;
      await this.#requestTerminal(next).catch((error) => this.#handleSeekFailure(next, error));
    }
    this.isSeeking = false;
  }

  /** Fetches the next page if little output is left. */
  async fetchNext() {
    const { buffer } = this;
    if (this.#fetch?.generation === this.#generation || this.isSeeking || buffer.queuedBytes > MIN_QUEUED || (buffer.isEnd && !this.isLive)) {
      return;
    }
    await this.#runFetch(async (generation) => {
      try {
        const reply = await this.#requestPage(generation);
        await wait(reply?.is_end ? LIVE_INTERVAL : 0);
      } catch (error) {
        if (generation === this.#generation) {
          this.#reportFailure(error);
          await wait(this.#nextDelay());
        }
      }
    });
  }

  /** Fetches the output up to an offset. Returns true if the output is complete, and false after a seek or a final failure. */
  async fetchUntil(endOffset) {
    const generation = this.#generation;
    while (this.#fetch?.generation === generation) {
      await this.#fetch.ends;
    }
    return generation === this.#generation && this.#runFetch(() => this.#requestPages(generation, endOffset));
  }

  /**
   * Fetches what a terminal has shown up to an offset: the terminal at least `size` bytes before it, and the chunks
   * between. Returns null after a seek or a failure.
   */
  async fetchBefore(offset, time, size) {
    const generation = this.#generation;
    try {
      const start = { offset: Math.max(0, offset - size) };
      const { terminal, ...first } = await readRecording(this.#recording, start);
      const chunks = [...first.chunks];
      for (let page = first; !page.is_end && page.next_offset < offset && generation === this.#generation; ) {
        page = await readRecording(this.#recording, { offset: page.next_offset, output_only: true });
        chunks.push(...page.chunks);
      }
      const isShown = (chunk) => chunk.offset < offset || (chunk.data === undefined && chunk.at_ms <= time);
      return generation === this.#generation && first.is_ready ? { terminal, chunks: chunks.filter(isShown) } : null;
    } catch (error) {
      if (generation === this.#generation) {
        this.#reportFailure(error);
      }
      return null;
    }
  }

  /** Appends the next page to the buffer. Returns its reply; null if a seek came first. */
  async #requestPage(generation) {
    const { growth } = this.buffer;
    const reply = await readRecording(this.#recording, { offset: this.buffer.nextOffset, output_only: true });
    if (generation !== this.#generation) {
      return null;
    }
    this.#failures = 0;
    this.buffer.append(reply, growth);
    this.#dispatch("problem");
    return reply;
  }

  /** Appends the pages up to an offset to the buffer, and repeats requests that fail. Returns false after a seek or a final failure. */
  async #requestPages(generation, endOffset) {
    for (let isEnd = false; !isEnd && this.buffer.nextOffset < endOffset; ) {
      try {
        isEnd = (await this.#requestPage(generation))?.is_end;
      } catch (error) {
        if (generation === this.#generation) {
          this.#reportFailure(error);
          if (isFinal(error)) {
            return false;
          }
          await wait(this.#nextDelay());
        }
      }
      if (generation !== this.#generation) {
        return false;
      }
    }
    return true;
  }

  /** Runs a fetch of pages, which must not reject, with the current generation. Returns its result. */
  async #runFetch(run) {
    const generation = this.#generation;
    const current = { generation, ends: run(generation) };
    this.#fetch = current;
    const result = await current.ends;
    if (this.#fetch === current) {
      this.#fetch = null;
    }
    return result;
  }

  async #requestTerminal(target) {
    const generation = this.#generation;
    const { growth } = this.buffer;
    const reply = await readRecording(this.#recording, target);
    this.#failures = 0;
    const isLatest = generation === this.#generation;
    if (this.#isClosed || (!isLatest && !reply.is_ready)) {
      return;
    }
    if (!reply.is_ready) {
      this.#dispatch("progress", `Preparing this long recording: ${Math.floor(100 * (reply.indexed ?? 0))} %`);
      await wait(INDEX_INTERVAL);
      this.#waiting ??= target;
      return;
    }
    this.buffer.clear();
    if (isLatest) {
      this.buffer.append(reply, growth);
    }
    this.#dispatch("problem");
    this.#dispatch("progress");
    // A picture on the way to the latest position is worth showing.
    this.#dispatch("terminal", reply.terminal);
  }

  async #handleSeekFailure(target, error) {
    this.#reportFailure(error);
    if (this.#waiting !== null) {
      return;
    }
    if (isFinal(error)) {
      // The buffered output belongs to another position.
      this.failedTarget = target;
      this.buffer.clear();
      this.#dispatch("progress");
      this.#dispatch("failed");
    } else {
      await wait(this.#nextDelay());
      this.#waiting ??= target;
    }
  }

  #nextDelay() {
    const delay = retryDelay(this.#failures);
    this.#failures += 1;
    return delay;
  }

  #reportFailure(error) {
    this.#dispatch("problem", `The recording could not be read: ${describeError(error)}`);
  }

  #dispatch(name, detail = null) {
    if (!this.#isClosed) {
      this.dispatchEvent(new CustomEvent(name, { detail }));
    }
  }
}

function wait(time) {
  return new Promise((resolve) => setTimeout(resolve, time));
}
