// Protects buttons that have just moved from clicks that were meant for others.

/** Time for which buttons must have stayed in place before a click counts, in milliseconds. */
const STEADY_TIME = 400;

/** Ignores clicks on the buttons of an element for a moment after they have moved. */
export class ClickGuard {
  #container;
  #timer = null;

  /** `container` has the buttons. While clicks are ignored, it has the class "unsteady". */
  constructor(container) {
    this.#container = container;
  }

  /** True if a click counts. */
  get isSteady() {
    return !this.#container.classList.contains("unsteady");
  }

  /** Ignores clicks for a moment. */
  ignoreClicks() {
    this.#container.classList.add("unsteady");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#container.classList.remove("unsteady"), STEADY_TIME);
  }

  close() {
    clearTimeout(this.#timer);
  }
}
