// Logs in with the code in the address bar, if there is one, and shows the nodes.

import { getSession, setSessionEndListener } from "./api.js";
import { EventConnection } from "./connection.js";
import { element } from "./dom.js";
import { NodeStore, keyOf } from "./node_store.js";
import { NodeListView } from "./node_list_view.js";
import { logInWith, showLogin, takeCode } from "./login_view.js";

const root = document.getElementById("app");

function showNodes(session) {
  const store = new NodeStore();
  const connection = new EventConnection();
  const view = new NodeListView(store, connection, session);
  const end = () => {
    connection.close();
    store.close();
    view.close();
    showLogin(root, "The session of this browser has ended.");
  };
  setSessionEndListener(end);
  connection.addEventListener("open", () => {
    store.refresh();
    view.reloadDialogs();
  });
  connection.addEventListener("event", ({ detail: event }) => {
    if (event.event_type === "EVENTS_DROPPED") {
      store.refresh();
      view.reloadDialogs();
      return;
    }
    store.noteEvent(event);
    if (event.event_type === "NODE_BLOCKED") {
      view.reloadDialogs(keyOf(event.session_id ?? "default", event.node_id));
    }
  });
  // A stream that is refused does not say why.
  connection.addEventListener("lost", async () => {
    const current = await getSession().catch(() => null);
    if (current !== null && current.role === null) {
      end();
    }
  });
  store.addEventListener("current", () => connection.setCurrent(true));
  store.addEventListener("failed", () => connection.setCurrent(false));
  view.show(root);
  connection.open();
}

async function start() {
  const code = takeCode();
  const problem = code === null ? null : await logInWith(code);
  let session;
  try {
    session = await getSession();
  } catch {
    root.replaceChildren(element("p", { class: "notice", role: "alert" }, "The server could not be reached. Reload the page to try again."));
    return;
  }
  if (session.role === null) {
    showLogin(root, problem);
  } else {
    showNodes(session);
  }
}

// A link that is opened in a page that is loaded already changes only the fragment.
window.addEventListener("hashchange", () => location.hash.startsWith("#code=") && location.reload());

// A notification that was tapped names the view to show.
navigator.serviceWorker?.addEventListener("message", ({ data }) => {
  location.hash = new URL(data.address, location.origin).hash;
});

start();
