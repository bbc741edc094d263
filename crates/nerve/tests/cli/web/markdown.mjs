// The page renders the cases that transcripts as HTML share. Needs no browser: the elements are made of plain objects.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [web, cases] = process.argv.slice(2);
/** Classes that both renderers have. */
const CLASSES = /^(target|task|plain|to-\w+)$/;

class FakeElement {
  constructor(tag) {
    this.tag = tag;
    this.attributes = {};
    this.children = [];
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  addEventListener() {}
  append(...children) {
    this.children.push(...children);
  }
  get textContent() {
    return this.children.map((child) => (typeof child === "string" ? child : child.textContent)).join("");
  }
}

function escape(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

/** Returns the HTML of an element as the shared cases have it: without the page's own controls. */
function html(node) {
  if (typeof node === "string") {
    return escape(node);
  }
  const { tag, attributes, children } = node;
  const shared = CLASSES.test(attributes.class) ? attributes.class : "";
  const inner = children.map(html).join("");
  switch (`${tag}.${attributes.class}`) {
    case "div.markdown":
      return inner;
    case "p.heading":
      return `<h${attributes["aria-level"]}>${inner}</h${attributes["aria-level"]}>`;
    case "div.code":
      return codeBlock(node);
    case "div.table":
      return `<div class="table">${inner}</div>`;
    case "pre.plain":
      return `<pre class="plain">${escape(node.textContent.trimEnd())}</pre>`;
  }
  if (tag === "span" && shared === "") {
    return inner;
  }
  if (tag === "br" || tag === "hr") {
    return `<${tag}>`;
  }
  const start = node.start === undefined || node.start === 1 ? "" : ` start="${node.start}"`;
  const href = node.href === undefined ? "" : ` href="${escape(node.href)}"`;
  return `<${tag}${href}${start}${shared ? ` class="${shared}"` : ""}>${inner}</${tag}>`;
}

function codeBlock({ children: [{ children: [language] }, { children: [code] }] }) {
  const name = language.textContent;
  return `<pre><code${name ? ` class="language-${name}"` : ""}>${escape(code.textContent)}</code></pre>`;
}

globalThis.document = { createElement: (tag) => new FakeElement(tag) };
// Node takes the page's files for modules only in a package that says so.
const folder = mkdtempSync(join(tmpdir(), "nerve-markdown-"));
try {
  cpSync(web, folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  const { renderMarkdown } = await import(pathToFileURL(join(folder, "markdown.js")).href);
  for (const { name, markdown, html: expected } of JSON.parse(readFileSync(cases, "utf8"))) {
    assert.equal(html(renderMarkdown(markdown)), expected, name);
  }
} finally {
  rmSync(folder, { recursive: true });
}
