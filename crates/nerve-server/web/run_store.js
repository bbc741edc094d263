// The runs of graphs that a view shows, kept up to date by events.

import { getRun, listRuns } from "./api.js";
import { FetchLoop } from "./fetch_loop.js";

/** Time for which events are collected before runs are fetched, in milliseconds. */
const COLLECT_TIME = 120;

/**
 * Holds the runs that a view shows: all of them without their steps, or one with its steps and its plan. Nothing is fetched without a
 * view. Dispatches "event" with each event of these runs as `detail`, "change" when some of them have changed, "current" when all changes
 * have been fetched, and "failed" when a request has failed: it is repeated later.
 */
export class RunStore extends EventTarget {
  runs = new Map();
  /** True if the runs were fetched once. */
  isLoaded = false;
  /** The scope of the view: `{ id }`, null for all runs; null without a view. */
  #scope = null;
  #changed = new Set();
  #needsAll = false;
  #loop = new FetchLoop(this, {
    isOpen: () => this.#scope !== null,
    hasChanges: () => this.#needsAll || this.#changed.size > 0,
    fetchChanges: () => this.#fetchChanges(),
  });

  /** True unless changes have not been fetched yet. */
  get isCurrent() {
    return this.#loop.isCurrent;
  }

  /** Holds one run from now on; without an id, all runs. */
  open(id = null) {
    this.close();
    this.runs = new Map();
    this.isLoaded = false;
    this.#scope = { id };
    this.refresh();
  }

  /** Forgets the view. */
  close() {
    this.#scope = null;
    this.#changed.clear();
    this.#needsAll = false;
    this.#loop.close();
  }

  /** Fetches everything anew. */
  refresh() {
    if (this.#scope !== null) {
      this.#needsAll = true;
      this.#loop.run();
    }
  }

  /** Fetches the run that an event concerns. Events in quick succession share a fetch. */
  handleEvent({ event_type: type, data }) {
    const id = data?.run_id;
    if (id === undefined || this.#scope === null || (this.#scope.id ?? id) !== id) {
      return;
    }
    this.dispatchEvent(new CustomEvent("event", { detail: { type, data } }));
    this.#changed.add(id);
    // A run that is resumed may have another plan.
    this.#needsAll ||= this.#scope.id !== null && type === "GRAPH_STARTED";
    this.#loop.wake();
  }

  /** Fetches all runs of the view, or those that have changed. Returns false on failure. */
  async #fetchChanges() {
    const scope = this.#scope;
    const needsAll = this.#needsAll;
    if (!needsAll) {
      await new Promise((resolve) => setTimeout(resolve, COLLECT_TIME));
    }
    const changed = [...this.#changed];
    this.#needsAll &&= !needsAll;
    this.#changed.clear();
    try {
      const fetched = needsAll ? await this.#fetchAll(scope) : await this.#fetchRuns(scope, changed);
      // The view may be another one by now.
      if (scope === this.#scope) {
        fetched();
        this.isLoaded = true;
        this.dispatchEvent(new Event("change"));
      }
      return true;
    } catch {
      if (scope !== this.#scope) {
        return true;
      }
      this.#needsAll ||= needsAll;
      changed.forEach((id) => this.#changed.add(id));
      return false;
    }
  }

  /** Fetches all runs of a view. Returns a function that stores them. */
  async #fetchAll({ id }) {
    const runs = id === null ? await listRuns() : await fetchOne(id, { plan: true });
    return () => {
      this.runs = new Map(runs.map((run) => [run.run_id, run]));
    };
  }

  /** Fetches runs that have changed. Returns a function that stores them. */
  async #fetchRuns({ id: shown }, ids) {
    const options = shown === null ? { last: 0 } : {};
    const runs = (await Promise.all(ids.map((id) => fetchOne(id, options)))).flat();
    const foundIds = new Set(runs.map((run) => run.run_id));
    return () => {
      runs.forEach((run) => this.runs.set(run.run_id, { ...run, plan: this.runs.get(run.run_id)?.plan }));
      ids.filter((id) => !foundIds.has(id)).forEach((id) => this.runs.delete(id));
    };
  }
}

/** Returns a list with a run; an empty one if there is none, or if its journal cannot be read. */
async function fetchOne(id, options) {
  try {
    return [await getRun(id, options)];
  } catch (error) {
    if (error.status === 404 || error.status === 400) {
      return [];
    }
    throw error;
  }
}
