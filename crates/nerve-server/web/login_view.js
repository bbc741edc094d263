// The page for browsers that are not logged in.

import { ApiError, logIn } from "./api.js";
import { element } from "./dom.js";
import { nodeHref } from "./route.js";

/** Message for a visitor whose share was revoked or has expired. */
export const SHARE_ENDED = "This share has ended. Ask for a new link.";

/**
 * Returns the credential in the address bar's link, `{ code }` or `{ share }`, and removes it from the address bar and
 * the history. Null if there is none.
 */
export function takeCredential() {
  const match = /^#(code|share)=([0-9a-fA-F]+)$/.exec(location.hash);
  if (match === null) {
    return null;
  }
  history.replaceState(null, "", location.pathname + location.search);
  return { [match[1]]: match[2] };
}

/** Logs in, and shows the node of a share. Returns null, or the message for a person if that failed. */
export async function logInWith(credential) {
  try {
    const { share: node } = await logIn(credential);
    if (node) {
      history.replaceState(null, "", nodeHref({ session: node.session_id, id: node.node_id }));
    }
    return null;
  } catch (error) {
    if (!(error instanceof ApiError)) {
      return "The server could not be reached. Check that it runs, and try the link again.";
    }
    return credential.share && error.status === 401 ? SHARE_ENDED : `Not logged in: ${error.text}.`;
  }
}

/** Shows nothing but a message. */
export function showNotice(root, text) {
  root.replaceChildren(element("p", { class: "notice", role: "alert" }, text));
}

/** Shows how to log in, and the reason why a login has failed or a session has ended. */
export function showLogin(root, problem) {
  const notice = problem ? [element("p", { class: "problem", role: "alert" }, problem)] : [];
  root.replaceChildren(
    element(
      "main",
      { class: "login" },
      element("h1", {}, "nerve"),
      ...notice,
      element("p", {}, "This browser is not logged in. Run this command on the server's machine, and open the link that it prints:"),
      element("p", {}, element("code", {}, "nerve web")),
      element("p", { class: "note" }, "With --role view, the browser can only look; with --role answer, it can also answer dialogs."),
    ),
  );
}
