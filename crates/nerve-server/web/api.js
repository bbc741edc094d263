// Requests to the server. The browser adds the session's cookie.

import { setServerTime } from "./time.js";

/** Items of a page of a list. */
const PAGE_LIMIT = 1000;
/** Number of the newest results that are searched for queued prompts: a node runs its prompts in order. */
const QUEUE_LIMIT = 200;
/** Time limits of requests that the server answers at once, and of those that wait for a program, in milliseconds. */
const TIMEOUT = 15000;
const LONG_TIMEOUT = 90000;
/** Time for which a request waits for a change, in seconds. */
const CHANGE_WAIT = 25;

/** An error that the server has reported, as described by its problem document (RFC 9457). */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `the server answered with status ${status}`);
    this.status = status;
    this.kind = problem.error_type;
    this.hint = problem.hint;
    this.data = problem.data ?? {};
  }

  /** The message with its hint. */
  get text() {
    return this.hint ? `${this.message} (${this.hint})` : this.message;
  }
}

/** Returns the message about a request that has failed. */
export function describeError(error) {
  if (error instanceof ApiError) {
    return error.text;
  }
  return error.name === "TimeoutError" ? "the server did not reply in time" : "the server could not be reached";
}

/** Returns the message about a failed change. Without a reply it ends with `uncertain`: the change may have taken effect. */
export function describeFailure(failure, error, uncertain) {
  return error instanceof ApiError ? `${failure}: ${error.text}` : `No reply from the server: ${uncertain}`;
}

let onSessionEnd = () => {};

/** Sets the function that is called when a request fails because the session has ended. */
export function setSessionEndListener(listener) {
  onSessionEnd = listener;
}

/** Sends a request. Without a reply after `timeout`, or if `abort` is aborted, it fails. */
async function send(method, path, body, timeout = TIMEOUT, abort = null) {
  const limit = AbortSignal.timeout(timeout);
  const signal = abort === null ? limit : AbortSignal.any([limit, abort]);
  const options = { method, credentials: "same-origin", cache: "no-store", redirect: "error", signal };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  setServerTime(response.headers.get("date"));
  if (response.ok) {
    return response.status === 204 ? null : response.json();
  }
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401 && path !== "/web/login") {
    onSessionEnd();
  }
  throw new ApiError(response.status, problem);
}

async function listAll(path, take) {
  let cursor = null;
  do {
    const separator = path.includes("?") ? "&" : "?";
    const position = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page = await send("GET", `${path}${separator}limit=${PAGE_LIMIT}${position}`);
    take(page);
    cursor = page.next ?? null;
  } while (cursor !== null);
}

/** Returns the path of an operation on the machine of a node or of a recording: on this server if it names none. */
function machinePath({ machine }, path) {
  return machine ? `/machines/${encodeURIComponent(machine)}${path}` : path;
}

function nodePath(node, action = "") {
  const session = encodeURIComponent(node.session);
  return machinePath(node, `/nodes/${encodeURIComponent(node.id)}${action}?session=${session}`);
}

/** Returns the session of this browser: its role, null if it is not logged in. */
export function getSession() {
  return send("GET", "/web/session");
}

/** Exchanges a one-time code, `{ code }`, or the secret of a share, `{ share }`, for a session. */
export function logIn(credential) {
  return send("POST", "/web/login", credential);
}

/** Ends the session. */
export function logOut() {
  return send("POST", "/web/logout", {});
}

/** Subscribes this browser to notifications, also while its page is closed. */
export function subscribeToPush(subscription) {
  return send("POST", "/web/push", subscription);
}

/** Ends the notifications of this browser. */
export function unsubscribeFromPush() {
  return send("DELETE", "/web/push");
}

/** Returns the user's other machines, without connecting to them. */
export async function listMachines() {
  const { machines } = await send("GET", "/machines");
  return machines ?? [];
}

/** Returns the descriptions of the nodes of all sessions of a machine, stopped ones included. Null is this server. */
export async function listNodes(machine = null) {
  const sessions = [];
  await listAll(machinePath({ machine }, "/sessions"), (page) => sessions.push(...page.sessions.map((session) => session.name)));
  const nodes = [];
  for (const session of sessions) {
    const path = machinePath({ machine }, `/nodes?session=${encodeURIComponent(session)}`);
    const take = (page) => nodes.push(...page.nodes_info, ...(page.stopped ?? []));
    await listAll(path, take).catch((error) => {
      // The session was deleted meanwhile.
      if (error.status !== 404) {
        throw error;
      }
    });
  }
  return nodes;
}

/** Returns the description of a node. */
export function getNode(node) {
  return send("GET", nodePath(node));
}

/** Returns a list with the description of a node; an empty one if the node is gone. */
export async function listNode(node) {
  try {
    return [await getNode(node)];
  } catch (error) {
    if (error.status === 404) {
      return [];
    }
    throw error;
  }
}

/** Returns the state of a node with its evidence, the choices of its dialog and its screen. */
export function explainNode(node) {
  return send("GET", nodePath(node, "/explain"));
}

/** Returns the newest entries of a node's audit log, oldest first, without the captures of its screen. */
export async function listLogEntries(node, last) {
  const { entries } = await send("GET", `${nodePath(node, "/history")}&last=${last}&without_reads=true`);
  return entries;
}

/** Returns a page of the turns of a node or of a recording: at most `limit` turns, the newest ones before the turn `before`. */
export function getTranscript(source, { before, limit }) {
  const path = source.recording === undefined ? nodePath(source, "/transcript") : machinePath(source, `/transcript?recording=${encodeURIComponent(source.recording)}`);
  return send("GET", `${path}&limit=${limit}${before === undefined ? "" : `&before=${before}`}`, undefined, LONG_TIMEOUT);
}

/**
 * Returns an overview of the newest recording of a node, or of `{ recording }`. A long recording takes several requests
 * until its overview is complete. With the version of an overview, waits for a while until there is a newer one.
 */
export function getTimeline(source, version, signal) {
  const path = source.recording === undefined ? nodePath(source, "/timeline") : machinePath(source, `/timeline?recording=${encodeURIComponent(source.recording)}`);
  const since = version === undefined ? "" : `&since=${encodeURIComponent(version)}&timeout=${CHANGE_WAIT}`;
  return send("GET", `${path}${since}`, undefined, LONG_TIMEOUT, signal);
}

/** Returns the terminal of `{ recording }` at a position, `{ at }` in seconds or `{ offset }`, and the output that follows. */
export function readRecording(source, position) {
  const query = new URLSearchParams({ recording: source.recording, ...position });
  return send("GET", machinePath(source, `/recorded-output?${query}`), undefined, LONG_TIMEOUT);
}

/** Continues `{ recording }` from a snapshot in a new node of a session. The reply comes when the agent has accepted the instruction. */
export function createBranch(source, session, branch) {
  const query = session === null ? "" : `?session=${encodeURIComponent(session)}`;
  return send("POST", machinePath(source, `/branches${query}`), { ...branch, wait: false }, LONG_TIMEOUT);
}

/** Sends a prompt and returns the id of its result at once. */
export async function sendPrompt(node, text) {
  const accepted = await send("POST", nodePath(node, "/execute"), { text, async: true });
  return accepted.result_id;
}

/** Returns the newest results of a node's prompts, newest first. */
export async function listResults(node) {
  const query = new URLSearchParams({ session: node.session, node: node.id, limit: QUEUE_LIMIT });
  const { results } = await send("GET", machinePath(node, `/results?${query}`));
  return results;
}

/** Cancels a node's prompt that waits or runs. */
export function cancelResult(node, id) {
  return send("POST", machinePath(node, `/results/${encodeURIComponent(id)}/cancel`), {});
}

/** Returns the result of a node's prompt. */
export function getResult(node, id) {
  return send("GET", machinePath(node, `/results/${encodeURIComponent(id)}`));
}

/** Types keys into the terminal of a node. */
export function writeKeys(node, keys) {
  return send("POST", nodePath(node, "/write"), { data: keys });
}

/** Changes the size of a node's terminal, for its program and for everyone who looks at it. */
export function resizeTerminal(node, cols, rows) {
  return send("POST", nodePath(node, "/resize"), { cols, rows }, LONG_TIMEOUT);
}

/** Selects a choice of a dialog: by its label, or by its number from 1. With `dialogId`, only in the dialog with this id. */
export function answerDialog(node, choice, dialogId) {
  // A property that is undefined is not sent.
  return send("POST", nodePath(node, "/answer"), { choice, dialog_id: dialogId }, LONG_TIMEOUT);
}

/** Returns the hits of a search, newest first. Filters that are empty do not apply. */
export function search(filters) {
  const parameters = Object.entries(filters).filter(([, value]) => value);
  return send("GET", `/search?${new URLSearchParams(parameters)}`, undefined, LONG_TIMEOUT);
}

function runPath(id, action = "") {
  return `/runs/${encodeURIComponent(id)}${action}`;
}

/** Returns the runs of all sessions, newest first, without their steps. */
export async function listRuns() {
  const runs = [];
  await listAll("/runs", (page) => runs.push(...page.runs));
  return runs;
}

/** Returns a run with its steps: at most the `last` ones, and with its plan if `plan` is true. */
export function getRun(id, options = {}) {
  return send("GET", `${runPath(id)}?${new URLSearchParams(options)}`);
}

/** Returns the result of a step of a run; undefined while there is none. */
export async function getStepResult(id, step) {
  const run = await send("GET", `${runPath(id)}?${new URLSearchParams({ last: 0, result_of: step })}`, undefined, LONG_TIMEOUT);
  return run.result;
}

/** Answers a gate of a run. */
export function answerGate(id, step, choice) {
  return send("POST", runPath(id, "/answer"), { step_id: step, choice }, LONG_TIMEOUT);
}

/** Cancels a run. */
export function cancelRun(id) {
  return send("POST", runPath(id, "/cancel"), {}, LONG_TIMEOUT);
}

/** Resumes a run without waiting for its end. */
export function resumeRun(id) {
  return send("POST", runPath(id, "/resume"), { detach: true }, LONG_TIMEOUT);
}

/** Creates and starts a node. Without a folder, it runs in its server's. */
export function createNode(node, command, folder) {
  const spec = { node_id: node.id, command, cwd: folder === "" ? undefined : folder };
  return send("POST", machinePath(node, `/nodes?session=${encodeURIComponent(node.session)}`), spec, LONG_TIMEOUT);
}

/** Returns the path of the WebSocket that receives the events of a machine that a query selects. Null is this server. */
export function eventsPath(machine, query) {
  return machinePath({ machine }, `/events?${new URLSearchParams(query)}`);
}

/** Returns the path of the WebSocket that shows a terminal. With a position, the output continues there. */
export function terminalPath(node, position) {
  const since = position === null ? "" : `&since=${encodeURIComponent(position)}`;
  return `${nodePath(node, "/terminal")}${since}`;
}

/** Starts a stopped node again. */
export function startNode(node) {
  return send("POST", nodePath(node, "/start"), {}, LONG_TIMEOUT);
}

/** Stops a node. */
export function stopNode(node) {
  return send("DELETE", nodePath(node), undefined, LONG_TIMEOUT);
}
