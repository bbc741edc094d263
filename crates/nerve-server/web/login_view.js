// The page for browsers that are not logged in.

import { ApiError, logIn } from "./api.js";
import { element } from "./dom.js";

/** Returns the one-time code in the address bar and removes it from there and from the history. */
export function takeCode() {
  const match = /^#code=(?:([0-9a-fA-F]+)$)?/.exec(location.hash);
  if (match !== null) {
    history.replaceState(null, "", location.pathname + location.search);
  }
  return match?.[1] ?? null;
}

/** Logs in with a code. Returns null, or the message for a person if that failed. */
export async function logInWith(code) {
  try {
    await logIn(code);
    return null;
  } catch (error) {
    if (!(error instanceof ApiError)) {
      return "The server could not be reached. Check that it runs, and try the link again.";
    }
    return error.status === 401
      ? `Not logged in: ${error.message}. A link works once, and for a minute.`
      : `Not logged in: ${error.text}.`;
  }
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
