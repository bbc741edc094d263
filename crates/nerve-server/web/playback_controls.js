// The controls of a recording that is played: play and pause, speed, pauses, and the position as text.

import { element, showText, uniqueId } from "./dom.js";
import { formatPosition, formatTime } from "./time.js";

const SPEEDS = [1, 2, 4, 8, 16];

/** Shows the controls. Calls `toggle` to play or pause, `showEarlier` for earlier rows, and `change` when the speed or the skipping has changed. */
export class PlaybackControls {
  #play;
  #speed;
  #skip;
  #earlier;
  #time = element("span", { class: "timeline-time" });
  #size = element("span", { class: "age" });

  constructor({ toggle, showEarlier, change }) {
    this.#play = element("button", { type: "button", class: "primary", disabled: true, onclick: toggle }, "Play");
    const speeds = SPEEDS.map((speed) => element("option", { value: String(speed) }, `${speed}×`));
    this.#speed = element("select", { "aria-label": "Speed", onchange: change }, ...speeds);
    this.#skip = element("input", { type: "checkbox", id: uniqueId("skip"), checked: true, onchange: change });
    const skip = element("label", { class: "timeline-skip", for: this.#skip.id }, this.#skip, "Skip pauses");
    this.#earlier = element("button", { type: "button", class: "timeline-earlier", hidden: true, onclick: showEarlier }, "Earlier rows");
    this.element = element("div", { class: "timeline-controls", role: "group", "aria-label": "Playback" }, this.#play, this.#speed, skip, this.#time, this.#earlier, this.#size);
  }

  get speed() {
    return Number(this.#speed.value);
  }

  get skipsIdle() {
    return this.#skip.checked;
  }

  /** Shows the size of the terminal. */
  showSize(cols, rows) {
    showText(this.#size, `${cols} × ${rows}`);
  }

  /** Shows whether there are rows before those of the terminal. */
  showEarlier(hasEarlier) {
    this.#earlier.hidden = !hasEarlier;
  }

  /** Shows a position in a recording, and whether it is played. */
  showPosition({ duration_ms: duration, started_at: started, live }, position, isPlaying) {
    const clock = started === null ? "" : ` · ${formatTime(new Date(Date.parse(started) + position).toISOString())}`;
    showText(this.#time, `${formatPosition(position)} / ${formatPosition(Math.max(duration, position))}${live ? " (live)" : ""}${clock}`);
    showText(this.#play, isPlaying ? "Pause" : "Play");
    this.#play.disabled = started === null;
  }
}
