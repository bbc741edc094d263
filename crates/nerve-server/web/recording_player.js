// Plays a recording: fetches its output in pages and writes it to a terminal at the recorded times.

import { readRecording } from "./api.js";
import { OutputBuffer } from "./output_buffer.js";
import { retryDelay } from "./retry.js";

/** A pause without output up to which nothing is skipped, in milliseconds of the recording. */
const IDLE_LIMIT = 2000;
/** Output that waits to be shown, in bytes. Below it the next page is fetched; the emulator is never further behind. */
const MIN_QUEUED = 128 * 1024;
const MAX_UNSHOWN = 512 * 1024;
/** Interval of requests for new output of a live recording, and for the progress of an index, in milliseconds. */
const LIVE_INTERVAL = 1000;
const INDEX_INTERVAL = 100;
/** Time between two frames that counts, in milliseconds: a page in the background has none. */
const MAX_FRAME = 250;

/** Returns true if a request that failed with this error fails again. A server that is busy (429) or slow (408) recovers. */
function isFinal({ status }) {
  return status >= 400 && status < 500 && ![408, 429].includes(status);
}

function decode(base64) {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

/**
 * Moves in one recording. Dispatches "change" when the position or the state has changed, "size" with `cols` and `rows`, and "problem" and
 * "progress" with a text or null. Positions are milliseconds from the start.
 */
export class RecordingPlayer extends EventTarget {
  #recording;
  #screen;
  #buffer = new OutputBuffer();
  /** Bytes that the emulator has not processed yet. */
  #unshownBytes = 0;
  /** Time of the last output that was shown. */
  #lastOutput = 0;
  /** The number of the last seek: replies to earlier requests are discarded. */
  #generation = 0;
  /** The generation whose next page is being fetched; null if none is. */
  #fetching = null;
  /** The target of a seek that waits for the one before; null if none does. */
  #waiting = null;
  #isSeeking = false;
  /** The target of the last seek if it has failed for good; else null. */
  #failedTarget = null;
  #failures = 0;
  #frame = null;
  #frameTime = 0;
  #timer = null;
  #isClosed = false;

  position = 0;
  duration = 0;
  isPlaying = false;
  isLive = false;
  skipsIdle = true;
  speed = 1;

  constructor(recording, screen) {
    super();
    this.#recording = recording;
    this.#screen = screen;
  }

  /** True if everything that was recorded so far is shown. */
  get isAtEnd() {
    return this.#buffer.isEnd && this.#buffer.isEmpty;
  }

  /**
   * Shows what was recorded since the last page, up to `endOffset`, without playing it: the terminal keeps its scrollback and what is selected. Seeks
   * to the end if that is shorter.
   */
  async follow(endOffset) {
    if (this.isPlaying) {
      return;
    }
    if (this.#isSeeking || this.#failedTarget !== null || endOffset - this.#buffer.nextOffset > MAX_UNSHOWN) {
      this.seek(this.duration);
      return;
    }
    const generation = this.#generation;
    this.position = this.duration;
    if (this.#fetching === generation || (this.#buffer.nextOffset >= endOffset && this.#buffer.isEmpty)) {
      return;
    }
    this.#fetching = generation;
    await this.#fetchUntil(endOffset);
    if (this.#fetching === generation) {
      this.#fetching = null;
    }
    this.#requestFrame();
  }

  /** Shows the terminal at a time, and continues from there if the recording is played. */
  seek(position) {
    const target = Math.max(0, Math.min(position, this.duration));
    this.position = target;
    this.#seekTo({ at: target / 1000 });
  }

  /** Shows the terminal at an output offset: a snapshot has one. `position` is its time. */
  seekToOffset(offset, position) {
    this.position = Math.max(0, Math.min(position, this.duration));
    this.#seekTo({ offset });
  }

  play() {
    if (this.#failedTarget !== null) {
      this.#seekTo(this.#failedTarget);
    } else if (!this.isLive && this.position >= this.duration) {
      this.seek(0);
    }
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
    if ((this.isLive && !isLive) || duration > this.duration) {
      this.#buffer.noteGrowth();
    }
    this.duration = Math.max(duration, this.position);
    this.isLive = isLive;
  }

  close() {
    this.#isClosed = true;
    this.#generation += 1;
    clearTimeout(this.#timer);
    cancelAnimationFrame(this.#frame);
  }

  #notify(name, detail = null) {
    if (!this.#isClosed) {
      this.dispatchEvent(new CustomEvent(name, { detail }));
    }
  }

  async #seekTo(target) {
    this.#generation += 1;
    this.#waiting = target;
    this.#failedTarget = null;
    this.#notify("change");
    if (this.#isSeeking) {
      // While a person drags, only the latest position is requested.
      return;
    }
    this.#isSeeking = true;
    while (this.#waiting !== null && !this.#isClosed) {
      const next = this.#waiting;
      this.#waiting = null;
      try {
        await this.#request(next);
        this.#failures = 0;
      } catch (error) {
        this.#notify("problem", `The recording could not be read: ${error.text ?? error.message}`);
        if (this.#waiting !== null) {
          continue;
        }
        if (isFinal(error)) {
          this.#failSeek(next);
        } else {
          await new Promise((resolve) => setTimeout(resolve, retryDelay(this.#failures)));
          this.#failures += 1;
          this.#waiting ??= next;
        }
      }
    }
    this.#isSeeking = false;
  }

  /** Stops: the output that is known belongs to another position. */
  #failSeek(target) {
    this.#failedTarget = target;
    this.#notify("progress", null);
    this.#clear();
    this.pause();
  }

  #clear() {
    this.#buffer.clear();
    this.#unshownBytes = 0;
  }

  async #request(target) {
    const generation = this.#generation;
    const growth = this.#buffer.growth;
    const reply = await readRecording(this.#recording, target);
    if (this.#isClosed || (generation !== this.#generation && !reply.is_ready)) {
      return;
    }
    if (!reply.is_ready) {
      this.#notify("progress", `Preparing this long recording: ${Math.floor(100 * (reply.indexed ?? 0))} %`);
      await new Promise((resolve) => setTimeout(resolve, INDEX_INTERVAL));
      this.#waiting ??= target;
      return;
    }
    // A picture on the way to the latest position is worth showing.
    const { terminal } = reply;
    this.#screen.reset(terminal.cols, terminal.rows);
    this.#screen.write(decode(terminal.dump));
    this.#clear();
    this.#lastOutput = terminal.at_ms;
    this.#notify("problem", null);
    this.#notify("progress", null);
    this.#notify("size", { cols: terminal.cols, rows: terminal.rows });
    if (generation === this.#generation) {
      this.#buffer.append(reply, growth);
      this.#frameTime = performance.now();
      this.#requestFrame();
      this.#notify("change");
    }
  }

  /** Fetches and shows the output up to an offset. Stops after a seek and after a failure, which the next call makes up for. */
  async #fetchUntil(endOffset) {
    const generation = this.#generation;
    try {
      for (let isEnd = false; !isEnd && this.#buffer.nextOffset < endOffset; ) {
        const growth = this.#buffer.growth;
        const reply = await readRecording(this.#recording, { offset: this.#buffer.nextOffset, output_only: true });
        if (generation !== this.#generation || this.#isClosed) {
          return;
        }
        this.#buffer.append(reply, growth);
        isEnd = reply.is_end;
      }
      this.#notify("problem", null);
    } catch (error) {
      if (generation === this.#generation) {
        this.#notify("problem", `The recording could not be read: ${error.text ?? error.message}`);
      }
      return;
    }
    if (!this.isPlaying) {
      this.position = Math.max(this.duration, this.#buffer.lastTime ?? 0);
      this.#show(Infinity);
      this.#notify("change");
    }
  }

  /** Fetches the next page if little output is left. */
  async #fetch() {
    if (this.#fetching === this.#generation || this.#isSeeking || this.#buffer.queuedBytes > MIN_QUEUED || (this.#buffer.isEnd && !this.isLive)) {
      return;
    }
    const generation = this.#generation;
    const growth = this.#buffer.growth;
    this.#fetching = generation;
    try {
      const reply = await readRecording(this.#recording, { offset: this.#buffer.nextOffset, output_only: true });
      if (generation !== this.#generation) {
        return;
      }
      this.#failures = 0;
      this.#buffer.append(reply, growth);
      this.#notify("problem", null);
      await this.#wait(reply.is_end ? LIVE_INTERVAL : 0);
    } catch (error) {
      if (generation !== this.#generation) {
        // The page is not needed any more.
        return;
      }
      this.#notify("problem", `The recording could not be read: ${error.text ?? error.message}`);
      await this.#wait(retryDelay(this.#failures));
      this.#failures += 1;
    }
    if (this.#fetching === generation) {
      this.#fetching = null;
    }
    this.#requestFrame();
  }

  #wait(time) {
    return new Promise((resolve) => {
      this.#timer = setTimeout(resolve, time);
    });
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
    if (!this.#isSeeking) {
      this.#fetch();
      if (this.#unshownBytes < MAX_UNSHOWN) {
        this.#move(elapsed * this.speed);
      }
    }
    this.#requestFrame();
  }

  /** Moves on by a time, up to the output that is known, and skips a long pause. */
  #move(time) {
    const next = this.#buffer.firstTime ?? (this.#buffer.isEnd ? this.duration : null);
    if (next === null) {
      // The next page is on its way.
      return;
    }
    const isIdle = this.skipsIdle && this.position - this.#lastOutput >= IDLE_LIMIT && next > this.position;
    this.position = isIdle ? next : this.position + time;
    if (this.#buffer.isEmpty) {
      this.position = Math.min(this.position, this.duration);
    } else if (!this.#buffer.isEnd) {
      this.position = Math.min(this.position, this.#buffer.lastTime);
    }
    this.#show();
    if (this.isAtEnd && !this.isLive && this.position >= this.duration) {
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
      this.#lastOutput = chunk.at_ms;
      if (chunk.data === undefined) {
        this.#screen.resize(chunk.cols, chunk.rows);
        this.#notify("size", { cols: chunk.cols, rows: chunk.rows });
      } else {
        this.#write(chunk.data);
      }
      return true;
    });
    if (this.#buffer.firstTime <= this.position) {
      // The emulator is too slow for this speed.
      this.position = this.#buffer.firstTime;
    }
  }

  #write(data) {
    const bytes = decode(data);
    const generation = this.#generation;
    this.#unshownBytes += bytes.length;
    this.#screen.write(bytes, () => {
      if (generation === this.#generation) {
        this.#unshownBytes -= bytes.length;
      }
    });
  }
}
