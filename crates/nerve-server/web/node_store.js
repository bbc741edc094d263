// The descriptions of all nodes, kept up to date by events.

import { getNode, listNodes } from "./api.js";
import { FetchLoop } from "./fetch_loop.js";

/** Time for which changes are collected before they are fetched, in milliseconds. */
const COLLECT_TIME = 40;
/** Requests that run at a time. */
const CONCURRENCY = 4;

/** Returns the name by which a node is known in all sessions, of all machines. */
export function keyOf(session, id, machine = null) {
  return `${machine ? `${machine}/` : ""}${session}/${id}`;
}

/** Returns true for the states of a node that takes no requests: it is gone, or its machine cannot be reached. */
export function isAway(state) {
  return state === "gone" || state === "unreachable";
}

/** Returns where a node is unless that is the default session of this server: `SESSION`, or `MACHINE/SESSION`. */
export function placeOf({ machine, session }) {
  return machine ? `${machine}/${session}` : session === "default" ? "" : session;
}

/** Returns a node as the views use it. */
function viewOf(info, machine) {
  const metadata = info.metadata ?? {};
  const session = metadata.session_id ?? "default";
  return {
    key: keyOf(session, info.node_id, machine),
    id: info.node_id,
    machine,
    session,
    kind: info.type,
    state: info.state,
    progress: info.progress ?? {},
    metadata,
  };
}

/**
 * Holds the nodes. Dispatches "event" with the key of the node and the type for each event, with the key null if anything may have
 * changed; "change" when some of them have changed, "current" when all changes have been fetched, and "failed" when a
 * request has failed: it is repeated later.
 */
export class NodeStore extends EventTarget {
  nodes = new Map();
  #list;
  #machine;
  /** True if the nodes were fetched once. */
  isLoaded = false;
  #changed = new Map();
  #needsList = false;
  #isClosed = false;
  #loop = new FetchLoop(this, {
    isOpen: () => !this.#isClosed,
    hasChanges: () => this.#needsList || this.#changed.size > 0,
    fetchChanges: () => this.#fetchChanges(),
  });

  /** `list` fetches the descriptions of the nodes to hold, which are on `machine`; null is this server. */
  constructor(list = listNodes, machine = null) {
    super();
    this.#list = list;
    this.#machine = machine;
  }

  close() {
    this.#isClosed = true;
    this.#loop.close();
  }

  /** True if all changes were fetched. */
  get isCurrent() {
    return this.#loop.isCurrent;
  }

  /** Fetches all nodes. */
  refresh() {
    this.#needsList = true;
    this.#dispatch(null, null);
    this.#loop.run();
  }

  /** Fetches the node that an event concerns. Events in quick succession share a fetch. */
  handleEvent(event) {
    if (event.node_id) {
      const session = event.session_id ?? "default";
      const key = keyOf(session, event.node_id, this.#machine);
      this.#changed.set(key, { machine: this.#machine, session, id: event.node_id });
      this.#dispatch(key, event.event_type);
      this.#loop.wake();
    }
  }

  #dispatch(key, type) {
    this.dispatchEvent(new CustomEvent("event", { detail: { key, type } }));
  }

  /** Fetches all nodes, or those that have changed. Returns false on failure. */
  async #fetchChanges() {
    const hasSucceeded = await (this.#needsList ? this.#fetchAll() : this.#fetchChanged());
    this.dispatchEvent(new Event("change"));
    return hasSucceeded;
  }

  /** Fetches all nodes. Returns false on failure. */
  async #fetchAll() {
    this.#needsList = false;
    this.#changed.clear();
    try {
      const views = (await this.#list()).map((info) => viewOf(info, this.#machine));
      this.nodes = new Map(views.map((view) => [view.key, view]));
      this.isLoaded = true;
      return true;
    } catch {
      this.#needsList = true;
      return false;
    }
  }

  /** Fetches the nodes that have changed. Returns false if some requests failed. */
  async #fetchChanged() {
    await new Promise((resolve) => setTimeout(resolve, COLLECT_TIME));
    const waiting = [...this.#changed];
    this.#changed.clear();
    let hasSucceeded = true;
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        if (!(await this.#fetchNode(...next))) {
          hasSucceeded = false;
        }
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, work));
    return hasSucceeded;
  }

  /** Fetches one node. Returns false on failure. */
  async #fetchNode(key, node) {
    try {
      const view = viewOf(await getNode(node), this.#machine);
      this.nodes.set(view.key, view);
    } catch (error) {
      if (error.status !== 404) {
        this.#changed.set(key, node);
        return false;
      }
      // It was removed, or it is starting and an event follows.
      this.nodes.delete(key);
    }
    return true;
  }
}
