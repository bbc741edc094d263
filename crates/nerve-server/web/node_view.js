// One node: its state with the evidence, its queue, its conversation, its dialog and its prompt.

import { ChatTab } from "./chat_tab.js";
import { DialogCard } from "./dialog_card.js";
import { element, showText, uniqueId } from "./dom.js";
import { EvidencePanel } from "./evidence_panel.js";
import { NodeActions } from "./node_actions.js";
import { keyOf, placeOf } from "./node_store.js";
import { NodeSummary } from "./node_summary.js";
import { PromptForm } from "./prompt_form.js";
import { QueueList } from "./queue_list.js";
import { href, nodeHref } from "./route.js";
import { TabList } from "./tab_list.js";

/** Interval at which the age of the state is updated, in milliseconds. Updates cause no request. */
const AGE_INTERVAL = 5000;

const GONE = "This node has stopped or was removed.";

/** Tabs of the view. A content that needs large files imports them in `create`. */
const TABS = [
  { name: "chat", label: "Chat", create: ({ store, node, isShared }) => new ChatTab(node, store, !isShared) },
  {
    name: "terminal",
    label: "Terminal",
    create: async ({ node, role }) =>
      node.machine ? new (await import("./screen_tab.js")).ScreenTab(node, role) : new (await import("./terminal_tab.js")).TerminalTab(node, role),
  },
  {
    name: "timeline",
    label: "Timeline",
    create: async ({ node, role }) => new (await import("./timeline_tab.js")).TimelineTab(node, role),
  },
];

/** Shows the node that an address names, which need not exist. */
export class NodeView {
  #store;
  /** True for a share, whose node has existed. */
  #isShared;
  #name;
  #key;
  #timer;
  /** The position of the dialog's buttons on the page. */
  #position = null;
  /** The description that is shown: the last known one with the state "gone" if the node is missing now; null if there was none. */
  #node = null;
  /** The number of the last address that was opened. Earlier addresses are no longer followed. */
  #request = 0;
  #listeners = new AbortController();
  #sizes = new ResizeObserver(() => this.checkMoves());
  #summary = new NodeSummary();
  #evidence = new EvidencePanel();
  /** Null for a share, which shows only the node itself. */
  #queue;
  #actions;
  #tabs;
  #dialog;
  #form;
  #note = element("p", { class: "note", hidden: true });

  constructor({ store, session: { role, share }, drafts }, route) {
    const node = { machine: route.machine ?? null, session: route.session, id: route.id };
    this.#name = node;
    this.#store = store;
    this.#isShared = Boolean(share);
    this.#key = keyOf(node.session, node.id, node.machine);
    this.title = node.id;
    const heading = element("h1", { id: uniqueId("node"), tabIndex: -1 }, element("bdi", {}, node.id));
    const place = placeOf(node);
    const session = place === "" ? [] : [element("span", { class: "session" }, place)];
    this.#dialog = new DialogCard(role !== "view", heading.id);
    this.#form = role === "full" ? new PromptForm({ id: node.id, key: this.#key }, heading.id, drafts, false) : null;
    this.#queue = share ? null : new QueueList(role === "full");
    this.#actions = role === "full" ? new NodeActions(node.id) : null;
    const panels = [this.#evidence, this.#queue, this.#actions].filter((panel) => panel !== null).map((panel) => panel.element);
    this.#tabs = new TabList(
      // A share shows a node, not its recording.
      TABS.filter(({ name }) => !share || name !== "timeline").map((tab) => ({
        ...tab,
        create: () => tab.create({ store, role, node: this.#find() ?? node, isShared: Boolean(share) }),
      })),
      `Views of ${node.id}`,
      (name) => this.#replaceAddress(name),
    );
    const form = this.#form === null ? [] : [this.#form.element];
    const foot = element("footer", { class: "node-foot" }, this.#note, this.#dialog.element, ...form);
    this.element = element(
      "div",
      { class: "node-view node" },
      element("header", {}, heading, ...session, this.#summary.state, this.#summary.age, this.#summary.facts, ...panels),
      this.#tabs.element,
      foot,
    );
    this.#form?.element.addEventListener("submit", () => this.#tabs.content?.followEnd?.());
    const { signal } = this.#listeners;
    store.addEventListener("change", () => this.#update(), { signal });
    store.addEventListener("event", ({ detail }) => this.#handleEvent(detail), { signal });
    this.#sizes.observe(foot);
    this.#sizes.observe(this.element);
    this.#timer = setInterval(() => this.#summary.updateAge(), AGE_INTERVAL);
    this.#update();
    this.open(route);
  }

  /**
   * Shows the tab, the turn or the position in the timeline that an address names. With `recording`, the turn is the
   * number in the recording's transcript.
   */
  async open({ params: { turn, recording, tab, at } }) {
    this.#request += 1;
    const request = this.#request;
    if ((tab === "timeline" || at) && !this.#isShared) {
      const timeline = await this.#tabs.select("timeline");
      if (request === this.#request) {
        timeline?.open({ turn, at });
      }
      return;
    }
    if (tab === "terminal") {
      this.#tabs.select(tab);
      return;
    }
    const chat = await this.#tabs.select("chat");
    if (turn && chat !== null && request === this.#request) {
      await this.#showTurn(chat, Number(turn), recording, request);
    }
  }

  async #showTurn(chat, turn, recording, request) {
    const number = recording ? await chat.locate(recording, turn) : turn;
    if (request !== this.#request) {
      return;
    }
    if (number === null) {
      location.replace(href(["recording", recording], { turn }));
    } else {
      chat.showTurn(number);
    }
  }

  close() {
    this.#request += 1;
    clearInterval(this.#timer);
    this.#listeners.abort();
    this.#sizes.disconnect();
    this.#tabs.close();
    this.#evidence.close();
    this.#queue?.close();
    this.#dialog.close();
    this.#form?.close();
  }

  /** Names the tab that a person has selected, so that it is shown again after a reload. */
  #replaceAddress(tab) {
    history.replaceState(history.state, "", nodeHref(this.#name, tab === "chat" ? {} : { tab }));
  }

  /** Ignores clicks for a moment if the buttons of the dialog have moved. */
  checkMoves() {
    const position = this.#dialog.position();
    if (position !== null && position !== this.#position) {
      this.#dialog.ignoreClicks();
    }
    this.#position = position;
  }

  #find() {
    return this.#store.nodes.get(this.#key);
  }

  #handleEvent({ key, type }) {
    if (key === null || (key === this.#key && type === "NODE_BLOCKED")) {
      this.#dialog.reload();
    }
  }

  #update() {
    const current = this.#find() ?? null;
    const isGone = current === null && this.#node !== null && this.#node.state !== "gone";
    const node = isGone ? { ...this.#node, state: "gone", progress: {} } : (current ?? this.#node);
    this.element.dataset.state = node?.state ?? "gone";
    if (node !== null && node !== this.#node) {
      this.#node = node;
      this.#summary.update(node);
      this.#evidence.update(node);
      this.#queue?.update(node);
      this.#actions?.update(node);
      this.#dialog.update(node);
      this.#form?.update(node);
      this.#tabs.update(node);
    } else if (node === null && this.#form !== null) {
      this.#form.element.hidden = true;
    }
    showText(this.#note, this.#describeUnavailable(node));
    this.checkMoves();
  }

  /** Returns the reason why the node takes no prompts; empty if it does. */
  #describeUnavailable(node) {
    const missing = this.#name.machine ? this.#store.describeMissing(this.#name.machine) : "";
    if (missing !== "") {
      return missing;
    }
    if (node === null) {
      return this.#store.isLoaded ? (this.#isShared ? GONE : `There is no node '${this.title}'.`) : "";
    }
    if (node.state === "gone") {
      return GONE;
    }
    const command = `nerve start ${placeOf(node) === "" ? "" : `${placeOf(node)}/`}${node.id}`;
    return node.state === "stopped" ? `Stopped. ${this.#actions === null ? `'${command}'` : "Start"} starts it again.` : "";
  }
}
