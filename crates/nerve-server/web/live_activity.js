// The actions of an agent in its running turn, from events, until the transcript contains them.

import { EventConnection } from "./connection.js";
import { element, shorten } from "./dom.js";
import { partOf } from "./turn_card.js";

/** Actions that are shown. Earlier ones are left to the transcript. */
const MAX_ACTIONS = 40;
/** Characters of a text that are shown. */
const MAX_TEXT = 2000;
/** Interval between updates of the page, in milliseconds. */
const RENDER_INTERVAL = 250;
/** States of tools, by the status of their activity. */
const TOOL_STATES = { running: "running", failed: "error", cancelled: "rejected" };

/** Returns an activity as a section of a transcript; null for one that a transcript does not contain. */
function sectionOf({ type, content, message, name, args, output, status }) {
  const tool = (text, more) => ({ type: "tool_call", content: shorten(text, MAX_TEXT), metadata: { tool: name, status: TOOL_STATES[status], ...more } });
  switch (type) {
    case "thought":
      return { type: "text", content: shorten(content, MAX_TEXT) };
    case "error":
      return { type: "error", content: shorten(message, MAX_TEXT) };
    case "tool_start":
      return tool("", { args: shorten(JSON.stringify(args ?? {}), MAX_TEXT) });
    case "tool_output":
      return tool(output ?? "", {});
    default:
      return null;
  }
}

/**
 * Receives the activities of one node while it is open. Dispatches "grow" after it has shown more, and "gap" when activities were
 * missed, or belong to a tool that is not shown any more: a transcript that is fetched then contains them.
 */
export class LiveActivity extends EventTarget {
  #node;
  #connection = null;
  #timer = null;
  /** The actions that are shown, each with the time at which it was received, the id of its tool, its section and its element. */
  #actions = [];
  #parts = element("div", { class: "turn-parts" });

  constructor(node) {
    super();
    this.#node = node;
    this.element = element("div", { class: "live", role: "group", "aria-label": "Running turn", hidden: true }, this.#parts);
  }

  /** True if nothing is shown. */
  get isEmpty() {
    return this.#actions.length === 0;
  }

  open() {
    if (this.#connection !== null) {
      return;
    }
    const filter = { session: this.#node.session, node: this.#node.id };
    const connection = new EventConnection(filter, { types: ["NODE_ACTIVITY"], resumes: false, machine: this.#node.machine });
    connection.addEventListener("open", () => {
      connection.setCurrent(true);
      this.dispatchEvent(new Event("gap"));
    });
    connection.addEventListener("event", ({ detail }) => this.#read(detail));
    connection.open();
    this.#connection = connection;
  }

  close() {
    this.#connection?.close();
    this.#connection = null;
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Removes the actions that were received before a time: the transcript contains them. */
  discardBefore(time) {
    const isOld = (action) => action.receivedAt < time;
    this.#actions.filter(isOld).forEach((action) => action.element?.remove());
    this.#actions = this.#actions.filter((action) => !isOld(action));
    this.element.hidden = this.isEmpty;
  }

  #read({ event_type: type, data }) {
    if (type !== "NODE_ACTIVITY") {
      this.dispatchEvent(new Event("gap"));
      return;
    }
    const section = sectionOf(data);
    const isTool = data.tool_execution_id !== undefined;
    const tool = isTool ? this.#actions.find((action) => action.toolId === data.tool_execution_id) : undefined;
    if (data.type === "tool_output" && tool === undefined) {
      // The transcript contains the tool, and now its output.
      this.dispatchEvent(new Event("gap"));
    } else if (section !== null) {
      this.#put(section, data.tool_execution_id, tool);
      this.#timer ??= setTimeout(() => this.#render(), RENDER_INTERVAL);
    }
  }

  /** Adds an action, or the output of a tool that is shown. */
  #put(section, toolId, tool) {
    const receivedAt = Date.now();
    if (tool === undefined) {
      this.#actions.push({ receivedAt, toolId, section, element: null, isShown: false });
      const surplus = this.#actions.splice(0, Math.max(0, this.#actions.length - MAX_ACTIONS));
      surplus.forEach((action) => action.element?.remove());
    } else {
      tool.receivedAt = receivedAt;
      tool.section = { ...section, metadata: { ...tool.section.metadata, ...section.metadata } };
      tool.isShown = false;
    }
  }

  #render() {
    this.#timer = null;
    for (const action of this.#actions.filter(({ isShown }) => !isShown)) {
      const shown = partOf(action.section, true);
      shown.open = action.element?.open ?? false;
      if (action.element === null) {
        this.#parts.append(shown);
      } else {
        action.element.replaceWith(shown);
      }
      Object.assign(action, { element: shown, isShown: true });
    }
    this.element.hidden = this.isEmpty;
    this.dispatchEvent(new Event("grow"));
  }
}
