// Prompts that were typed and not sent. They survive a reload: phones reload pages that were in the background.

const PREFIX = "draft:";

/** Keeps the prompt of each node, by the node's key, as long as the browser's tab. */
export class Drafts {
  /** Prompts that do not fit into the browser's storage. A reload loses them. */
  #unstored = new Map();

  /** Returns the prompt of a node; empty if there is none. */
  get(key) {
    return this.#unstored.get(key) ?? sessionStorage.getItem(PREFIX + key) ?? "";
  }

  has(key) {
    return this.get(key) !== "";
  }

  /** Keeps a prompt. */
  set(key, text) {
    this.delete(key);
    if (text === "") {
      return;
    }
    try {
      sessionStorage.setItem(PREFIX + key, text);
    } catch {
      this.#unstored.set(key, text);
    }
  }

  delete(key) {
    this.#unstored.delete(key);
    sessionStorage.removeItem(PREFIX + key);
  }

  /** Forgets all prompts: another person may log in next. */
  clear() {
    this.#unstored.clear();
    Object.keys(sessionStorage).filter((name) => name.startsWith(PREFIX)).forEach((name) => sessionStorage.removeItem(name));
  }
}
