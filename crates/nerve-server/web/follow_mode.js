// Follow mode of a scroller: it stays at its end while the reader is there.

import { element } from "./dom.js";

/** Distance from the end within which the reader counts as being at the end, in pixels. */
const END_TOLERANCE = 24;

/** Keeps the reader's position in a scroller whose content grows: at the end, or at the first element that is visible. */
export class FollowMode {
  #isAtEnd = true;
  #lastTop = 0;
  #scroller;
  #sizes = new ResizeObserver(() => this.keepEnd());
  /** Scrolls to the end. Shown if there is more below than before. */
  button = element("button", { type: "button", class: "below", hidden: true, onclick: () => this.followEnd() }, "New below ↓");

  /** `content` is the only child of `scroller`. Elements that match `unfolding` unfold something when they are clicked. */
  constructor(scroller, content, unfolding) {
    this.#scroller = scroller;
    scroller.addEventListener("scroll", () => this.#handleScroll());
    // `toggle` events do not bubble.
    content.addEventListener("toggle", ({ target }) => target.open || this.#handleScroll(), { capture: true });
    // Otherwise the unfolded part would move out of view.
    content.addEventListener("click", ({ target }) => target.closest(unfolding) && this.leaveEnd());
    this.#sizes.observe(scroller);
    this.#sizes.observe(content);
  }

  close() {
    this.#sizes.disconnect();
  }

  /** Scrolls to the end and stays there. */
  followEnd() {
    this.#isAtEnd = true;
    this.keepEnd();
  }

  /** Keeps the reader's position when the content grows. */
  leaveEnd() {
    this.#isAtEnd = false;
  }

  /** Scrolls to the end if the reader is there. */
  keepEnd() {
    if (this.#isAtEnd) {
      this.button.hidden = true;
      this.#scroller.scrollTop = this.#scroller.scrollHeight;
      // The browser may report this scroll together with the reader's next one.
      this.#lastTop = this.#scroller.scrollTop;
    }
  }

  /** Changes elements without moving the first one in view, unless the reader is at the end. */
  keepPosition(elements, change) {
    const { top } = this.#scroller.getBoundingClientRect();
    const anchor = this.#isAtEnd ? undefined : elements.find((one) => one.getBoundingClientRect().bottom > top);
    const before = anchor?.getBoundingClientRect().top;
    change();
    if (anchor?.isConnected) {
      this.#scroller.scrollTop += anchor.getBoundingClientRect().top - before;
    }
  }

  /** Changes the content, and shows the button if there is more below afterwards. */
  watchGrowth(change) {
    const before = this.#scroller.scrollHeight;
    change();
    const hasGrown = this.#scroller.scrollHeight > before;
    this.button.hidden = this.#isAtEnd || (this.button.hidden && !hasGrown);
    this.keepEnd();
  }

  /** Shows the button, because there is more below. */
  showGrowth() {
    this.button.hidden = this.#isAtEnd;
  }

  #handleScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    if (scrollHeight - scrollTop - clientHeight <= END_TOLERANCE) {
      this.#isAtEnd = true;
      this.button.hidden = true;
    } else if (scrollTop < this.#lastTop) {
      // Otherwise the end has moved since the page scrolled to it.
      this.#isAtEnd = false;
    }
    this.#lastTop = scrollTop;
  }
}
