// The form that continues a recording from a snapshot in a new node.

import { createBranch, describeError, describeFailure } from "./api.js";
import { announce, element, showText, uniqueId } from "./dom.js";
import { nodeHref } from "./route.js";
import { formatPosition } from "./time.js";

/** Time without a move to another point after which the plan of a point is requested, in milliseconds. */
const PREVIEW_DELAY = 300;
const NO_SNAPSHOT = "There is no snapshot at or before this position, so no branch can begin here. `nerve snapshot` takes one while a node runs.";

/**
 * Returns the point from which a branch at a position continues: `at` for the request, a `label`, and whether it has files; null
 * if there is none. The engine continues from snapshots, from the end of a recording, and from the present of a live one, of which
 * it takes a snapshot first.
 */
export function branchPoint({ snapshots, live, duration_ms: duration }, position) {
  const isAtEnd = position >= duration;
  if (isAtEnd) {
    const end = live ? { at: "now", label: "the present, with a new snapshot" } : { at: "end", label: "the end of the recording" };
    return { ...end, hasFiles: true };
  }
  const earlier = snapshots.filter(({ at_ms: at }) => at <= position);
  const snapshot = earlier.reduce((last, one) => (last === null || one.at_ms >= last.at_ms ? one : last), null);
  if (snapshot === null) {
    return null;
  }
  const name = snapshot.label ? `snapshot ${snapshot.snapshot_id} “${snapshot.label}”` : `snapshot ${snapshot.snapshot_id}`;
  return { at: String(snapshot.snapshot_id), label: `${name} at ${formatPosition(snapshot.at_ms)}`, hasFiles: snapshot.has_files };
}

/** Begins a branch from the position that is shown when the form is opened or sent. */
export class BranchForm {
  #machine;
  #timeline = null;
  #position = 0;
  #isSending = false;
  /** The recording and the point whose plan is shown. */
  #planned = null;
  #timer = null;
  #point = element("p", { class: "note" });
  #plan = element("p", { class: "note", hidden: true });
  #problem = element("p", { class: "note failed", role: "alert", hidden: true });
  #inPlace = element("input", { type: "checkbox", onchange: () => this.#update() });
  #inPlaceRow = element("label", { hidden: true }, this.#inPlace, " The snapshot has no files: use the current ones in the recorded folder");
  #text = element("textarea", { id: uniqueId("branch"), rows: 2, required: true, autocomplete: "off" });
  #send = element("button", { type: "submit", class: "primary" }, "Begin the branch");
  #form;

  /** `machine` has the recordings; null is this server. */
  constructor(machine = null) {
    this.#machine = machine;
    this.#form = element(
      "form",
      { class: "branch-form", onsubmit: (event) => this.#submit(event) },
      this.#point,
      this.#inPlaceRow,
      this.#plan,
      element("label", { for: this.#text.id }, "Instruction for the new node"),
      this.#text,
      this.#send,
      this.#problem,
    );
    this.element = element("details", { class: "branch", ontoggle: () => this.#update() }, element("summary", {}, "Branch from here"), this.#form);
  }

  /** Shows the point of a branch at this position. */
  update(timeline, position) {
    this.#timeline = timeline;
    this.#position = position;
    this.#update();
  }

  #update() {
    if (this.#timeline === null || !this.element.open || this.#isSending) {
      return;
    }
    const point = branchPoint(this.#timeline, this.#position);
    showText(this.#point, point === null ? NO_SNAPSHOT : `The branch continues from ${point.label}.`);
    this.#send.disabled = point === null;
    this.#text.disabled = point === null;
    this.#inPlaceRow.hidden = point?.hasFiles ?? true;
    const key = point === null ? null : `${this.#timeline.recording_id}/${point.at}/${this.#isInPlace(point)}`;
    if (key !== this.#planned) {
      this.#planned = key;
      showText(this.#plan, "");
      showText(this.#problem, "");
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#preview(point, key), PREVIEW_DELAY);
    }
  }

  /** Asks the server what the branch would contain, so that errors are shown before an instruction is typed. */
  async #preview(point, key) {
    if (point === null || point.at === "now" || !this.element.isConnected) {
      return;
    }
    try {
      const { files, conversation, cwd } = await this.#request(point, "-", { dry_run: true });
      const about = files === null ? `works in ${cwd}` : `has the files of the snapshot in ${files.to}`;
      if (this.#planned === key) {
        showText(this.#plan, `It ${about}; conversation: ${conversation.about}.`);
      }
    } catch (error) {
      if (this.#planned === key) {
        showText(this.#problem, `A branch from here fails: ${describeError(error)}`);
      }
    }
  }

  /** Returns true if the branch works with the current files. */
  #isInPlace(point) {
    return !point.hasFiles && this.#inPlace.checked;
  }

  #request(point, instruction, more = {}) {
    const { recording_id: recording, session_id: session } = this.#timeline;
    return createBranch({ machine: this.#machine }, session, { recording, at: point.at, instruction, in_place: this.#isInPlace(point), ...more });
  }

  async #submit(event) {
    event.preventDefault();
    const point = branchPoint(this.#timeline, this.#position);
    const instruction = this.#text.value.trim();
    if (point === null || instruction === "" || this.#isSending) {
      return;
    }
    this.#isSending = true;
    this.#send.disabled = true;
    showText(this.#problem, "");
    showText(this.#point, `Starting a node that continues from ${point.label}…`);
    try {
      const { node_id: id, session_id: session } = await this.#request(point, instruction);
      announce(`The node ${id} continues.`);
      if (this.element.isConnected) {
        location.hash = nodeHref({ machine: this.#machine, session: session ?? "default", id });
      }
    } catch (error) {
      showText(this.#problem, describeFailure("No branch", error, "the node may exist all the same. Look at the list of nodes."));
    } finally {
      this.#isSending = false;
      this.#send.disabled = false;
      this.#update();
    }
  }
}
