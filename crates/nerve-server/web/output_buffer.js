// The output of a recording that was fetched and is not shown yet.

/** Holds pages of output in their order, as chunks with a time `at_ms`, and knows where the next page begins. */
export class OutputBuffer {
  #chunks = [];
  #queuedBytes = 0;
  #nextOffset = 0;
  #isEnd = false;
  #growth = 0;

  /** The number of times that the recording has grown or ended. */
  get growth() {
    return this.#growth;
  }

  /** The offset of the next page. */
  get nextOffset() {
    return this.#nextOffset;
  }

  /** True if the last page ended with the recording, which has not grown since. */
  get isEnd() {
    return this.#isEnd;
  }

  get isEmpty() {
    return this.#chunks.length === 0;
  }

  /** Size of the output, as encoded for the transfer. */
  get queuedBytes() {
    return this.#queuedBytes;
  }

  /** Time of the first chunk; undefined if there is none. */
  get firstTime() {
    return this.#chunks[0]?.at_ms;
  }

  /** Time of the last chunk; undefined if there is none. */
  get lastTime() {
    return this.#chunks.at(-1)?.at_ms;
  }

  /** Notes that there may be output after the page that was the last one. */
  noteGrowth() {
    this.#isEnd = false;
    this.#growth += 1;
  }

  /** Appends a page that was requested when the recording had grown this number of times. */
  append(page, growth) {
    this.#chunks.push(...page.chunks);
    this.#queuedBytes += page.chunks.reduce((sum, { data }) => sum + (data?.length ?? 0), 0);
    this.#nextOffset = page.next_offset;
    this.#isEnd = page.is_end && growth === this.#growth;
  }

  clear() {
    this.#chunks = [];
    this.#queuedBytes = 0;
  }

  /** Removes the chunks up to a time and passes them to `show`. Stops if `show` returns false: then it has not shown the chunk. */
  showUntil(time, show) {
    let count = 0;
    while (this.#chunks[count]?.at_ms <= time && show(this.#chunks[count])) {
      this.#queuedBytes -= this.#chunks[count].data?.length ?? 0;
      count += 1;
    }
    this.#chunks.splice(0, count);
  }
}
