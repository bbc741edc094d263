// Prompts that were typed and not sent. They survive a reload: phones reload pages that were in the background.

const PREFIX = "draft:";

/** Keeps the prompt of each node, by the node's key, as long as the browser's tab. */
export class Drafts {
  /** Returns the prompt of a node; empty if there is none. */
  get(key) {
    return sessionStorage.getItem(PREFIX + key) ?? "";
  }

  has(key) {
    return this.get(key) !== "";
  }

  /** Keeps a prompt. One that is too large for the browser is not kept. */
  set(key, text) {
    this.delete(key);
    if (text === "") {
      return;
    }
    try {
      sessionStorage.setItem(PREFIX + key, text);
    } catch {
      // It stays in its field.
    }
  }

  delete(key) {
    sessionStorage.removeItem(PREFIX + key);
  }

  /** Forgets all prompts: the next person may be another one. */
  clear() {
    Object.keys(sessionStorage).filter((name) => name.startsWith(PREFIX)).forEach((name) => sessionStorage.removeItem(name));
  }
}
