// The nodes of this server and those of the user's other machines, as one store.

import { describeError, listMachines } from "./api.js";
import { LatestRequest } from "./latest_request.js";
import { MachineStore } from "./machine_store.js";
import { formatAge } from "./time.js";

/** Returns why a machine cannot be reached, and since when. */
export function describeUnreachable({ name, lastContact, error, hint }) {
  const since = lastContact ? `last contact ${formatAge(Date.parse(lastContact))} ago` : "never contacted";
  return `${name} is unreachable, ${since}${error ? `: ${error}` : ""}${hint ? ` (${hint})` : ""}`;
}

/** Holds all nodes. Dispatches "event" and "change" as a store of nodes does. */
export class CombinedNodeStore extends EventTarget {
  #local;
  #stores = new Map();
  /** All nodes; null if they have to be collected. */
  #nodes = null;
  #isClosed = false;
  #request = new LatestRequest(() => listMachines(), {
    receive: (machines) => this.#receive(machines),
    fail: (error) => this.#setProblem(`The list of machines could not be read: ${describeError(error)}`),
  });

  /** Why the list of other machines could not be read; an empty text if it could. */
  machinesProblem = "";

  /** `local` holds the nodes of this server. */
  constructor(local) {
    super();
    this.#local = local;
    this.#forward(local);
  }

  close() {
    this.#isClosed = true;
    this.#request.cancel();
    this.#stores.forEach((store) => store.close());
  }

  /** Reads the list of other machines, and shows those that it has from now on. */
  refreshMachines() {
    if (!this.#isClosed) {
      this.#request.send();
    }
  }

  /** The nodes by their keys. */
  get nodes() {
    const machines = [...this.#stores.values()];
    this.#nodes ??= machines.length === 0 ? this.#local.nodes : new Map([this.#local, ...machines].flatMap(({ nodes }) => [...nodes]));
    return this.#nodes;
  }

  /** True if the nodes of this server were fetched once. */
  get isLoaded() {
    return this.#local.isLoaded;
  }

  /** The other machines, by name. */
  get machines() {
    return [...this.#stores.values()].map(({ description }) => description);
  }

  /** Returns why the nodes of a machine are not known; an empty text if they are. */
  describeMissing(machine) {
    const store = this.#stores.get(machine);
    if (store === undefined) {
      return `'${machine}' is not among the machines of this page. 'nerve machine list' prints those of the server.`;
    }
    const { description } = store;
    if (description.isReachable === false) {
      return `${describeUnreachable(description)}.`;
    }
    return store.isLoaded ? "" : `Connecting to ${machine}…`;
  }

  #setProblem(problem) {
    if (this.machinesProblem !== problem) {
      this.machinesProblem = problem;
      this.#notify();
    }
  }

  #receive(machines) {
    this.#setProblem("");
    const names = new Set(machines.map(({ machine_name: name }) => name));
    for (const [name, store] of this.#stores) {
      if (!names.has(name)) {
        store.close();
        this.#stores.delete(name);
        this.#notify();
      }
    }
    for (const machine of machines) {
      const { machine_name: name } = machine;
      const store = this.#stores.get(name) ?? this.#add(name);
      store.setStatus(machine);
    }
  }

  #add(name) {
    const store = new MachineStore(name);
    this.#stores.set(name, store);
    this.#forward(store);
    store.addEventListener("lost", () => this.refreshMachines());
    store.open();
    return store;
  }

  #forward(store) {
    store.addEventListener("event", ({ detail }) => this.dispatchEvent(new CustomEvent("event", { detail })));
    store.addEventListener("change", () => this.#notify());
  }

  #notify() {
    this.#nodes = null;
    this.dispatchEvent(new Event("change"));
  }
}
