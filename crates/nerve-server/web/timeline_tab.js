// The timeline of a recording: its bar, its screen at any position, and its moments.

import { describeError } from "./api.js";
import { BranchForm } from "./branch_form.js";
import { element, showText } from "./dom.js";
import { MomentList, listMoments } from "./moment_list.js";
import { PlaybackControls } from "./playback_controls.js";
import { RecordingPlayer } from "./recording_player.js";
import { TerminalScreen } from "./terminal_screen.js";
import { TimelineBar } from "./timeline_bar.js";
import { TimelineLoader } from "./timeline_loader.js";

/** Time after the last seek at which the address names the position, in milliseconds. */
const ADDRESS_DELAY = 500;

/** Shows the newest recording of a node, or `{ recording }`. It never types into a program. */
export class TimelineTab {
  #machine;
  #timeline = null;
  #player = null;
  #screen = null;
  #isShown = false;
  #loader;
  /** The last known state of the node; null without a node. */
  #state = null;
  #addressTimer = null;
  /** The timeline, the state and the position that are shown. */
  #shownPosition = [];
  /** The parameters of the address that wait for the timeline; null once it is shown there. */
  #requestedPosition = {};
  /** The reason why the turn of the address is not shown. */
  #turnProblem = "";
  #note = element("p", { class: "note", role: "status", hidden: true });
  /** Changes often, so it is not announced to screen readers. */
  #progress = element("p", { class: "note", hidden: true });
  /** The reasons why the overview and the output could not be read; empty without a problem. */
  #loadProblem = "";
  #playerProblem = "";
  #readProgress = "";
  #indexProgress = "";
  #problem = element("p", { class: "note failed", role: "alert", hidden: true });
  #controls = new PlaybackControls({ toggle: () => this.#togglePlay(), showEarlier: () => this.#player?.showEarlier(), change: () => this.#applySettings() });
  #screenParent = element("div", { class: "terminal-host" });
  #bar;
  /** The moments that are shown, as JSON with their recording. */
  #shownMoments = "";
  #list = new MomentList((moment) => this.#select(moment));
  #branch;
  #sizes = new ResizeObserver(() => this.#screen?.fit());

  constructor(source, role) {
    this.#machine = source.machine ?? null;
    this.#loader = new TimelineLoader(source, {
      receive: (timeline) => this.#receive(timeline),
      fail: (error) => {
        this.#loadProblem = `The recording could not be read: ${describeError(error)}`;
        this.#showProblem();
      },
    });
    this.#branch = role === "full" ? new BranchForm(this.#machine) : null;
    this.#bar = new TimelineBar({ seek: (position) => this.#seek(position), select: (moment) => this.#select(moment) });
    this.view = element("div", { class: "terminal-view" }, this.#screenParent);
    this.view.addEventListener("wheel", (event) => this.#onWheel(event), { capture: true, passive: true });
    this.element = element(
      "section",
      { class: "timeline-tab", "aria-label": "Timeline" },
      this.#note,
      this.#progress,
      this.#problem,
      this.view,
      this.#bar.element,
      this.#controls.element,
      element("div", { class: "timeline-more" }, this.#list.element, ...(this.#branch === null ? [] : [this.#branch.element])),
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
    this.#loader.open();
  }

  hide() {
    this.#isShown = false;
    this.#sizes.disconnect();
    this.#loader.close();
    this.#player?.pause();
  }

  close() {
    this.hide();
    clearTimeout(this.#addressTimer);
    this.#player?.close();
    this.#screen?.dispose();
    this.#screen = null;
  }

  /** Updates the tab for a description of the node. A node that has started has a recording. */
  update({ state }) {
    if (state !== this.#state) {
      this.#state = state;
      this.#loader.wake();
    }
  }

  #receive(timeline) {
    this.#loadProblem = "";
    this.#showProblem();
    this.#showTimeline(timeline);
  }

  #showProblem() {
    // Both have the same reason if the recording cannot be read at all.
    showText(this.#problem, this.#loadProblem || this.#playerProblem);
  }

  #showTimeline(timeline) {
    const isOther = timeline.recording_id !== this.#timeline?.recording_id;
    const wasFollowing = this.#player?.isFollowing ?? false;
    this.#timeline = timeline;
    if (isOther) {
      this.#createPlayer(timeline);
    }
    this.#player.setDuration(timeline.duration_ms, timeline.live || !timeline.is_complete);
    this.#showMoments(timeline);
    this.#showNotes(timeline);
    if (this.#requestedPosition !== null) {
      this.#showRequestedPosition();
    } else if (wasFollowing && !this.#player.isPlaying) {
      // A person who looks at the end of a live recording stays there.
      this.#player.follow(timeline.end_offset);
    }
    this.#showPosition();
  }

  #createPlayer({ recording_id: recording }) {
    this.#player?.close();
    this.#screen ??= new TerminalScreen(this.#screenParent, { type: null, openLink: () => {} });
    this.#player = new RecordingPlayer({ recording, machine: this.#machine }, this.#screen);
    this.#player.addEventListener("change", () => this.#showPosition());
    this.#player.addEventListener("size", ({ detail: { cols, rows } }) => this.#controls.showSize(cols, rows));
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
    const moment = turn === undefined ? undefined : turns.find((candidate) => candidate.turn === Number(turn));
    const start = live ? Infinity : 0;
    const target = moment?.at_ms ?? (at === undefined ? start : Math.round(1000 * Number(at)) || 0);
    if (target > duration && !isComplete) {
      // The recording is not read up to there yet.
      return;
    }
    this.#requestedPosition = null;
    this.#turnProblem = turn !== undefined && moment === undefined ? `Turn ${turn} has no place in this recording: it began elsewhere, or its time is not known.` : "";
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
      this.#list.update(moments);
    }
  }

  /** Adds earlier rows when the person scrolls beyond the first one. */
  #onWheel({ deltaY }) {
    if (deltaY < 0 && this.#screen?.isAtTop && this.#screen.hasRoom) {
      this.#player.showEarlier();
    }
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
      this.#player.speed = this.#controls.speed;
      this.#player.skipsIdle = this.#controls.skipsIdle;
    }
  }

  #showPosition() {
    const { position, isPlaying, isFollowing } = this.#player;
    this.#bar.setPosition(position);
    this.#controls.showEarlier(this.#player.hasEarlier && this.#screen.hasRoom);
    const { duration_ms: duration } = this.#timeline;
    const isAtEnd = isFollowing || position >= duration;
    // While it is played, each frame has another position.
    const shown = [this.#timeline, isPlaying, isAtEnd, isPlaying ? Math.floor(position / 1000) : position];
    if (shown.every((value, index) => value === this.#shownPosition[index])) {
      return;
    }
    this.#shownPosition = shown;
    this.#controls.showPosition(this.#timeline, position, isPlaying);
    // The end stays selected while its output is on its way.
    this.#branch?.update(this.#timeline, isAtEnd ? Math.max(duration, position) : position);
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
