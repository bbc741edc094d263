// Lets xterm.js style its output under the page's policy, which forbids style elements and style attributes. A
// style element becomes a constructed style sheet, and an attribute becomes properties. Both are open to scripts
// only, never to text of a program.

const { createElement } = Document.prototype;
const { remove, setAttribute } = Element.prototype;

/** Returns an element that stands for a style element: its text becomes a sheet of the document. */
function createStyle() {
  const sheet = new CSSStyleSheet();
  const style = createElement.call(document, "span");
  style.hidden = true;
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(style, "textContent", { set: (css) => sheet.replaceSync(css) });
  style.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    remove.call(style);
  };
  return style;
}

document.createElement = (tag, options) => (tag === "style" ? createStyle() : createElement.call(document, tag, options));

HTMLElement.prototype.setAttribute = function (name, value) {
  if (name === "style") {
    this.style.cssText = value;
  } else {
    setAttribute.call(this, name, value);
  }
};
