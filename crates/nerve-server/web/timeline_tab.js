// The timeline of a recording: its bar, its screen at any position, and its moments.

import { getTimeline } from "./api.js";
import { BranchForm } from "./branch_form.js";
import { element, showText, uniqueId } from "./dom.js";
import { RecordingPlayer } from "./recording_player.js";
import { TerminalScreen } from "./terminal_screen.js";
import { formatPosition, formatTime } from "./time.js";
import { TimelineBar } from "./timeline_bar.js";

/** Intervals of requests for a recording that grows, and for the rest of a long one, in milliseconds. */
const LIVE_INTERVAL = 3000;
const SCAN_INTERVAL = 50;
const SPEEDS = [1, 2, 4, 8, 16];
/** Characters of a prompt in a list. */
const PROMPT_LENGTH = 100;
/** Pause after a request, at least, as a multiple of its time: each repeats the whole transcript. */
const MIN_PAUSE = 4;
/** Time after the last seek at which the address names the position, in milliseconds. */
const ADDRESS_DELAY = 500;

/** Returns the moments of a recording in the order of their times. */
function listMoments({ turns, snapshots, dialogs, damage }) {
  const line = (text) => text.trim().split("\n", 1)[0].slice(0, PROMPT_LENGTH);
  const moments = [
    ...turns.map((turn) => ({ kind: "turn", at: turn.at_ms, label: `Turn ${turn.turn}: ${line(turn.prompt)}`, data: turn })),
    ...snapshots.map((one) => ({ kind: "snapshot", at: one.at_ms, label: `Snapshot ${one.snapshot_id}${one.label ? `: ${one.label}` : ""}`, data: one })),
    ...dialogs.map((one) => ({ kind: "dialog", at: one.at_ms, label: `Dialog '${one.dialog}' ${one.choice === null ? "closed" : `answered: ${one.choice}`}`, data: one })),
    ...damage.map((one) => ({ kind: "damage", at: one.at_ms ?? 0, label: `Damaged: ${one.missing ?? "unknown"} bytes of output missing`, data: one })),
  ];
  return moments.sort((one, other) => one.at - other.at);
}

/** Shows the newest recording of a node, or `{ recording }`. It never types into a program. */
export class TimelineTab {
  #source;
  #timeline = null;
  #player = null;
  #screen = null;
  #isShown = false;
  #isClosed = false;
  #isLoading = false;
  /** True if the node has changed since the overview was requested. */
  #isOutdated = false;
  /** The last known state of the node; null without a node. */
  #state = null;
  #timer = null;
  #addressTimer = null;
  /** The timeline, the state and the position that are shown. */
  #shownPosition = [];
  /** The parameters of the address that wait for the timeline; null once it is shown there. */
  #requestedPosition = {};
  /** Why the turn of the address is not shown. */
  #turnProblem = "";
  #note = element("p", { class: "note", role: "status", hidden: true });
  /** Changes often, so it is not announced to screen readers. */
  #progress = element("p", { class: "note", hidden: true });
  /** Why the overview, and why the output, could not be read; empty without a problem. */
  #loadProblem = "";
  #playerProblem = "";
  #readProgress = "";
  #indexProgress = "";
  #problem = element("p", { class: "note failed", role: "alert", hidden: true });
  #play = element("button", { type: "button", class: "primary", disabled: true, onclick: () => this.#togglePlay() }, "Play");
  #time = element("span", { class: "timeline-time" });
  #size = element("span", { class: "age" });
  #speed;
  #skip = element("input", { type: "checkbox", id: uniqueId("skip"), checked: true, onchange: () => this.#applySettings() });
  #screenParent = element("div", { class: "terminal-host" });
  #bar;
  /** The moments that are shown, as JSON with their recording. */
  #shownMoments = "";
  #moments = element("ol", { class: "timeline-moments" });
  #count = element("summary");
  #list = element("details", { class: "timeline-list", hidden: true }, this.#count, this.#moments);
  #branch;
  #sizes = new ResizeObserver(() => this.#screen?.fit());

  constructor(source, role) {
    this.#source = source;
    this.#branch = role === "full" ? new BranchForm() : null;
    this.#bar = new TimelineBar({ seek: (position) => this.#seek(position), select: (moment) => this.#select(moment) });
    const speeds = SPEEDS.map((speed) => element("option", { value: String(speed) }, `${speed}×`));
    this.#speed = element("select", { "aria-label": "Speed", onchange: () => this.#applySettings() }, ...speeds);
    const skip = element("label", { class: "timeline-skip", for: this.#skip.id }, this.#skip, "Skip pauses");
    this.view = element("div", { class: "terminal-view" }, this.#screenParent);
    const controls = element("div", { class: "timeline-controls", role: "group", "aria-label": "Playback" }, this.#play, this.#speed, skip, this.#time, this.#size);
    this.element = element(
      "section",
      { class: "timeline-tab", "aria-label": "Timeline" },
      this.#note,
      this.#progress,
      this.#problem,
      this.view,
      this.#bar.element,
      controls,
      element("div", { class: "timeline-more" }, this.#list, ...(this.#branch === null ? [] : [this.#branch.element])),
    );
  }

  /** Shows the position that an address names: `at` in seconds, or a `turn`. */
  open({ at, turn }) {
    this.#requestedPosition = { at, turn };
    if (this.#timeline !== null) {
      this.#showRequestedPosition();
    }
  }

  show() {
    this.#isShown = true;
    this.#sizes.observe(this.view);
    this.#screen?.fit();
    this.#load();
  }

  hide() {
    this.#isShown = false;
    this.#sizes.disconnect();
    clearTimeout(this.#timer);
    this.#player?.pause();
  }

  close() {
    this.hide();
    this.#isClosed = true;
    clearTimeout(this.#addressTimer);
    this.#player?.close();
    this.#screen?.dispose();
    this.#screen = null;
  }

  /** Fetches the overview anew if the state of the node has changed: a node that has started again has another recording. */
  update({ state }) {
    const hasChanged = this.#state !== null && state !== this.#state;
    this.#state = state;
    if (hasChanged && this.#isShown) {
      this.#isOutdated = true;
      this.#load();
    }
  }

  /** Fetches the overview, and again while it grows. */
  async #load() {
    clearTimeout(this.#timer);
    if (this.#isLoading || this.#isClosed) {
      return;
    }
    this.#isLoading = true;
    this.#isOutdated = false;
    let next = LIVE_INTERVAL;
    try {
      const start = performance.now();
      const timeline = await getTimeline(this.#source);
      const took = performance.now() - start;
      if (this.#isClosed) {
        return;
      }
      this.#loadProblem = "";
      this.#showTimeline(timeline);
      next = timeline.is_complete ? (timeline.live ? Math.max(LIVE_INTERVAL, MIN_PAUSE * took) : null) : SCAN_INTERVAL;
    } catch (error) {
      this.#loadProblem = `The recording could not be read: ${error.text ?? error.message}`;
    } finally {
      this.#isLoading = false;
    }
    this.#showProblem();
    if (this.#isOutdated) {
      next = 0;
    }
    if (next !== null && this.#isShown && !this.#isClosed) {
      this.#timer = setTimeout(() => this.#load(), next);
    }
  }

  #showProblem() {
    // Both have the same reason if the recording cannot be read at all.
    showText(this.#problem, this.#loadProblem || this.#playerProblem);
  }

  #showTimeline(timeline) {
    const isOther = timeline.recording_id !== this.#timeline?.recording_id;
    const wasAtEnd = this.#player !== null && this.#player.position >= this.#player.duration;
    this.#timeline = timeline;
    if (isOther) {
      this.#createPlayer(timeline);
    }
    this.#player.setDuration(timeline.duration_ms, timeline.live || !timeline.is_complete);
    this.#showMoments(timeline);
    this.#showNotes(timeline);
    this.#play.disabled = timeline.started_at === null;
    if (this.#requestedPosition !== null) {
      this.#showRequestedPosition();
    } else if (wasAtEnd && !this.#player.isPlaying) {
      // A person who looks at the end of a live recording stays there.
      this.#player.follow(timeline.end_offset);
    }
    this.#showPosition();
  }

  #createPlayer({ recording_id: recording }) {
    this.#player?.close();
    this.#screen ??= new TerminalScreen(this.#screenParent, { type: null, openLink: () => {} });
    this.#player = new RecordingPlayer(recording, this.#screen);
    this.#player.addEventListener("change", () => this.#showPosition());
    this.#player.addEventListener("size", ({ detail: { cols, rows } }) => showText(this.#size, `${cols} × ${rows}`));
    this.#player.addEventListener("problem", ({ detail }) => {
      this.#playerProblem = detail ?? "";
      this.#showProblem();
    });
    this.#player.addEventListener("progress", ({ detail }) => {
      this.#indexProgress = detail ?? "";
      this.#showProgress();
    });
    this.#playerProblem = "";
    this.#indexProgress = "";
    this.#applySettings();
    this.#requestedPosition ??= {};
  }

  /** Seeks to what the address names, as soon as the recording is known up to there. */
  #showRequestedPosition() {
    const { at, turn } = this.#requestedPosition;
    const { turns, is_complete: isComplete, duration_ms: duration, live, started_at: started } = this.#timeline;
    if (started === null) {
      return;
    }
    const found = turn === undefined ? undefined : turns.find((one) => one.turn === Number(turn));
    const start = live ? Infinity : 0;
    const target = found?.at_ms ?? (at === undefined ? start : Math.round(1000 * Number(at)) || 0);
    if (target > duration && !isComplete) {
      // The recording is not read up to there yet.
      return;
    }
    this.#requestedPosition = null;
    this.#turnProblem = turn !== undefined && found === undefined ? `Turn ${turn} has no place in this recording: it began elsewhere, or its time is not known.` : "";
    this.#showNotes(this.#timeline);
    this.#player.seek(target);
  }

  #showNotes({ notes, damage, started_at: started, is_complete: isComplete, read_bytes: read, file_bytes: all }) {
    const parts = this.#turnProblem === "" ? [...notes] : [this.#turnProblem, ...notes];
    if (damage.length > 0) {
      const reasons = damage.slice(0, 3).map(({ reason }) => reason);
      parts.push(`This recording is damaged. The rest is shown. ${reasons.join("; ")}${damage.length > 3 ? ` and ${damage.length - 3} more` : ""}`);
    } else if (started === null) {
      parts.push("Nothing has been recorded yet.");
    }
    showText(this.#note, parts.join(" "));
    this.#readProgress = isComplete ? "" : `Reading the recording: ${Math.floor((100 * read) / Math.max(1, all))} %`;
    this.#showProgress();
  }

  #showProgress() {
    showText(this.#progress, [this.#readProgress, this.#indexProgress].filter((text) => text).join(" "));
  }

  #showMoments(timeline) {
    const moments = listMoments(timeline);
    const json = JSON.stringify([timeline.recording_id, moments]);
    const haveChanged = json !== this.#shownMoments;
    this.#shownMoments = json;
    this.#bar.update(timeline, haveChanged ? moments : null);
    if (haveChanged) {
      this.#showList(moments);
    }
  }

  #showList(moments) {
    const focused = [...this.#moments.children].findIndex((item) => item.contains(document.activeElement));
    const items = moments.map((moment) => {
      const button = element("button", { type: "button", class: "timeline-moment", onclick: () => this.#select(moment) });
      button.append(element("span", { class: "timeline-time" }, formatPosition(moment.at)), " ", element("span", {}, moment.label));
      return element("li", {}, button);
    });
    this.#moments.replaceChildren(...items);
    items[focused]?.firstChild.focus({ preventScroll: true });
    this.#count.textContent = `Moments (${items.length})`;
    this.#list.hidden = items.length === 0;
  }

  #select({ kind, at, data }) {
    if (kind === "snapshot") {
      this.#player?.seekToOffset(data.anchor_byte, at);
    } else {
      this.#player?.seek(at);
    }
    this.#replaceAddress();
  }

  #seek(position) {
    this.#player?.seek(position);
    this.#replaceAddress();
  }

  #togglePlay() {
    if (this.#player.isPlaying) {
      this.#player.pause();
      this.#replaceAddress();
    } else {
      this.#player.play();
    }
  }

  #applySettings() {
    if (this.#player !== null) {
      this.#player.speed = Number(this.#speed.value);
      this.#player.skipsIdle = this.#skip.checked;
    }
  }

  #showPosition() {
    const { position, isPlaying } = this.#player;
    this.#bar.setPosition(position);
    const { duration_ms: duration, started_at: started, live } = this.#timeline;
    // While it is played, each frame has another position.
    const shown = [this.#timeline, isPlaying, position >= duration, isPlaying ? Math.floor(position / 1000) : position];
    if (shown.every((value, index) => value === this.#shownPosition[index])) {
      return;
    }
    this.#shownPosition = shown;
    const clock = started === null ? "" : ` · ${formatTime(new Date(Date.parse(started) + position).toISOString())}`;
    showText(this.#time, `${formatPosition(position)} / ${formatPosition(Math.max(duration, position))}${live ? " (live)" : ""}${clock}`);
    showText(this.#play, isPlaying ? "Pause" : "Play");
    this.#branch?.update(this.#timeline, position);
  }

  /** Names the position in the address, so that it can be bookmarked. Back leads to the view before. */
  #replaceAddress() {
    clearTimeout(this.#addressTimer);
    const address = location.hash.split("?")[0];
    this.#addressTimer = setTimeout(() => {
      if (this.#isShown && location.hash.split("?")[0] === address) {
        history.replaceState(history.state, "", `${address}?at=${(this.#player.position / 1000).toFixed(1)}`);
      }
    }, ADDRESS_DELAY);
  }
}
