// Renders Markdown as elements. Text of agents is only ever inserted as text: HTML stays visible, and images are links.

import { announce, element } from "./dom.js";
import { lexer } from "./vendor/marked.esm.js";

/** Protocols of addresses that a click may open. */
const PROTOCOLS = ["http:", "https:", "mailto:"];
/** Maximum depth of nested blocks. Deeper blocks are shown as they were written. */
const MAX_DEPTH = 24;

/** Character references that are common in prose. */
const REFERENCES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** Returns an element with the rendered text. Text that cannot be parsed is shown as it was written. */
export function renderMarkdown(text) {
  try {
    return element("div", { class: "markdown" }, ...blocks(lexer(text), 0));
  } catch {
    return plainText(text);
  }
}

/** Returns an element that shows a text as it is. */
export function plainText(text) {
  return element("pre", { class: "plain" }, text);
}

/** Returns the address of a link that a click may open; null for others. */
export function safeAddress(text) {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url !== null && PROTOCOLS.includes(url.protocol) ? url.href : null;
}

function blocks(tokens, depth) {
  return depth > MAX_DEPTH ? [plainText(tokens.map(({ raw }) => raw).join(""))] : tokens.flatMap((token) => block(token, depth));
}

function block(token, depth) {
  switch (token.type) {
    case "space":
    case "def":
      return [];
    case "heading":
      return [element("p", { class: "heading", role: "heading", "aria-level": Math.min(6, token.depth + 2) }, ...inlines(token.tokens, depth))];
    case "paragraph":
      return [element("p", {}, ...inlines(token.tokens, depth))];
    case "text":
      return [element("span", {}, ...(token.tokens ? inlines(token.tokens, depth) : [decodeReferences(token.text)]))];
    case "code":
      return [codeBlock(token.text, token.lang)];
    case "blockquote":
      return [element("blockquote", {}, ...blocks(token.tokens, depth + 1))];
    case "list":
      return [list(token, depth)];
    case "checkbox":
      return [token.checked ? "☑ " : "☐ "];
    case "table":
      return [table(token, depth)];
    case "hr":
      return [element("hr")];
    default:
      return [plainText(token.raw)];
  }
}

function list(token, depth) {
  const items = token.items.map((item) => element("li", { class: item.task ? "task" : "" }, ...blocks(item.tokens, depth + 1)));
  const created = element(token.ordered ? "ol" : "ul", {}, ...items);
  if (token.ordered && Number.isInteger(token.start)) {
    created.start = token.start;
  }
  return created;
}

function table(token, depth) {
  const cell = (tag) => (content) => element(tag, { class: content.align ? `to-${content.align}` : "" }, ...inlines(content.tokens, depth));
  const head = element("thead", {}, element("tr", {}, ...token.header.map(cell("th"))));
  const rows = token.rows.map((row) => element("tr", {}, ...row.map(cell("td"))));
  return element("div", { class: "table", tabIndex: 0, role: "region", "aria-label": "Table" }, element("table", {}, head, element("tbody", {}, ...rows)));
}

function inlines(tokens, depth) {
  return depth > MAX_DEPTH ? tokens.map(({ raw }) => raw) : tokens.flatMap((token) => inline(token, depth + 1));
}

function inline(token, depth) {
  switch (token.type) {
    case "text":
      return token.tokens ? inlines(token.tokens, depth) : [decodeReferences(token.text)];
    case "escape":
      return [token.text];
    case "strong":
    case "em":
    case "del":
      return [element(token.type, {}, ...inlines(token.tokens, depth))];
    case "codespan":
      return [element("code", {}, token.text)];
    case "br":
      return [element("br")];
    case "link":
      return link(token.href, inlines(token.tokens, depth));
    case "image":
      return link(token.href, [`image: ${token.text || "no description"}`]);
    case "checkbox":
      return [token.checked ? "☑ " : "☐ "];
    default:
      return [token.raw];
  }
}

/** Returns a link with its target, unless that is its text. An address that must not be opened is shown as text. */
function link(href, children) {
  const address = safeAddress(href);
  const content = element("span", {}, ...children);
  const target = address ?? href;
  const isItsText = [target, target.replace(/^mailto:/, ""), target.replace(/\/$/, "")].includes(content.textContent);
  const shownTarget = isItsText ? [] : [element("span", { class: "target" }, ` (${target})`)];
  if (address === null) {
    return [content, ...shownTarget];
  }
  return [element("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, content), ...shownTarget];
}

function codeBlock(text, language) {
  const copy = element("button", { type: "button", class: "copy", onclick: () => copyText(code) }, "Copy");
  const code = element("code", {}, text);
  const name = element("span", { class: "language" }, (language ?? "").split(/\s/, 1)[0]);
  const head = element("div", { class: "code-head" }, name, copy);
  return element("div", { class: "code" }, head, element("pre", { tabIndex: 0, "aria-label": "Code" }, code));
}

/** Copies the text of an element as it is shown. Without access to the clipboard, selects it for the person to copy. */
async function copyText(shown) {
  try {
    await navigator.clipboard.writeText(shown.textContent);
    announce("Copied");
  } catch {
    getSelection().selectAllChildren(shown);
    announce("Selected: copy it with the keyboard");
  }
}

/** Replaces character references. */
function decodeReferences(text) {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w{2,6}));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) {
      return Object.hasOwn(REFERENCES, name) ? REFERENCES[name] : whole;
    }
    const code = decimal === undefined ? parseInt(hex, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? String.fromCodePoint(code) : whole;
  });
}
