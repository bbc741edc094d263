// Shows notifications while the page is closed, and opens the page at the node or the run that needs a person. It caches nothing.

/** Address of the page. */
const PAGE = "/web/";

/** Returns the address of the view of a run or of a node; without them that of all nodes. */
function addressOf({ session_id: session, node_id: node, run_id: run }) {
  if (run) {
    return `${PAGE}#/run/${encodeURIComponent(run)}`;
  }
  return node ? `${PAGE}#/node/${encodeURIComponent(session ?? "default")}/${encodeURIComponent(node)}` : PAGE;
}

/** Returns the windows that show the page. Others of the origin may show the documentation. */
async function listWindows() {
  const windows = await clients.matchAll({ type: "window", includeUncontrolled: true });
  return windows.filter((window) => new URL(window.url).pathname === PAGE);
}

async function showMessage(message) {
  const windows = await listWindows();
  // A person who sees the page needs no sound. Browsers end subscriptions whose messages show nothing.
  const isSilent = windows.some((window) => window.visibilityState === "visible");
  const { text, occasion, run_id: run } = message;
  const tag = `${message.session_id}/${message.node_id ?? run ?? text}`;
  const options = { tag, silent: isSilent, renotify: !isSilent, data: addressOf(message) };
  await registration.showNotification(text, { ...options, body: occasion === "blocked" ? "Open it to answer." : "" });
}

async function openPage(address) {
  const [window] = await listWindows();
  if (window === undefined) {
    await clients.openWindow(address);
    return;
  }
  // The page shows the node without being loaded again.
  window.postMessage({ address });
  await window.focus();
}

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("push", (event) => event.waitUntil(showMessage(event.data.json())));
addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(openPage(event.notification.data));
});
