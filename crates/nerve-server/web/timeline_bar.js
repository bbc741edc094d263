// The bar of a recording: its activity, its moments and the position. A slider, and a toolbar with one button per moment.

import { element, svgElement } from "./dom.js";
import { formatPosition } from "./time.js";

/** Height of the activity in units of the picture. */
const HEIGHT = 40;
/** Distances that keys move the position, in milliseconds. */
const STEP = 5000;
const LONG_STEP = 60000;
const KEYS = {
  ArrowLeft: (position, step) => position - step,
  ArrowDown: (position, step) => position - step,
  ArrowRight: (position, step) => position + step,
  ArrowUp: (position, step) => position + step,
  Home: () => 0,
  End: (position, step, duration) => duration,
  PageDown: (position, step, duration) => position - duration / 10,
  PageUp: (position, step, duration) => position + duration / 10,
};
/** Maximum number of moments that get a mark. A list has the others. */
const MAX_MARKS = 500;
const SIGNS = { turn: "▾", snapshot: "◆", dialog: "●", damage: "✕" };

/** Shows a timeline. Calls `seek` with a position in milliseconds, and `select` with a moment: its `kind`, `at`, `label` and `data`. */
export class TimelineBar {
  #seek;
  #select;
  #duration = 0;
  #position = 0;
  #isDragging = false;
  /** The moments that have a mark, in the order of the marks. */
  #moments = [];
  #activity = svgElement("path");
  #picture = svgElement("svg", { class: "timeline-activity", preserveAspectRatio: "none", "aria-hidden": "true" }, this.#activity);
  #cursor = element("span", { class: "timeline-cursor", "aria-hidden": "true" });
  #slider = element(
    "div",
    { class: "timeline-slider", role: "slider", tabIndex: 0, "aria-label": "Position in the recording", "aria-valuemin": "0" },
    this.#picture,
    this.#cursor,
  );
  #marks = element("div", { class: "timeline-marks", role: "toolbar", "aria-label": "Moments of the recording" });

  constructor({ seek, select }) {
    this.#seek = seek;
    this.#select = select;
    const listen = (name, listener) => this.#slider.addEventListener(name, listener);
    listen("keydown", (event) => this.#onKey(event));
    listen("pointerdown", (event) => this.#onPointerDown(event));
    listen("pointermove", (event) => this.#isDragging && this.#seekToPointer(event));
    for (const name of ["pointerup", "pointercancel"]) {
      listen(name, () => {
        this.#isDragging = false;
      });
    }
    this.#marks.addEventListener("keydown", (event) => this.#onMarkKey(event));
    this.#marks.addEventListener("focusin", ({ target }) => this.#setReachable(target));
    this.element = element("div", { class: "timeline-bar" }, this.#marks, this.#slider);
  }

  /** Shows the activity and the moments of a recording; with null, the same moments as before. */
  update({ duration_ms: duration, slice_ms: slice, activity }, moments) {
    this.#duration = duration;
    this.#slider.setAttribute("aria-valuemax", String(Math.floor(duration / 1000)));
    this.#showActivity(activity, Math.max(1, duration / slice));
    if (moments !== null) {
      this.#showMoments(moments.slice(-MAX_MARKS));
    }
    this.#moments.forEach(({ at }, index) => {
      this.#marks.children[index].style.left = this.#percent(at);
    });
    this.setPosition(this.#position);
  }

  setPosition(position) {
    this.#position = position;
    this.#cursor.style.left = this.#percent(position);
    const text = `${formatPosition(position)} of ${formatPosition(this.#duration)}`;
    if (text !== this.#slider.getAttribute("aria-valuetext")) {
      this.#slider.setAttribute("aria-valuenow", String(Math.floor(position / 1000)));
      this.#slider.setAttribute("aria-valuetext", text);
    }
  }

  focus() {
    this.#slider.focus();
  }

  #percent(position) {
    return `${(100 * Math.min(position, this.#duration)) / Math.max(1, this.#duration)}%`;
  }

  /** Draws one bar per slice, with a logarithmic height: a prompt has a few bytes, a redrawn screen has thousands. */
  #showActivity(activity, width) {
    const maximum = Math.log1p(Math.max(1, ...activity));
    const bars = activity.map((bytes, index) => {
      const height = (HEIGHT * Math.log1p(bytes)) / maximum;
      return bytes === 0 ? "" : `M${index} ${HEIGHT}v${-height.toFixed(1)}h1v${height.toFixed(1)}z`;
    });
    this.#picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.#activity.setAttribute("d", bars.join(""));
  }

  #showMoments(moments) {
    const marks = [...this.#marks.children];
    const hasFocus = this.#marks.contains(document.activeElement);
    const previous = this.#moments[marks.findIndex(({ tabIndex }) => tabIndex === 0)];
    const position = moments.findIndex(({ kind, at, label }) => kind === previous?.kind && at === previous.at && label === previous.label);
    const reachable = Math.max(0, position);
    const buttons = moments.map((moment, index) => {
      const label = `${moment.label} at ${formatPosition(moment.at)}`;
      return element(
        "button",
        { type: "button", class: `timeline-mark ${moment.kind}`, "aria-label": label, title: label, tabIndex: index === reachable ? 0 : -1, onclick: () => this.#select(moment) },
        SIGNS[moment.kind],
      );
    });
    this.#moments = moments;
    this.#marks.replaceChildren(...buttons);
    this.#marks.hidden = buttons.length === 0;
    if (hasFocus) {
      (buttons[reachable] ?? this.#slider).focus();
    }
  }

  /** Moves the focus between the marks: the toolbar is one stop of the Tab key. */
  #onMarkKey(event) {
    const marks = [...this.#marks.children];
    const at = marks.indexOf(event.target);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: marks.length - 1 }[event.key];
    if (at >= 0 && marks[next] !== undefined) {
      event.preventDefault();
      marks[next].focus();
    }
  }

  /** Makes this mark the one to which Tab leads. */
  #setReachable(mark) {
    for (const one of this.#marks.children) {
      one.tabIndex = one === mark ? 0 : -1;
    }
  }

  #onKey(event) {
    const move = KEYS[event.key];
    if (move !== undefined && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      const target = move(this.#position, event.shiftKey ? LONG_STEP : STEP, this.#duration);
      this.#seek(Math.max(0, Math.min(target, this.#duration)));
    }
  }

  #onPointerDown(event) {
    if (event.button === 0) {
      this.#isDragging = true;
      this.#slider.setPointerCapture(event.pointerId);
      this.#seekToPointer(event);
    }
  }

  #seekToPointer({ clientX }) {
    const { left, width } = this.#slider.getBoundingClientRect();
    this.#seek(this.#duration * Math.max(0, Math.min(1, (clientX - left) / width)));
  }
}
