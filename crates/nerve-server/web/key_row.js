// Keys that a phone's keyboard lacks, and a field for text: the keyboards of phones do not work with a terminal's
// own input.

import { element } from "./dom.js";

/** Final characters of the sequences of arrow keys. */
const ARROWS = { "←": ["Left", "D"], "↑": ["Up", "A"], "↓": ["Down", "B"], "→": ["Right", "C"] };

/** Returns the control character of a key, or the key itself if it has none. */
function toControl(key) {
  if (key === "?") {
    return "\x7f";
  }
  return /^[a-z@[\\\]^_ ]$/i.test(key) ? String.fromCharCode(key.toUpperCase().charCodeAt(0) & 0x1f) : key;
}

/** Leaves the focus in the field when a key is pressed, so that a phone keeps its keyboard. */
function keepFocus(event) {
  event.preventDefault();
}

/** A row of keys and a field for text. Calls `send` with the characters to type, and `sendLine` with a text that Enter follows. */
export class KeyRow {
  #send;
  #sendLine;
  #hasApplicationKeys;
  #control = element(
    "button",
    { type: "button", "aria-pressed": "false", onpointerdown: keepFocus, onclick: () => this.#setControl(!this.#hasControl) },
    "Ctrl",
  );
  #field = element("input", {
    type: "text",
    "aria-label": "Text to type",
    placeholder: "Text to type",
    autocapitalize: "off",
    autocomplete: "off",
    spellcheck: false,
    enterKeyHint: "send",
    onbeforeinput: (event) => this.#takeControl(event),
  });

  /** `hasApplicationKeys` returns true if the program has turned on application cursor keys (DECCKM). */
  constructor(send, sendLine, hasApplicationKeys) {
    this.#send = send;
    this.#sendLine = sendLine;
    this.#hasApplicationKeys = hasApplicationKeys;
    const key = (label, name, text) => this.#key(label, name, () => text);
    const arrow = (label) => this.#key(label, ARROWS[label][0], () => this.#arrow(ARROWS[label][1]));
    const enter = key("⏎", "Enter", "\r");
    enter.classList.add("enter");
    const keys = [
      key("Esc", "Esc", "\x1b"),
      key("Tab", "Tab", "\t"),
      this.#control,
      key("^C", "^C: interrupt", "\x03"),
      enter,
      ...Object.keys(ARROWS).map(arrow),
    ];
    const form = element(
      "form",
      { class: "row", onsubmit: (event) => this.#submit(event) },
      this.#field,
      element("button", { type: "button", title: "Type the text without Enter", onclick: () => this.#typeField(this.#send) }, "Type"),
      element("button", { type: "submit", class: "primary", title: "Type the text and Enter" }, "Send"),
    );
    this.element = element("div", { class: "key-row" }, element("div", { class: "keys", role: "toolbar", "aria-label": "Keys" }, ...keys), form);
  }

  /** Returns the characters to type for keys: combined with Ctrl if that was pressed before. */
  withControl(keys) {
    if (!this.#hasControl || keys.length !== 1) {
      return keys;
    }
    this.#setControl(false);
    return toControl(keys);
  }

  get #hasControl() {
    return this.#control.getAttribute("aria-pressed") === "true";
  }

  #setControl(isPressed) {
    this.#control.setAttribute("aria-pressed", String(isPressed));
  }

  #key(label, name, keys) {
    const press = () => {
      this.#send(keys());
      this.#setControl(false);
    };
    return element("button", { type: "button", "aria-label": name, onpointerdown: keepFocus, onclick: press }, label);
  }

  #arrow(final) {
    if (this.#hasControl) {
      return `\x1b[1;5${final}`;
    }
    return this.#hasApplicationKeys() ? `\x1bO${final}` : `\x1b[${final}`;
  }

  /** Types a character with Ctrl instead of adding it to the text. */
  #takeControl(event) {
    if (!this.#hasControl || !event.data) {
      return;
    }
    if (!event.cancelable) {
      this.#takeComposedControl();
    } else if (event.data.length === 1) {
      event.preventDefault();
      this.#send(this.withControl(event.data));
    }
  }

  /** Removes the character that the next input adds. The keyboards of phones compose words, and such input cannot be cancelled. */
  #takeComposedControl() {
    const field = this.#field;
    const before = field.value;
    const take = () => {
      const text = field.value;
      if (this.#hasControl && text.length === before.length + 1) {
        let at = 0;
        while (text[at] === before[at]) {
          at += 1;
        }
        this.#send(this.withControl(text[at]));
        // The browser still inserts the text.
        setTimeout(() => {
          field.value = before;
        });
      }
    };
    field.addEventListener("input", take, { once: true });
  }

  #submit(event) {
    event.preventDefault();
    if (this.#field.value === "") {
      this.#send("\r");
    } else {
      this.#typeField(this.#sendLine);
    }
  }

  /** Types the text, which stays in the field if it could not be sent. */
  #typeField(send) {
    if (send(this.#field.value)) {
      this.#field.value = "";
    }
  }
}
