// Logs in with the code in the address bar, if there is one, and shows the console.

import { getSession, listNode, setSessionEndListener } from "./api.js";
import { CombinedNodeStore } from "./combined_node_store.js";
import { EventConnection } from "./connection.js";
import { SHARE_ENDED, logInWith, showLogin, showNotice, takeCredential } from "./login_view.js";
import { NodeStore } from "./node_store.js";
import { RunStore } from "./run_store.js";
import { Shell } from "./shell.js";

const root = document.getElementById("app");

/** Returns true if two sessions have the same permissions. */
function isSameSession(one, other) {
  const name = ({ share }) => share && `${share.session_id}/${share.node_id}`;
  return one.role === other.role && name(one) === name(other);
}

/** Shows why there is no session. A visitor with the link of a share has no other way to log in. */
function showEnd(problem) {
  if (problem === SHARE_ENDED) {
    showNotice(root, problem);
  } else {
    showLogin(root, problem);
  }
}

/** Shows the console, and why a login has failed if there was a session before it. */
function showConsole(session, problem) {
  const shared = session.share && { session: session.share.session_id, id: session.share.node_id };
  const local = shared ? new NodeStore(() => listNode(shared)) : new NodeStore();
  const connection = new EventConnection(shared ? { session: shared.session, node: shared.id } : {});
  const runs = new RunStore();
  const nodes = new CombinedNodeStore(local);
  const shell = new Shell(nodes, runs, connection, session);
  const close = () => {
    connection.close();
    nodes.close();
    local.close();
    runs.close();
    shell.close();
  };
  const end = () => {
    close();
    shell.drafts.clear();
    showEnd(shared ? SHARE_ENDED : "The session of this browser has ended.");
  };
  setSessionEndListener(end);
  const stores = [local, runs];
  connection.addEventListener("open", () => stores.forEach((one) => one.refresh()));
  if (session.has_machines && !shared) {
    connection.addEventListener("open", () => nodes.refreshMachines());
  }
  connection.addEventListener("event", ({ detail: event }) => {
    if (event.event_type === "EVENTS_DROPPED") {
      stores.forEach((one) => one.refresh());
    } else {
      stores.forEach((one) => one.handleEvent(event));
    }
  });
  // A refused WebSocket gives no reason.
  connection.addEventListener("lost", async () => {
    const current = await getSession().catch(() => null);
    if (current?.role === null) {
      end();
    } else if (current !== null && !isSameSession(current, session)) {
      close();
      showNotice(root, "Another link has replaced the session of this browser. Reload the page to continue.");
    }
  });
  for (const one of stores) {
    for (const name of ["current", "failed"]) {
      one.addEventListener(name, () => connection.setCurrent(stores.every(({ isCurrent }) => isCurrent)));
    }
  }
  connection.addEventListener("open", () => (globalThis.requestIdleCallback ?? setTimeout)(preloadTerminal), { once: true });
  shell.show(root, problem);
  connection.open();
}

/** Loads the files of a terminal before one is opened, so that it opens at once. Skipped if the browser saves data. */
function preloadTerminal() {
  if (!navigator.connection?.saveData) {
    // After a failure, they are loaded with the first terminal.
    import("./terminal_tab.js").catch(() => {});
  }
}

async function start() {
  const credential = takeCredential();
  const problem = credential === null ? null : await logInWith(credential);
  let session;
  try {
    session = await getSession();
  } catch {
    showNotice(root, "The server could not be reached. Reload the page to try again.");
    return;
  }
  if (session.role === null) {
    showEnd(problem);
  } else {
    showConsole(session, problem);
  }
}

// Opening a link in a page that is already loaded changes only the fragment.
window.addEventListener("hashchange", () => /^#(code|share)=/.test(location.hash) && location.reload());

// A notification that was tapped names the view to show.
navigator.serviceWorker?.addEventListener("message", ({ data }) => {
  location.hash = new URL(data.address, location.origin).hash;
});

start();
