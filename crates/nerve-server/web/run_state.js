// The states of runs and steps for display: a sign in addition to the word and the color.

const SIGNS = {
  planned: "○",
  queued: "…",
  running: "▶",
  waiting: "?",
  completed: "✓",
  reused: "✓",
  skipped: "–",
  failed: "✗",
  cancelled: "■",
  interrupted: "‖",
};

/** Words for states whose names do not speak for themselves. */
const WORDS = { planned: "not started" };

/** Returns a state with its sign, such as "✓ completed". */
export function stateText(state) {
  return `${SIGNS[state] ?? "·"} ${WORDS[state] ?? state}`;
}

/** Returns true while a run has not ended. Interrupted runs can be cancelled and resumed. */
export function isActive(run) {
  return run.state === "running" || run.state === "waiting";
}

/** Returns true if a run can be resumed. */
export function isResumable(run) {
  return ["failed", "cancelled", "interrupted"].includes(run.state);
}
