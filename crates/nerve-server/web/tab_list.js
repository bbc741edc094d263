// Tabs with their panels, as in the ARIA pattern: arrow keys select, Tab leads into the panel.

import { element, uniqueId } from "./dom.js";

/** Distances of the keys that select another tab. */
const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

/**
 * Shows the panel of one tab at a time. A tab has a `name`, a `label`, and `create`, which returns its content or a promise of it when
 * it is opened for the first time. Contents have an `element`, `show()`, `hide()`, `update(node)` and `close()`.
 */
export class TabList {
  #tabs;
  #selected = null;
  #isClosed = false;
  #node = null;
  #onSelect;

  /**
   * Creates the tabs, of which none is selected. A single tab has no list. Calls `onSelect` with the name of a tab that
   * a person selects.
   */
  constructor(tabs, label, onSelect = () => {}) {
    this.#onSelect = onSelect;
    this.#tabs = tabs.map((tab) => this.#createTab(tab));
    const buttons = this.#tabs.map(({ button }) => button);
    const list = element("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: (event) => this.#onKey(event) }, ...buttons);
    list.hidden = tabs.length < 2;
    this.element = element("div", { class: "tabbed" }, list, ...this.#tabs.map(({ panel }) => panel));
  }

  /** The content of the selected tab; null while it is loaded. */
  get content() {
    return this.#selected?.content ?? null;
  }

  /** Selects a tab by its name. Returns its content when that is loaded; null if it could not be. */
  async select(name) {
    const tab = this.#tabs.find((one) => one.name === name);
    this.#select(tab);
    await tab.loading;
    return tab.content;
  }

  /** Passes a description of the node to the contents. */
  update(node) {
    this.#node = node;
    this.#tabs.forEach(({ content }) => content?.update(node));
  }

  close() {
    this.#isClosed = true;
    this.#tabs.forEach(({ content }) => content?.close());
  }

  #createTab({ name, label, create }) {
    const tab = { name, create, content: null, loading: null };
    const id = uniqueId(`tab-${name}`);
    tab.panel = element("div", { id: `${id}-panel`, class: "panel", role: "tabpanel", "aria-labelledby": id, hidden: true });
    const properties = { id, type: "button", role: "tab", "aria-controls": tab.panel.id, onclick: () => this.#choose(tab) };
    tab.button = element("button", properties, label);
    return tab;
  }

  #onKey(event) {
    const count = this.#tabs.length;
    const at = this.#tabs.indexOf(this.#selected);
    const ends = { Home: 0, End: count - 1 };
    const next = event.key in STEPS ? (at + STEPS[event.key] + count) % count : ends[event.key];
    if (next !== undefined) {
      event.preventDefault();
      this.#choose(this.#tabs[next]);
      this.#tabs[next].button.focus();
    }
  }

  #choose(tab) {
    this.#select(tab);
    this.#onSelect(tab.name);
  }

  #select(tab) {
    if (tab === this.#selected) {
      // It may not have been loaded.
      if (tab.content === null) {
        tab.loading ??= this.#load(tab);
      }
      return;
    }
    this.#selected?.content?.hide();
    this.#selected = tab;
    for (const { button, panel } of this.#tabs) {
      const isSelected = panel === tab.panel;
      button.setAttribute("aria-selected", String(isSelected));
      button.tabIndex = isSelected ? 0 : -1;
      panel.hidden = !isSelected;
    }
    if (tab.content !== null) {
      tab.content.show();
    } else {
      tab.loading ??= this.#load(tab);
    }
  }

  async #load(tab) {
    try {
      const content = await tab.create();
      if (this.#isClosed) {
        content.close();
        return;
      }
      tab.content = content;
      tab.panel.replaceChildren(content.element);
      if (this.#node !== null) {
        content.update(this.#node);
      }
      if (tab === this.#selected) {
        content.show();
      }
    } catch (error) {
      tab.loading = null;
      tab.panel.replaceChildren(element("p", { class: "note failed" }, `Not loaded: ${error.message}. Select the tab again to retry.`));
    }
  }
}
