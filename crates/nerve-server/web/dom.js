// Creates and arranges elements. Text of agents and users is only ever inserted as text.

/** Marks that change the direction of text, which can disguise a command, and C1 control characters. */
const INVISIBLE = /[\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** ASCII control characters except tabs and the ends of lines: fonts show nothing for them. */
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

/** Returns a text with visible signs instead of directional marks and control characters, such as "⟨U+202E⟩", "⟨U+009B⟩", "^[" and "^?". */
function escapeMarks(text) {
  return text
    .replace(INVISIBLE, (mark) => `⟨U+${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`)
    .replace(CONTROLS, (control) => `^${String.fromCharCode(control.charCodeAt(0) ^ 0x40)}`);
}

/**
 * Returns a new element. Properties whose names begin with "on" are listeners, `class` and names with a dash or `role`
 * are attributes, others are properties of the element. Strings among the children become text.
 */
export function element(tag, properties = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) {
      created.addEventListener(name.slice(2), value);
    } else if (name === "class" || name === "role" || name === "for" || name.includes("-")) {
      created.setAttribute(name, value);
    } else {
      created[name] = value;
    }
  }
  created.append(...children.map((child) => (typeof child === "string" ? escapeMarks(child) : child)));
  return created;
}

/** Returns a new element of a picture (SVG). Properties are attributes; strings among the children become text. */
export function svgElement(tag, attributes = {}, ...children) {
  const created = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([name, value]) => created.setAttribute(name, value));
  created.append(...children.map((child) => (typeof child === "string" ? escapeMarks(child) : child)));
  return created;
}

/** Sets the text of an element, and hides the element if there is none. */
export function showText(target, text) {
  const shownText = escapeMarks(String(text ?? ""));
  if (target.textContent !== shownText) {
    target.textContent = shownText;
  }
  // Setting an attribute to the same value causes a frame, and would delay an echo in the terminal.
  if (target.hidden !== (shownText === "")) {
    target.hidden = shownText === "";
  }
}

/** Gives an element these children, in this order. Moves only those that are out of place, and keeps the focus. */
export function arrangeChildren(parent, children) {
  const focused = document.activeElement;
  const kept = new Set(children);
  [...parent.children].filter((child) => !kept.has(child)).forEach((child) => child.remove());
  children.forEach((child, index) => {
    if (parent.children[index] !== child) {
      parent.insertBefore(child, parent.children[index] ?? null);
    }
  });
  if (focused !== document.activeElement && parent.contains(focused)) {
    focused.focus({ preventScroll: true });
  }
}

/** Returns the beginning of a text of more than this number of characters, with an ellipsis. Never splits a character. */
export function shorten(text, length) {
  return text.length <= length ? text : `${text.slice(0, length).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** Returns true if a paste has an image or another file, and no text. */
export function hasOnlyFiles({ clipboardData: { types } }) {
  return types.includes("Files") && !types.includes("text/plain");
}

/** Reports a change to screen readers. */
export function announce(text) {
  document.getElementById("announcer").textContent = escapeMarks(text);
}

let lastId = 0;

/** Returns an id that no other element has. */
export function uniqueId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
