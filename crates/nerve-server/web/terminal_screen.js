// The emulator: shows the output of a program with xterm.js.

import { UnicodeGraphemesAddon } from "./vendor/addon-unicode-graphemes.mjs";
import { WebLinksAddon } from "./vendor/addon-web-links.mjs";
import { Terminal } from "./vendor/xterm.mjs";
import { hasOnlyFiles } from "./dom.js";
import "./scripted_styles.js";

/** Rows of scrollback. */
const SCROLLBACK = 5000;
/** Sizes of the font in pixels: the smallest readable one, and the largest one for a narrow program in a wide window. */
const MIN_FONT = 8;
const MAX_FONT = 15;
const FONT_STEP = 0.5;
/** Size below which the font does not shrink only to show all rows. */
const MIN_FONT_FOR_ROWS = 10;
/** Size for a terminal that is resized to the page. */
const COMFORTABLE_FONT = 13;
/** Columns and rows that every program can use. */
const MIN_COLS = 20;
const MIN_ROWS = 8;
/** Space for the scroll bar in pixels. */
const SCROLL_BAR = 16;

/** Queries of programs: the server answers them, so a page must not. */
const CSI_QUERIES = [
  { final: "c" },
  { prefix: ">", final: "c" },
  { prefix: "=", final: "c" },
  { final: "n" },
  { prefix: "?", final: "n" },
  { intermediates: "$", final: "p" },
  { prefix: "?", intermediates: "$", final: "p" },
  { prefix: ">", final: "q" },
  { prefix: "?", final: "u" },
  { final: "t" },
];
/** Operating system commands that ask for a colour with "?", and those that read or write the clipboard. */
const COLOR_COMMANDS = [4, 10, 11, 12];
const CLIPBOARD = 52;
/** Matches reports that the window has gained or lost the focus. They are not sent: other people may look at the same terminal. */
const FOCUS_REPORT = /^\x1b\[[IO]$/;

/** Returns true for the key that leaves the terminal, as in the viewer: without it, the keyboard is trapped. */
function isLeaveKey({ type, ctrlKey, altKey, metaKey, key }) {
  return type === "keydown" && ctrlKey && !altKey && !metaKey && key === "]";
}

const canvas = new OffscreenCanvas(1, 1).getContext("2d");

/** Returns the width and the height of a character in pixels, as the emulator measures them, without a layout. */
function measureCell(family, size) {
  canvas.font = `${size}px ${family}`;
  const { width, fontBoundingBoxAscent: ascent, fontBoundingBoxDescent: descent } = canvas.measureText("W");
  return { width, height: Math.ceil(ascent + descent) };
}

/**
 * A terminal of a fixed size. Calls `type` with keys, `openLink` with the target of a link that was clicked, `leave`
 * after Ctrl+], and `refusePaste` after a paste without text. With `type` null it takes no keys, Tab moves on, and
 * `leave` and `refusePaste` can be missing.
 */
export class TerminalScreen {
  #terminal;
  #parent;
  #family;
  #zoom = 0;
  /** The sizes for which the font was chosen. */
  #fitted = "";
  #revealsCursor = false;
  #listeners = new AbortController();

  /** `cols` and `rows` are the expected size: a change of it draws everything anew. */
  constructor(parent, { type, openLink, leave, refusePaste, cols = 80, rows = 24 }) {
    this.#parent = parent;
    this.#family = getComputedStyle(parent).fontFamily;
    this.#terminal = new Terminal({
      allowProposedApi: true,
      disableStdin: type === null,
      cols,
      rows,
      fontFamily: this.#family,
      fontSize: this.#chooseFont(cols, rows),
      linkHandler: { activate: (event, target) => openLink(target) },
      scrollback: SCROLLBACK,
      theme: this.#readColors(),
    });
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", () => (this.#terminal.options.theme = this.#readColors()), { signal: this.#listeners.signal });
    this.#terminal.loadAddon(new UnicodeGraphemesAddon());
    this.#terminal.loadAddon(new WebLinksAddon((event, target) => openLink(target)));
    this.#refuseQueries();
    this.#terminal.attachCustomKeyEventHandler((event) => {
      if (type === null && event.key === "Tab") {
        // The emulator would cancel it.
        return false;
      }
      const isLeaving = leave !== undefined && isLeaveKey(event);
      if (isLeaving) {
        event.preventDefault();
        leave();
      }
      return !isLeaving;
    });
    if (type !== null) {
      this.#terminal.onData((keys) => FOCUS_REPORT.test(keys) || type(keys));
      this.#terminal.onBinary((keys) => type(Uint8Array.from(keys, (char) => char.charCodeAt(0))));
      this.#refusePastes(refusePaste);
    }
    this.#terminal.open(parent);
    if (matchMedia("(pointer: coarse)").matches) {
      // The keyboard of a phone is for the field below the terminal.
      this.#terminal.textarea.inputMode = "none";
    }
  }

  /** Clears the terminal and changes its size, after the output so far. */
  reset(cols, rows) {
    this.#revealsCursor = true;
    this.#terminal.write("\x1bc", () => this.#resize(cols, rows));
  }

  /** Changes the size, after the output so far. */
  resize(cols, rows) {
    this.#terminal.write("", () => this.#resize(cols, rows));
  }

  /** Shows output. Calls `done` when it is shown. */
  write(bytes, done = () => {}) {
    this.#terminal.write(bytes, () => {
      if (this.#revealsCursor) {
        this.#revealsCursor = false;
        this.#showCursor();
      }
      done();
    });
  }

  /** Scrolls to the cursor after the next output: that is the echo of what was typed. */
  revealCursor() {
    this.#revealsCursor = true;
  }

  focus() {
    this.#terminal.focus();
  }

  /** True if the first row of the scrollback is in view. */
  get isAtTop() {
    return this.#terminal.buffer.active.viewportY === 0;
  }

  /** True if the scrollback can have more rows. The alternate screen has none. */
  get hasRoom() {
    const { type, baseY } = this.#terminal.buffer.active;
    return type === "normal" && baseY < SCROLLBACK;
  }

  /** Lets `write` replace everything by output with more scrollback. Shows the rows above those that were in view before. */
  extendScrollback(write) {
    const { baseY, viewportY } = this.#terminal.buffer.active;
    const below = baseY - viewportY;
    write();
    this.#terminal.write("", () => {
      const { buffer, rows } = this.#terminal;
      this.#terminal.scrollToLine(Math.max(0, buffer.active.baseY - below - rows + 1));
    });
  }

  /** True if the program has turned on application cursor keys (DECCKM). */
  get hasApplicationKeys() {
    return this.#terminal.modes.applicationCursorKeysMode;
  }

  /** Changes the size of the font by this many pixels; 0 fits it again. */
  zoom(steps) {
    const zoom = steps === 0 ? 0 : this.#zoom + steps;
    this.#zoom = Math.max(-MAX_FONT, Math.min(MAX_FONT, zoom));
    this.fit();
  }

  /** Chooses the largest font with which all columns and rows fit. If it would be unreadable, the terminal scrolls instead. */
  fit() {
    const terminal = this.#terminal;
    const view = this.#parent.parentElement;
    const situation = [view.clientWidth, view.clientHeight, terminal.cols, terminal.rows, this.#zoom].join();
    // A hidden terminal has no size. Each change of the font draws all rows anew.
    if (view.clientWidth > 0 && situation !== this.#fitted) {
      this.#fitted = situation;
      const size = this.#chooseFont(terminal.cols, terminal.rows);
      terminal.options.fontSize = size;
      this.#parent.style.width = `${Math.ceil(measureCell(this.#family, size).width * terminal.cols) + SCROLL_BAR}px`;
      this.#showCursor();
    }
  }

  /** Scrolls the view so that it contains the cursor: the terminal may be larger than the view. */
  #showCursor() {
    const view = this.#parent.parentElement;
    const { cursorX, cursorY } = this.#terminal.buffer.active;
    const cell = measureCell(this.#family, this.#terminal.options.fontSize);
    const reveal = (start, length, size) => Math.max(Math.min(start, length), length + 2 * cell.height - size);
    view.scrollTop = reveal(view.scrollTop, cursorY * cell.height, view.clientHeight);
    view.scrollLeft = reveal(view.scrollLeft, cursorX * cell.width, view.clientWidth);
  }

  /** Returns the columns and rows that fill the page with a font that is easy to read. */
  fittingSize() {
    const { width, height } = this.#measureSpace();
    const cell = measureCell(this.#family, COMFORTABLE_FONT);
    return { cols: Math.max(MIN_COLS, Math.floor(width / cell.width)), rows: Math.max(MIN_ROWS, Math.floor(height / cell.height)) };
  }

  /** Returns the space for rows in pixels. */
  #measureSpace() {
    const view = this.#parent.parentElement;
    const padding = 2 * parseFloat(getComputedStyle(view).paddingLeft);
    return { width: view.clientWidth - padding - SCROLL_BAR, height: view.clientHeight - padding };
  }

  /** Returns the size of the font in pixels for a number of columns and rows. */
  #chooseFont(cols, rows) {
    const { width, height } = this.#measureSpace();
    const fits = (size) => {
      const cell = measureCell(this.#family, size);
      return cell.width * cols <= width && (cell.height * rows <= height || size <= MIN_FONT_FOR_ROWS);
    };
    let size = MAX_FONT;
    while (size > MIN_FONT && !fits(size)) {
      size -= FONT_STEP;
    }
    return Math.max(MIN_FONT / 2, size + this.#zoom);
  }

  dispose() {
    this.#listeners.abort();
    this.#terminal.dispose();
  }

  #resize(cols, rows) {
    this.#terminal.resize(cols, rows);
    this.fit();
  }

  /** Refuses pastes without text. Agents take an empty paste for a request to read the clipboard of their own machine. */
  #refusePastes(refuse) {
    const check = (event) => {
      if (hasOnlyFiles(event)) {
        event.preventDefault();
        event.stopImmediatePropagation();
        refuse();
      }
    };
    this.#parent.addEventListener("paste", check, { capture: true, signal: this.#listeners.signal });
  }

  #readColors() {
    const { backgroundColor: background, color: foreground } = getComputedStyle(this.#parent);
    return { background, foreground };
  }

  #refuseQueries() {
    const { parser } = this.#terminal;
    for (const query of CSI_QUERIES) {
      parser.registerCsiHandler(query, () => true);
    }
    parser.registerDcsHandler({ intermediates: "$", final: "q" }, () => true);
    parser.registerDcsHandler({ intermediates: "+", final: "q" }, () => true);
    for (const command of COLOR_COMMANDS) {
      parser.registerOscHandler(command, (text) => text.split(";").includes("?"));
    }
    parser.registerOscHandler(CLIPBOARD, () => true);
  }
}
