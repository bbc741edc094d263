// All nodes, those that wait for a person first.

import { announce, arrangeChildren, element, showText, uniqueId } from "./dom.js";
import { MachineList } from "./machine_list.js";
import { NodeCard } from "./node_card.js";

/** Order of the states. */
const ORDER = ["blocked", "suspended", "busy", "starting", "ready", "created", "stopping", "unreachable", "stopped"];
/** States in which a node waits for a person or a limit, which screen readers report. */
const ANNOUNCED = ["blocked", "suspended"];
/** Number of cards above which the browser skips the layout of cards out of view. */
const LAYOUT_LIMIT = 40;
/** Interval at which ages are updated, in milliseconds. Updates cause no request. */
const AGE_INTERVAL = 5000;

function rank(node) {
  const position = ORDER.indexOf(node.state);
  return position < 0 ? ORDER.length : position;
}

/** Newly blocked nodes follow those that have waited longer, so that these keep their places. */
function compare(one, other) {
  const waits = (node) => (node.state === "blocked" ? Date.parse(node.progress.state_changed_at) || 0 : 0);
  return rank(one) - rank(other) || waits(one) - waits(other) || one.key.localeCompare(other.key);
}

function isMatch(node, words) {
  const { metadata, progress } = node;
  const parts = [node.key, node.state, node.kind, metadata.profile, metadata.cwd, metadata.branch, progress.last_prompt];
  const text = parts.filter((part) => part).join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Shows the nodes of a store. While another view is shown, only states are reported, and nothing is fetched. */
export class NodeListView {
  #store;
  #role;
  #drafts;
  #cards = new Map();
  /** The states of the nodes as they were last reported. */
  #states = new Map();
  #timer = null;
  #positions = new Map();
  #isPointerDown = false;
  #listeners = new AbortController();
  #sizes = new ResizeObserver(() => this.checkMoves());
  #filter;
  #summary = element("p", { class: "summary" });
  #empty;
  #machines = new MachineList();
  #list = element("ul", { class: "nodes" });

  /** The position to which the page was scrolled when the view was last shown. */
  scrollPosition = 0;

  /** `drafts` keeps prompts that were typed and not sent. */
  constructor(store, role, drafts) {
    this.#store = store;
    this.#role = role;
    this.#drafts = drafts;
    const id = uniqueId("filter");
    this.#filter = element("input", { id, type: "search", placeholder: "Filter", autocomplete: "off", oninput: () => this.#render() });
    const label = element("label", { class: "visually-hidden", for: id }, "Filter nodes by name, state, folder or prompt");
    const create = role === "full" ? [element("a", { href: "#/new" }, "Create one"), ", or use "] : ["Create one with "];
    this.#empty = element("p", { class: "empty", hidden: true }, "No nodes yet. ", ...create, element("code", {}, "nerve new"), ".");
    this.element = element(
      "div",
      { class: "list-view" },
      element("header", { class: "view-head" }, element("h1", { tabIndex: -1 }, "Nodes"), element("div", { class: "filter" }, label, this.#filter)),
      this.#summary,
      this.#machines.element,
      this.#empty,
      this.#list,
    );
    this.#watchPointer();
    this.#sizes.observe(this.#list);
    const { signal } = this.#listeners;
    store.addEventListener("change", () => this.#handleChange(), { signal });
    store.addEventListener("event", ({ detail }) => this.#handleEvent(detail), { signal });
    addEventListener("scroll", () => this.#handleScroll(), { signal, passive: true });
    this.#timer = setInterval(() => this.#updateAges(), AGE_INTERVAL);
  }

  /** Shows what has changed while another view was shown. */
  show() {
    const earlierCards = [...this.#cards.values()];
    this.#render();
    for (const { dialog, form } of earlierCards) {
      dialog.reload();
      form?.showDraft();
    }
  }

  close() {
    clearInterval(this.#timer);
    this.#listeners.abort();
    this.#sizes.disconnect();
    this.#cards.forEach((card) => card.close());
  }

  #updateAges() {
    this.#machines.updateAges();
    this.#cards.forEach((card) => card.updateAge());
  }

  #handleScroll() {
    if (this.element.isConnected) {
      this.scrollPosition = scrollY;
    }
  }

  /** Fetches the dialogs of blocked nodes again: of all, or of the one that an event concerns. */
  #handleEvent({ key, type }) {
    if (!this.element.isConnected) {
      return;
    }
    if (key === null) {
      this.#cards.forEach((card) => card.dialog.reload());
    } else if (type === "NODE_BLOCKED") {
      this.#cards.get(key)?.dialog.reload();
    }
  }

  #handleChange() {
    const { nodes } = this.#store;
    for (const { key, id, state } of nodes.values()) {
      if (this.#states.has(key) && this.#states.get(key) !== state && ANNOUNCED.includes(state)) {
        announce(`${id} is ${state}`);
      }
    }
    this.#states = new Map([...nodes.values()].map(({ key, state }) => [key, state]));
    this.#render();
  }

  /** Renders again when a pointer or an input does not keep the nodes in place any more. */
  #watchPointer() {
    const { signal } = this.#listeners;
    this.#list.addEventListener("pointerdown", () => (this.#isPointerDown = true), { signal });
    const release = () => {
      this.#isPointerDown = false;
      this.#render();
    };
    for (const name of ["pointerup", "pointercancel"]) {
      // The click follows.
      addEventListener(name, () => this.#isPointerDown && setTimeout(release), { signal });
    }
    this.#list.addEventListener("focusout", () => setTimeout(() => this.#render()), { signal });
  }

  /** Returns true while nodes must stay in their places. */
  #isHeld() {
    const focused = document.activeElement;
    return this.#isPointerDown || (focused?.matches("input, textarea") && this.#list.contains(focused));
  }

  /** Ignores clicks for a moment on the buttons of dialogs that have moved. */
  checkMoves() {
    for (const [key, { dialog }] of this.#cards) {
      const position = dialog.position();
      if (position !== null && position !== this.#positions.get(key)) {
        dialog.ignoreClicks();
      }
      this.#positions.set(key, position);
    }
  }

  #render() {
    if (!this.element.isConnected) {
      return;
    }
    const isHeld = this.#isHeld();
    const words = this.#filter.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const nodes = [...this.#store.nodes.values()];
    const shown = nodes.filter((node) => isMatch(node, words)).sort(compare);
    for (const [key, card] of this.#cards) {
      if (!isHeld && !this.#store.nodes.has(key)) {
        card.close();
        card.element.remove();
        this.#sizes.unobserve(card.element);
        this.#cards.delete(key);
        this.#positions.delete(key);
      }
    }
    for (const node of nodes) {
      this.#cardOf(node).update(node);
    }
    const elements = shown.map((node) => this.#cards.get(node.key).element);
    this.#list.classList.toggle("many", nodes.length > LAYOUT_LIMIT);
    if (isHeld) {
      this.#list.append(...elements.filter((child) => !child.isConnected));
    } else {
      arrangeChildren(this.#list, elements);
    }
    this.#machines.update(this.#store.machines, this.#store.machinesProblem);
    this.#summarise(nodes, shown);
    this.checkMoves();
  }

  #cardOf(node) {
    let card = this.#cards.get(node.key);
    if (card === undefined) {
      card = new NodeCard(node, this.#role, this.#drafts);
      this.#cards.set(node.key, card);
      this.#sizes.observe(card.element);
    }
    return card;
  }

  #summarise(nodes, shown) {
    const counts = ORDER.map((state) => [state, nodes.filter((node) => node.state === state).length]);
    const parts = counts.filter(([, count]) => count > 0).map(([state, count]) => `${count} ${state}`);
    const total = parts.join(", ");
    showText(this.#summary, shown.length < nodes.length ? `${shown.length} of ${nodes.length} shown: ${total}` : total);
    this.#empty.hidden = nodes.length > 0 || !this.#store.isLoaded;
  }
}
