// All nodes, those that wait for a person first.

import { logOut } from "./api.js";
import { element, showText, uniqueId } from "./dom.js";
import { NodeCard } from "./node_card.js";
import { NotificationSwitch } from "./notification_switch.js";
import { formatAge } from "./time.js";

/** Order of the states. */
const ORDER = ["blocked", "suspended", "busy", "starting", "ready", "created", "stopping", "stopped"];
/** Interval at which ages are shown anew, in milliseconds. It causes no request. */
const AGE_INTERVAL = 5000;
/** Interval between updates of the banner, in milliseconds. */
const BANNER_INTERVAL = 1000;

function rank(node) {
  const found = ORDER.indexOf(node.state);
  return found < 0 ? ORDER.length : found;
}

/** Nodes that become blocked follow those that wait longer, so that these stay where they are. */
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

/** Shows the nodes of a store. */
export class NodeListView {
  #store;
  #connection;
  #session;
  #cards = new Map();
  #timers = [];
  #places = new Map();
  #isPointerDown = false;
  #listeners = new AbortController();
  #sizes = new ResizeObserver(() => this.#noteMoves());
  #banner = element("p", { class: "banner", role: "alert", hidden: true });
  #filter;
  #summary = element("p", { class: "summary" });
  #list = element("ul", { class: "nodes" });
  #problem = element("p", { class: "problem", role: "alert", hidden: true });

  constructor(store, connection, session) {
    this.#store = store;
    this.#connection = connection;
    this.#session = session;
  }

  show(root) {
    const id = uniqueId("filter");
    this.#filter = element("input", { id, type: "search", placeholder: "Filter", autocomplete: "off", oninput: () => this.#render() });
    const notifications = new NotificationSwitch(this.#session.push_key);
    notifications.show();
    const leave = element("button", { type: "button", onclick: () => this.#logOut() }, "Log out");
    root.replaceChildren(
      this.#banner,
      element(
        "header",
        { class: "top" },
        element("h1", {}, "nerve ", element("span", { class: "server" }, this.#session.server_name)),
        element("div", { class: "filter" }, element("label", { class: "visually-hidden", for: id }, "Filter nodes by name, state, folder or prompt"), this.#filter),
        element("span", { class: "spacer" }),
        element("span", { class: "role" }, `role: ${this.#session.role}`),
        notifications.element,
        leave,
      ),
      element("main", {}, this.#problem, this.#summary, this.#list),
    );
    this.#watchPointer();
    this.#sizes.observe(this.#list);
    this.#store.addEventListener("change", () => this.#render());
    for (const name of ["open", "lost", "current"]) {
      this.#connection.addEventListener(name, () => this.#showConnection());
    }
    this.#timers = [
      setInterval(() => this.#cards.forEach((card) => card.updateAge()), AGE_INTERVAL),
      setInterval(() => this.#showConnection(), BANNER_INTERVAL),
    ];
    this.#showConnection();
  }

  close() {
    this.#timers.forEach(clearInterval);
    this.#listeners.abort();
    this.#sizes.disconnect();
  }

  /** Fetches the dialogs of blocked nodes anew: of all, or of the one with this key. */
  reloadDialogs(key) {
    const cards = key === undefined ? [...this.#cards.values()] : [this.#cards.get(key)];
    cards.forEach((card) => card?.dialog.reload());
  }

  async #logOut() {
    try {
      await logOut();
      location.reload();
    } catch (error) {
      showText(this.#problem, `Not logged out: ${error.text ?? error.message}`);
    }
  }

  #showConnection() {
    const { isCurrent, lastLive } = this.#connection;
    const age = lastLive === null ? "Connecting…" : `Connection lost. This is the state of ${formatAge(lastLive)} ago. Reconnecting…`;
    showText(this.#banner, isCurrent ? "" : age);
    this.#noteMoves();
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

  /** Notes which buttons of dialogs are in another place than before. */
  #noteMoves() {
    for (const [key, { dialog }] of this.#cards) {
      const place = dialog.place();
      if (place !== null && place !== this.#places.get(key)) {
        dialog.noteMove();
      }
      this.#places.set(key, place);
    }
  }

  #render() {
    const isHeld = this.#isHeld();
    const words = this.#filter.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const nodes = [...this.#store.nodes.values()];
    const shown = nodes.filter((node) => isMatch(node, words)).sort(compare);
    for (const [key, card] of this.#cards) {
      if (!isHeld && !this.#store.nodes.has(key)) {
        card.element.remove();
        this.#sizes.unobserve(card.element);
        this.#cards.delete(key);
        this.#places.delete(key);
      }
    }
    for (const node of nodes) {
      this.#cardOf(node).update(node);
    }
    const wanted = shown.map((node) => this.#cards.get(node.key).element);
    if (isHeld) {
      this.#list.append(...wanted.filter((child) => !child.isConnected));
    } else {
      this.#arrange(wanted);
    }
    this.#summarise(nodes, shown);
    this.#noteMoves();
  }

  #cardOf(node) {
    let card = this.#cards.get(node.key);
    if (card === undefined) {
      card = new NodeCard(node, this.#session.role);
      this.#cards.set(node.key, card);
      this.#sizes.observe(card.element);
    }
    return card;
  }

  /** Moves only the elements that are out of place, and keeps the focus. */
  #arrange(wanted) {
    const focused = document.activeElement;
    const kept = new Set(wanted);
    [...this.#list.children].filter((child) => !kept.has(child)).forEach((child) => child.remove());
    wanted.forEach((child, index) => {
      if (this.#list.children[index] !== child) {
        this.#list.insertBefore(child, this.#list.children[index] ?? null);
      }
    });
    if (focused !== document.activeElement && this.#list.contains(focused)) {
      focused.focus({ preventScroll: true });
    }
  }

  #summarise(nodes, shown) {
    const counts = ORDER.map((state) => [state, nodes.filter((node) => node.state === state).length]);
    const parts = counts.filter(([, count]) => count > 0).map(([state, count]) => `${count} ${state}`);
    const total = nodes.length === 0 ? "No nodes. Create one with 'nerve new'." : parts.join(", ");
    showText(this.#summary, shown.length < nodes.length ? `${shown.length} of ${nodes.length} shown: ${total}` : total);
    const waiting = nodes.filter((node) => node.state === "blocked").length;
    document.title = waiting > 0 ? `(${waiting}) nerve` : "nerve";
  }
}
