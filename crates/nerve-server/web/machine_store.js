// The nodes of one other machine, kept up to date by its events.

import { listNodes } from "./api.js";
import { EventConnection, NODE_CHANGES } from "./connection.js";
import { NodeStore } from "./node_store.js";

/** Returns a node as it is shown while its machine cannot be reached: in the last known state, since the last contact. */
function markUnreachable(node, lastContact) {
  return { ...node, state: "unreachable", progress: { ...node.progress, state_changed_at: lastContact } };
}

/**
 * Holds the nodes of one machine. Dispatches "event" and "change" as a store of nodes does, and "lost" when a connection to the machine
 * breaks or cannot be made.
 */
export class MachineStore extends EventTarget {
  #nodes;
  #connection;
  /** The nodes that are shown; null if they have to be collected. */
  #shown = null;
  /** True while events arrive. */
  #isLive = false;
  /** True while the nodes cannot be fetched. */
  #hasFailed = false;
  /** The machine as the server lists it. */
  #status = {};

  constructor(name) {
    super();
    this.name = name;
    this.#nodes = new NodeStore(() => listNodes(name), name);
    this.#connection = new EventConnection({}, { types: NODE_CHANGES, resumes: false, machine: name });
    this.#nodes.addEventListener("event", ({ detail }) => this.dispatchEvent(new CustomEvent("event", { detail })));
    this.#nodes.addEventListener("change", () => this.#notify());
    this.#nodes.addEventListener("current", () => this.#setCurrent(true));
    this.#nodes.addEventListener("failed", () => this.#setCurrent(false));
    this.#connection.addEventListener("open", () => {
      this.#isLive = true;
      this.#nodes.refresh();
    });
    this.#connection.addEventListener("event", ({ detail: event }) => {
      if (event.event_type === "EVENTS_DROPPED") {
        this.#nodes.refresh();
      } else {
        this.#nodes.handleEvent(event);
      }
    });
    this.#connection.addEventListener("lost", () => this.#lose());
  }

  open() {
    this.#connection.open();
  }

  close() {
    this.#connection.close();
    this.#nodes.close();
  }

  /** The nodes by their keys. */
  get nodes() {
    this.#shown ??= this.#isLive ? new Map(this.#nodes.nodes) : this.#collectLost();
    return this.#shown;
  }

  /** True once the nodes were fetched. */
  get isLoaded() {
    return this.#nodes.isLoaded;
  }

  /** The machine as it is shown: null for `isReachable` before the first attempt to connect has ended. */
  get description() {
    const { reachable = null, last_contact_at: lastContact, error, hint } = this.#status;
    const isReachable = this.#isLive || (reachable === false ? false : null);
    return { name: this.name, isReachable, hasFailed: this.#hasFailed, count: this.#nodes.nodes.size, lastContact, error, hint };
  }

  /** Sets how the server lists the machine. */
  setStatus(status) {
    this.#status = status;
    this.#notify();
  }

  #collectLost() {
    const { last_contact_at: lastContact } = this.#status;
    return new Map([...this.#nodes.nodes].map(([key, node]) => [key, markUnreachable(node, lastContact)]));
  }

  #setCurrent(isCurrent) {
    this.#connection.setCurrent(isCurrent);
    this.#hasFailed = !isCurrent;
    this.#notify();
  }

  #lose() {
    this.#isLive = false;
    this.#hasFailed = false;
    this.#notify();
    this.dispatchEvent(new Event("lost"));
  }

  #notify() {
    this.#shown = null;
    this.dispatchEvent(new Event("change"));
  }
}
