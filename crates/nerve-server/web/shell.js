// The frame of all views: the head of the page, the state of the connection, and the view that the address selects.

import { describeError, logOut } from "./api.js";
import { element, showText, uniqueId } from "./dom.js";
import { Drafts } from "./drafts.js";
import { NewNodeForm } from "./new_node_form.js";
import { NodeListView } from "./node_list_view.js";
import { NodeView } from "./node_view.js";
import { NotificationSwitch } from "./notification_switch.js";
import { RecordingView } from "./recording_view.js";
import { parseRoute } from "./route.js";
import { RunListView } from "./run_list_view.js";
import { RunView } from "./run_view.js";
import { SearchView } from "./search_view.js";
import { formatAge } from "./time.js";

/** Interval between updates of the banner, in milliseconds. */
const BANNER_INTERVAL = 1000;

/** Creates views. Each has an `element` with a heading, a `title`, `open(route)` for a further route of its own, and `close()`. */
const VIEWS = {
  node: (shell, route) => new NodeView(shell, route),
  recording: (shell, route) => new RecordingView(shell, route),
  runs: (shell) => new RunListView(shell.runs),
  run: (shell, route) => new RunView(shell.runs, shell.store, shell.session.role, route),
  search: (shell, route) => new SearchView(shell.store, route),
  new: (shell) => new NewNodeForm(shell.store),
};

/** Labels of the links to the views without parameters. */
const LABELS = { nodes: "Nodes", runs: "Runs", search: "Search", new: "New" };

/** Returns the names of the views that a session links to. */
function selectLinks({ role, share }) {
  if (share) {
    return [];
  }
  const views = ["nodes", "runs", "search"];
  return role === "full" ? [...views, "new"] : views;
}

/** Shows one view at a time. All share the stores and the connection. */
export class Shell {
  drafts = new Drafts();
  #connection;
  #list;
  #view = null;
  #route = null;
  #timer = null;
  #listeners = new AbortController();
  #bannerText = element("span");
  /** Hidden from screen readers, which would read the whole banner with each change of the age. */
  #bannerAge = element("span", { "aria-hidden": "true" });
  #banner = element("p", { class: "banner", role: "alert", hidden: true }, this.#bannerText, this.#bannerAge);
  #problem = element("p", { class: "problem", role: "alert", hidden: true });
  #main = element("main");
  #links;

  constructor(store, runs, connection, session) {
    this.store = store;
    this.runs = runs;
    this.session = session;
    this.#connection = connection;
    this.#list = new NodeListView(store, session.role, this.drafts);
    this.#links = selectLinks(session).map((name) => ({ name, link: element("a", { href: name === "nodes" ? "#/" : `#/${name}` }, LABELS[name]) }));
  }

  /** Shows the page, with a problem at the top if there is one. */
  show(root, problem = null) {
    const { session } = this;
    showText(this.#problem, problem);
    const notifications = new NotificationSwitch(session.share ? null : session.push_key);
    notifications.show();
    root.replaceChildren(
      this.#banner,
      element(
        "header",
        { class: "top" },
        element("p", { class: "brand" }, "nerve ", element("span", { class: "server" }, session.server_name)),
        element("nav", { "aria-label": "Views" }, ...this.#links.map(({ link }) => link)),
        ...this.#createMenu(notifications),
      ),
      this.#problem,
      this.#main,
    );
    const { signal } = this.#listeners;
    addEventListener("hashchange", () => this.#followAddress(), { signal });
    this.store.addEventListener("change", () => this.#showTitle(), { signal });
    for (const name of ["open", "lost", "current"]) {
      this.#connection.addEventListener(name, () => this.#showConnection(), { signal });
    }
    this.#timer = setInterval(() => this.#showConnection(), BANNER_INTERVAL);
    this.#showConnection();
    this.#watchViewport(signal);
    this.#followAddress();
  }

  /** Returns the controls of the session, and the button that shows them on a narrow page. A wide page always shows them. */
  #createMenu(notifications) {
    const { session } = this;
    const role = element("span", { class: "role" }, session.share ? "shared: only to look at" : `role: ${session.role}`);
    const logOut = element("button", { type: "button", onclick: () => this.#logOut() }, "Log out");
    const menu = element("div", { id: uniqueId("menu"), class: "menu" }, role, notifications.element, logOut);
    const toggle = () => button.setAttribute("aria-expanded", String(menu.classList.toggle("open")));
    const button = element(
      "button",
      { type: "button", class: "menu-button", "aria-label": "Session", "aria-expanded": "false", "aria-controls": menu.id, onclick: toggle },
      "⋯",
    );
    return [button, menu];
  }

  close() {
    clearInterval(this.#timer);
    this.#listeners.abort();
    this.#view?.close();
    this.#list.close();
    document.documentElement.removeAttribute("data-view");
    document.title = "nerve";
  }

  /** Shows the view of the address. */
  #followAddress() {
    const route = this.#selectRoute();
    const isFirst = this.#route === null;
    const before = this.#route;
    this.#route = route;
    // Only the parameters differ: the view itself follows them.
    const isSame = before !== null && ["view", "machine", "session", "id"].every((name) => before[name] === route[name]);
    if (isSame && this.#view?.open) {
      this.#view.open(route);
    } else if (!isSame) {
      this.#replaceView(route);
      if (!isFirst) {
        this.#main.querySelector("h1")?.focus({ preventScroll: true });
      }
    }
    this.#showTitle();
  }

  /** Returns the route of the address. A share leads to its node only. */
  #selectRoute() {
    const route = parseRoute(location.hash);
    const { share } = this.session;
    return share ? { view: "node", session: share.session_id, id: share.node_id, params: route.params } : route;
  }

  #replaceView(route) {
    this.#view?.close();
    // The list stays, so that typed prompts survive a visit to another view.
    this.#view = VIEWS[route.view]?.(this, route) ?? null;
    const shown = this.#view ?? this.#list;
    document.documentElement.dataset.view = route.view;
    this.#main.replaceChildren(shown.element);
    shown.show?.();
    scrollTo(0, this.#view === null ? this.#list.scrollPosition : 0);
    this.#links.forEach(({ name, link }) => link.setAttribute("aria-current", name === route.view ? "page" : "false"));
  }

  #showTitle() {
    const waiting = [...this.store.nodes.values()].filter((node) => node.state === "blocked").length;
    const name = this.#view === null ? "nerve" : `${this.#view.title} – nerve`;
    document.title = waiting > 0 ? `(${waiting}) ${name}` : name;
  }

  #showConnection() {
    const { isCurrent, lastLive } = this.#connection;
    const before = this.#banner.textContent;
    const isLost = !isCurrent && lastLive !== null;
    showText(this.#bannerAge, isLost ? ` This is the state of ${formatAge(lastLive, Date.now())} ago. Reconnecting…` : "");
    showText(this.#bannerText, isCurrent ? "" : isLost ? "Connection lost." : "Connecting…");
    this.#banner.hidden = isCurrent;
    if (before.length !== this.#banner.textContent.length) {
      this.#list.checkMoves();
      this.#view?.checkMoves?.();
    }
  }

  /** Measures the part of the window that no on-screen keyboard covers. Zooming with two fingers changes nothing. */
  #watchViewport(signal) {
    const viewport = globalThis.visualViewport;
    const measure = () => {
      const { style } = document.documentElement;
      style.setProperty("--viewport-height", `${viewport.height * viewport.scale}px`);
      style.setProperty("--viewport-top", viewport.scale > 1 ? "0px" : `${viewport.offsetTop}px`);
    };
    if (viewport) {
      viewport.addEventListener("resize", measure, { signal });
      viewport.addEventListener("scroll", measure, { signal });
      measure();
    }
  }

  async #logOut() {
    try {
      await logOut();
      this.drafts.clear();
      location.reload();
    } catch (error) {
      showText(this.#problem, `Not logged out: ${describeError(error)}`);
    }
  }
}
