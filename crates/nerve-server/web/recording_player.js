// Plays a recording: writes its output to a terminal at the recorded times.

import { RecordingReader } from "./recording_reader.js";

/** Longest pause without output that is not skipped, in milliseconds of the recording. */
const IDLE_LIMIT = 2000;
/** Maximum output that the emulator may lag behind, in bytes. */
const MAX_UNSHOWN = 512 * 1024;
/** Output before the position that is fetched for earlier rows, in bytes, and its maximum. Each request doubles it. */
const FIRST_EARLIER = 128 * 1024;
const MAX_EARLIER = 4 * 1024 * 1024;
/** Maximum time between two frames that counts, in milliseconds: a page in the background gets no frames. */
const MAX_FRAME = 250;

function decodeBase64(base64) {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

/**
 * Moves in one recording. Dispatches "change" when the position or the state has changed, "size" with `cols` and `rows`, and "problem" and
 * "progress" with a text or null. Positions are milliseconds from the start.
 */
export class RecordingPlayer extends EventTarget {
  #reader;
  #screen;
  /** Bytes that the emulator has not processed yet. */
  #unshownBytes = 0;
  /** The number of the last terminal: bytes of earlier ones do not count. */
  #terminal = 0;
  /** The end of the output that is shown: its offset and the time of its last chunk. */
  #shownOffset = 0;
  #shownTime = 0;
  /** Bytes before the position from which the rows above the screen come; 0 without such rows. */
  #earlierBytes = 0;
  #isAddingEarlier = false;
  /** The end of the output that is to be shown as it is recorded; null if the person has moved elsewhere. */
  #followedEnd = null;
  #frame = null;
  #frameTime = 0;
  #isClosed = false;

  position = 0;
  duration = 0;
  isPlaying = false;
  skipsIdle = true;
  speed = 1;

  constructor(recording, screen) {
    super();
    this.#screen = screen;
    this.#reader = new RecordingReader(recording);
    this.#reader.addEventListener("terminal", ({ detail }) => this.#showTerminal(detail));
    this.#reader.addEventListener("failed", () => this.pause());
    for (const name of ["problem", "progress"]) {
      this.#reader.addEventListener(name, ({ detail }) => this.#notify(name, detail));
    }
  }

  /** True if everything that was recorded so far is shown. */
  get isAtEnd() {
    return this.#buffer.isEnd && this.#buffer.isEmpty;
  }

  /** True if there is output from which rows above those of the terminal can come. */
  get hasEarlier() {
    return this.#shownOffset > this.#earlierBytes && this.#earlierBytes < MAX_EARLIER;
  }

  /** True if the end is shown, or will be when its output has arrived. */
  get isFollowing() {
    return this.#followedEnd !== null || this.position >= this.duration;
  }

  get #buffer() {
    return this.#reader.buffer;
  }

  /**
   * Shows what was recorded since the last page, up to `endOffset`, without playing it, so that the terminal keeps its
   * scrollback and the selection. Seeks to the end if that is shorter. First waits until earlier rows are added: they
   * belong to the output that was shown.
   */
  async follow(endOffset) {
    if (this.isPlaying || this.#isClosed) {
      return;
    }
    this.#followedEnd = endOffset;
    if (this.#isAddingEarlier) {
      return;
    }
    const { isSeeking, failedTarget } = this.#reader;
    if (isSeeking || failedTarget !== null || endOffset - this.#buffer.nextOffset > MAX_UNSHOWN) {
      this.seek(this.duration);
      return;
    }
    const isNew = this.#buffer.nextOffset < endOffset || !this.#buffer.isEmpty;
    if (!isNew) {
      this.position = this.duration;
      this.#notify("change");
    } else if ((await this.#reader.fetchUntil(endOffset)) && this.#followedEnd !== null && !this.#isAddingEarlier) {
      this.position = Math.max(this.duration, this.#buffer.lastTime ?? 0);
      this.#show(Infinity);
      this.#notify("change");
    }
  }

  /** Shows the terminal at a time, and continues from there if the recording is played. */
  seek(position) {
    const target = Math.max(0, Math.min(position, this.duration));
    this.#seekTo(target, { at: target / 1000 });
  }

  /** Shows the terminal at an output offset: a snapshot has one. `position` is its time. */
  seekToOffset(offset, position) {
    this.#seekTo(Math.max(0, Math.min(position, this.duration)), { offset });
  }

  /** Adds the rows that were shown before those of the terminal. */
  async showEarlier() {
    if (!this.hasEarlier || this.#isAddingEarlier) {
      return;
    }
    this.pause();
    this.#isAddingEarlier = true;
    const size = Math.min(MAX_EARLIER, 2 * this.#earlierBytes || FIRST_EARLIER);
    const terminal = this.#terminal;
    const offset = this.#shownOffset;
    const time = this.#shownTime;
    const before = await this.#reader.fetchBefore(offset, time, size);
    // Output that was played meanwhile is not part of the reply.
    const isCurrent = terminal === this.#terminal && offset === this.#shownOffset && time === this.#shownTime;
    if (before !== null && isCurrent && !this.#isClosed) {
      this.#earlierBytes = size;
      this.#screen.extendScrollback(() => this.#replay(before));
      this.#notify("change");
    }
    this.#isAddingEarlier = false;
    if (this.#followedEnd !== null) {
      this.follow(this.#followedEnd);
    }
  }

  play() {
    const { failedTarget, isLive } = this.#reader;
    if (failedTarget !== null) {
      this.#reader.seek(failedTarget);
    } else if (!isLive && this.position >= this.duration) {
      this.seek(0);
    }
    this.#followedEnd = null;
    this.isPlaying = true;
    this.#frameTime = performance.now();
    this.#requestFrame();
    this.#notify("change");
  }

  pause() {
    this.isPlaying = false;
    cancelAnimationFrame(this.#frame);
    this.#frame = null;
    this.#notify("change");
  }

  /** Sets the duration, and whether it may grow. */
  setDuration(duration, isLive) {
    if ((this.#reader.isLive && !isLive) || duration > this.duration) {
      this.#buffer.noteGrowth();
    }
    this.duration = Math.max(duration, this.position);
    this.#reader.isLive = isLive;
  }

  close() {
    this.#isClosed = true;
    this.#reader.close();
    cancelAnimationFrame(this.#frame);
  }

  #notify(name, detail = null) {
    if (!this.#isClosed) {
      this.dispatchEvent(new CustomEvent(name, { detail }));
    }
  }

  #seekTo(position, target) {
    this.#followedEnd = null;
    this.position = position;
    this.#reader.seek(target);
    this.#notify("change");
  }

  #showTerminal(terminal) {
    this.#reset(terminal);
    this.#earlierBytes = 0;
    this.#shownOffset = terminal.offset;
    this.#shownTime = terminal.at_ms;
    this.#frameTime = performance.now();
    this.#requestFrame();
    this.#notify("size", { cols: terminal.cols, rows: terminal.rows });
    this.#notify("change");
  }

  #reset({ cols, rows, dump }) {
    this.#terminal += 1;
    this.#unshownBytes = 0;
    this.#screen.reset(cols, rows);
    this.#screen.write(decodeBase64(dump));
  }

  /** Shows an earlier terminal and the output from there to the position. */
  #replay({ terminal, chunks }) {
    this.#reset(terminal);
    for (const { offset, data, cols, rows } of chunks) {
      if (data === undefined) {
        this.#screen.resize(cols, rows);
      } else {
        this.#write(decodeBase64(data).subarray(0, this.#shownOffset - offset));
      }
    }
  }

  #requestFrame() {
    if (this.isPlaying && this.#frame === null && !this.#isClosed) {
      this.#frame = requestAnimationFrame((now) => this.#advance(now));
    }
  }

  #advance(now) {
    this.#frame = null;
    const elapsed = Math.min(MAX_FRAME, Math.max(0, now - this.#frameTime));
    this.#frameTime = now;
    if (!this.#reader.isSeeking) {
      this.#reader.fetchNext();
      if (this.#unshownBytes < MAX_UNSHOWN) {
        this.#move(elapsed * this.speed);
      }
    }
    this.#requestFrame();
  }

  /** Advances by a time, up to the end of the known output, and skips a long pause. */
  #move(time) {
    const next = this.#buffer.firstTime ?? (this.#buffer.isEnd ? this.duration : null);
    if (next === null) {
      // The next page is on its way.
      return;
    }
    const isIdle = this.skipsIdle && this.position - this.#shownTime >= IDLE_LIMIT && next > this.position;
    this.position = isIdle ? next : this.position + time;
    if (this.#buffer.isEmpty) {
      this.position = Math.min(this.position, this.duration);
    } else if (!this.#buffer.isEnd) {
      this.position = Math.min(this.position, this.#buffer.lastTime);
    }
    this.#show();
    if (this.isAtEnd && !this.#reader.isLive && this.position >= this.duration) {
      this.position = this.duration;
      this.pause();
    }
    this.#notify("change");
  }

  /** Writes the output up to the position, unless the emulator is this many bytes behind. */
  #show(maxUnshown = MAX_UNSHOWN) {
    this.#buffer.showUntil(this.position, (chunk) => {
      if (this.#unshownBytes >= maxUnshown) {
        return false;
      }
      this.#shownTime = chunk.at_ms;
      if (chunk.data === undefined) {
        this.#screen.resize(chunk.cols, chunk.rows);
        this.#notify("size", { cols: chunk.cols, rows: chunk.rows });
      } else {
        const bytes = decodeBase64(chunk.data);
        this.#shownOffset = chunk.offset + bytes.length;
        this.#write(bytes);
      }
      return true;
    });
    if (this.#buffer.firstTime <= this.position) {
      // The emulator is too slow for this speed.
      this.position = this.#buffer.firstTime;
    }
  }

  #write(bytes) {
    const terminal = this.#terminal;
    this.#unshownBytes += bytes.length;
    this.#screen.write(bytes, () => {
      if (terminal === this.#terminal) {
        this.#unshownBytes -= bytes.length;
      }
    });
  }
}
