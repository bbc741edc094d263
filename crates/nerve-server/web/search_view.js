// Searches the text that was said or shown in all nodes, running or gone.

import { describeError, search } from "./api.js";
import { announce, element, showText, uniqueId } from "./dom.js";
import { href, nodeHref } from "./route.js";
import { keyOf } from "./node_store.js";
import { formatTime, serverNow } from "./time.js";

const DAY = 24 * 3600 * 1000;
/** Ages of the oldest text that is searched. */
const AGES = { "": "any time", "1d": "the last 24 hours", "7d": "the last 7 days", "30d": "the last 30 days", "365d": "the last year" };
const KINDS = { "": "everything", prompt: "prompts", answer: "answers", tool: "tools", screen: "screens" };
/** Hits that are shown at first, and at most. */
const FIRST_LIMIT = 30;
const LAST_LIMIT = 1000;

function select(options) {
  return element("select", { id: uniqueId("select") }, ...Object.entries(options).map(([value, label]) => element("option", { value }, label)));
}

function labelled(label, field) {
  return element("div", { class: "field" }, element("label", { for: field.id }, label), field);
}

/** Returns a text with its matches marked. Matches are ranges of bytes in its UTF-8 form. */
function markMatches(text, matches) {
  const bytes = new TextEncoder().encode(text);
  const part = (from, to) => new TextDecoder().decode(bytes.subarray(from, to));
  const children = [];
  let end = 0;
  for (const [from, to] of matches) {
    children.push(part(end, from), element("mark", {}, part(from, to)));
    end = to;
  }
  return [...children, part(end)];
}

/** Shows the form and the hits. The address has the search, so that the browser's history has it too. */
export class SearchView {
  title = "Search";
  #store;
  #request = 0;
  /** The hits that are shown, with their links. */
  #shown = [];
  #listeners = new AbortController();
  #text = element("input", { id: uniqueId("search"), type: "search", autocomplete: "off", placeholder: "Text or /regular expression/" });
  #node = element("input", { id: uniqueId("search"), autocomplete: "off", autocapitalize: "off", spellcheck: false, placeholder: "all", title: "NODE or SESSION/NODE" });
  #since = select(AGES);
  #kind = select(KINDS);
  #summary = element("p", { class: "note", hidden: true });
  #problem = element("p", { class: "problem", role: "alert", hidden: true });
  #hits = element("ol", { class: "hits" });
  #more = element("button", { type: "button", hidden: true }, "Show more");

  constructor(store, route) {
    this.#store = store;
    const form = element(
      "form",
      { class: "search", role: "search", onsubmit: (event) => this.#submit(event) },
      labelled("Search for", this.#text),
      labelled("Node", this.#node),
      labelled("Since", this.#since),
      labelled("In", this.#kind),
      element("button", { type: "submit", class: "primary" }, "Search"),
    );
    this.element = element("div", { class: "page-view" }, element("h1", { tabIndex: -1 }, "Search"), form, this.#problem, this.#summary, this.#hits, this.#more);
    this.open(route);
    store.addEventListener("change", () => this.#updateLinks(), { signal: this.#listeners.signal });
  }

  /** Runs the search that an address describes. */
  open({ params }) {
    this.#text.value = params.q ?? "";
    this.#node.value = params.node ?? "";
    this.#since.value = Object.hasOwn(AGES, params.since ?? "") ? (params.since ?? "") : "";
    this.#kind.value = Object.hasOwn(KINDS, params.in ?? "") ? (params.in ?? "") : "";
    this.title = params.q ? `Search: ${params.q}` : "Search";
    this.#search(FIRST_LIMIT);
  }

  close() {
    this.#request += 1;
    this.#listeners.abort();
  }

  #submit(event) {
    event.preventDefault();
    const address = href(["search"], { q: this.#text.value.trim(), node: this.#node.value.trim(), since: this.#since.value, in: this.#kind.value });
    if (address === location.hash) {
      this.#search(FIRST_LIMIT);
    } else {
      location.hash = address;
    }
  }

  async #search(limit) {
    this.#request += 1;
    const request = this.#request;
    const pattern = this.#text.value.trim();
    showText(this.#problem, "");
    this.#more.hidden = true;
    if (pattern === "") {
      this.#showHits([]);
      showText(this.#summary, "");
      return;
    }
    showText(this.#summary, "Searching…");
    try {
      const results = await search({ pattern, limit, ...this.#readFilters() });
      if (request === this.#request) {
        this.#show(results, limit);
      }
    } catch (error) {
      if (request === this.#request) {
        this.#showHits([]);
        showText(this.#summary, "");
        showText(this.#problem, `The search has failed: ${describeError(error)}`);
      }
    }
  }

  #readFilters() {
    const name = this.#node.value.trim();
    const [session, node] = name.includes("/") ? name.split(/\/(.*)/s) : [undefined, name];
    const days = parseInt(this.#since.value, 10);
    const since = Number.isNaN(days) ? undefined : new Date(serverNow() - days * DAY).toISOString();
    return { node, session, since, kinds: this.#kind.value };
  }

  #show({ hits, unsearched_count: unsearched }, limit) {
    const isLimited = hits.length >= limit;
    const count = hits.length === 1 ? "1 hit" : `${hits.length} hits`;
    const gaps = unsearched > 0 ? ` ${unsearched} files are not searched completely.` : "";
    const summary = hits.length === 0 ? `Nothing was found.${gaps}` : `${isLimited ? `The newest ${count}` : count}.${gaps}`;
    showText(this.#summary, summary);
    announce(summary);
    this.#showHits(hits);
    this.#more.hidden = !isLimited || limit >= LAST_LIMIT;
    this.#more.onclick = () => this.#search(Math.min(LAST_LIMIT, limit * 4));
  }

  #showHits(hits) {
    this.#shown = [];
    this.#hits.replaceChildren(...hits.map((hit) => this.#createHit(hit)));
    this.#updateLinks();
  }

  /** Makes links lead to nodes that exist, or to the recordings of those that are gone. */
  #updateLinks() {
    for (const { hit, link } of this.#shown) {
      const address = this.#addressOf(hit);
      if (address === null) {
        link.removeAttribute("href");
      } else if (link.getAttribute("href") !== address) {
        link.href = address;
      }
    }
  }

  #createHit(hit) {
    const { node_id: id, session_id: session } = hit;
    const name = id ? `${session && session !== "default" ? `${session}/` : ""}${id}` : "recording";
    const place = hit.turn ? `turn ${hit.turn}` : "";
    const facts = [place, formatTime(hit.happened_at), hit.kind].filter((fact) => fact !== "").join(" · ");
    const link = element("a", {}, element("bdi", {}, name));
    this.#shown.push({ hit, link });
    return element("li", {}, element("p", { class: "hit-head" }, link, " ", element("span", { class: "age" }, facts)), element("p", { class: "excerpt" }, ...markMatches(hit.text, hit.matches)));
  }

  /** Returns the address of a hit: in its node, or in its recording if the node is gone. */
  #addressOf({ node_id: id, session_id: session, recording_id: recording, turn }) {
    const node = { session: session ?? "default", id };
    if (id && this.#store.nodes.has(keyOf(node.session, id))) {
      return nodeHref(node, turn ? { turn, recording } : {});
    }
    return recording ? href(["recording", recording], { turn }) : null;
  }
}
