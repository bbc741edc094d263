// The descriptions of all nodes, kept up to date by events.

import { getNode, listNodes } from "./api.js";

/** Time for which changes are collected before they are fetched, in milliseconds. */
const COLLECT_TIME = 40;
/** Requests that run at a time. */
const CONCURRENCY = 4;

/** Returns the name by which a node is known in all sessions. */
export function keyOf(session, id) {
  return `${session}/${id}`;
}

/** Returns a node as the views use it. */
function viewOf(info) {
  const metadata = info.metadata ?? {};
  const session = metadata.session_id ?? "default";
  return {
    key: keyOf(session, info.node_id),
    id: info.node_id,
    session,
    kind: info.type,
    state: info.state,
    progress: info.progress ?? {},
    metadata,
  };
}

/** Holds the nodes. Dispatches "change" when some of them have changed, and "failed" with the error as `detail`. */
export class FleetStore extends EventTarget {
  nodes = new Map();
  #changed = new Map();
  #isOutdated = false;
  #isFetching = false;

  /** Fetches all nodes. */
  refresh() {
    this.#isOutdated = true;
    this.#fetch();
  }

  /** Notes that an event concerns a node, which is then fetched once for all events of a moment. */
  noteEvent(event) {
    if (event.node_id) {
      const session = event.session_id ?? "default";
      this.#changed.set(keyOf(session, event.node_id), { session, id: event.node_id });
      this.#fetch();
    }
  }

  /** Fetches what has changed until nothing has. One answer at a time, so that an older one never replaces a newer one. */
  async #fetch() {
    if (this.#isFetching) {
      return;
    }
    this.#isFetching = true;
    try {
      while (this.#isOutdated || this.#changed.size > 0) {
        if (this.#isOutdated) {
          await this.#fetchAll();
        } else {
          await new Promise((resolve) => setTimeout(resolve, COLLECT_TIME));
          await this.#fetchChanged();
        }
        this.dispatchEvent(new Event("change"));
      }
    } catch (error) {
      this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    } finally {
      this.#isFetching = false;
    }
  }

  async #fetchAll() {
    this.#isOutdated = false;
    this.#changed.clear();
    const views = (await listNodes()).map(viewOf);
    this.nodes = new Map(views.map((view) => [view.key, view]));
  }

  async #fetchChanged() {
    const waiting = [...this.#changed.values()];
    this.#changed.clear();
    const work = async () => {
      for (let node = waiting.shift(); node !== undefined; node = waiting.shift()) {
        await this.#fetchNode(node);
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, work));
  }

  async #fetchNode(node) {
    try {
      const view = viewOf(await getNode(node));
      this.nodes.set(view.key, view);
    } catch (error) {
      if (error.status !== 404) {
        throw error;
      }
      // Stopped nodes are only in the list.
      this.#isOutdated = true;
    }
  }
}
