// Folds long texts, which would make the page slow.

import { element } from "./dom.js";
import { plainText } from "./markdown.js";

/** Characters of a text that are shown at first. */
const FOLD_SIZE = 16 * 1024;

/** Returns the beginning of a text. Ends it after a line if that leaves enough of it, and never splits a character. */
function beginning(text) {
  const part = text.slice(0, FOLD_SIZE);
  const lineEnd = part.lastIndexOf("\n");
  return lineEnd > FOLD_SIZE / 2 ? part.slice(0, lineEnd) : part.replace(/[\ud800-\udbff]$/, "");
}

function formatSize(characters) {
  const kilo = characters / 1024;
  return kilo < 1024 ? `${Math.round(kilo)} KB` : `${(kilo / 1024).toFixed(1)} MB`;
}

/** Returns an element with a text. A long text is folded until a click on its button. `render` returns an element for a text. */
export function longText(text, render = plainText) {
  if (text.length <= FOLD_SIZE) {
    return render(text);
  }
  // The whole text is shown unrendered: rendering takes seconds for some texts.
  const showAll = () => box.replaceChildren(plainText(text));
  const button = element("button", { type: "button", class: "show-all", onclick: showAll }, `Show all (${formatSize(text.length)})`);
  const box = element("div", { class: "folded" }, render(beginning(text)), button);
  return box;
}
