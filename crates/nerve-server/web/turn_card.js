// One turn of a transcript: its prompt, its answer with thoughts and tools, and its dialogs.

import { element, shorten, showText, uniqueId } from "./dom.js";
import { longText } from "./long_text.js";
import { plainText, renderMarkdown } from "./markdown.js";
import { formatDuration, formatTime } from "./time.js";

/** Time between the first and the last moment of a turn up to which its duration is not shown, in milliseconds. */
const SHORT_TURN = 1000;
/** Characters of a tool's arguments in its summary. */
const SUMMARY_LENGTH = 100;
/** Elements from which the focus may move to a turn. A person who types in a field keeps the focus. */
const IDLE_FOCUS = "body, h1, .turn h2";
/** States of a tool that are shown as a word. */
const TOOL_STATES = ["error", "rejected", "running", "waiting", "asking", "pending"];

const numbers = new Intl.NumberFormat("en");

/** Shows one turn. Parts that do not change keep their elements, so that what was unfolded stays so. */
export class TurnCard {
  turn = null;
  #isMarkdown;
  #facts = element("span", { class: "turn-facts" });
  #prompt = element("div", { class: "turn-prompt", role: "group", "aria-label": "Prompt" });
  #parts = element("div", { class: "turn-parts" });
  #dialogs = element("ul", { class: "turn-dialogs" });
  #shownPrompt = null;
  /** The sections that are shown: their JSON, their elements, and whether their texts are Markdown. */
  #shown = [];

  /**
   * Creates the card of a turn. `isMarkdown` returns true if the texts of a turn are Markdown. `timeline` is the
   * address of its moment in the recording; null without one.
   */
  constructor(turn, isMarkdown, timeline = null) {
    this.#isMarkdown = isMarkdown;
    const recorded = timeline === null ? [] : [element("a", { class: "in-recording", href: timeline, "aria-label": `Show in recording: turn ${turn.turn}` }, "Show in recording")];
    const heading = element("h2", { id: uniqueId("turn"), tabIndex: -1 }, `Turn ${turn.turn}`);
    // A named section would be a landmark: there can be a thousand turns.
    this.element = element(
      "article",
      { class: "turn", "aria-labelledby": heading.id, "data-turn": String(turn.turn) },
      element("header", {}, heading, this.#facts, ...recorded),
      this.#prompt,
      this.#parts,
      this.#dialogs,
    );
    this.update(turn);
  }

  /** Shows another description of the turn. */
  update(turn) {
    this.turn = turn;
    showText(this.#facts, factsOf(turn));
    if (turn.prompt !== this.#shownPrompt) {
      this.#shownPrompt = turn.prompt;
      this.#prompt.replaceChildren(...(turn.prompt === "" ? [] : [longText(turn.prompt)]));
      this.#prompt.hidden = turn.prompt === "";
    }
    this.#showParts(turn);
    this.#dialogs.replaceChildren(...turn.dialogs.map(dialogItem));
    this.#dialogs.hidden = turn.dialogs.length === 0;
  }

  /** Brings the turn into view. Moves the focus to it unless that is in use. */
  focus() {
    this.element.scrollIntoView({ block: "start" });
    if (document.activeElement?.matches(IDLE_FOCUS) ?? true) {
      this.element.querySelector("h2").focus({ preventScroll: true });
    }
    this.element.classList.add("wanted");
  }

  #showParts(turn) {
    const isMarkdown = this.#isMarkdown(turn);
    const parts = turn.sections.map((section, index) => {
      const json = JSON.stringify(section);
      const before = this.#shown[index];
      if (before?.json === json && before.isMarkdown === isMarkdown) {
        return before;
      }
      const part = { json, isMarkdown, element: partOf(section, isMarkdown) };
      keepOpen(before?.element, part.element);
      before?.element.replaceWith(part.element);
      return part;
    });
    this.#shown.slice(parts.length).forEach((part) => part.element.remove());
    this.#parts.append(...parts.slice(this.#shown.length).map((part) => part.element));
    this.#shown = parts;
  }
}

/** Unfolds an element if the one that it replaces is unfolded. */
function keepOpen(before, after) {
  if (before?.open && after.tagName === before.tagName) {
    after.open = true;
  }
}

/** Returns time, duration, tokens and source of a turn. */
function factsOf({ started_at: started, ended_at: ended, tokens, is_complete: isComplete, source }) {
  const duration = started && ended ? Date.parse(ended) - Date.parse(started) : 0;
  const facts = [
    started ? formatTime(started) : "",
    duration > SHORT_TURN ? formatDuration(duration) : "",
    tokens ? tokenText(tokens) : "",
    isComplete ? "" : "not complete",
    source === "screen" ? "read from the screen" : "",
  ];
  return facts.filter((fact) => fact !== "").join(" · ");
}

function tokenText({ input, output, total }) {
  const parts = [[input, "in"], [output, "out"], [total, "in total"]].filter(([count]) => typeof count === "number");
  const texts = parts.map(([count, name], index) => `${numbers.format(count)}${index === 0 ? " tokens" : ""} ${name}`);
  return texts.join(", ");
}

/** Returns the element of a section of an answer. */
export function partOf(section, isMarkdown) {
  const { type, content, metadata } = section;
  switch (type) {
    case "thinking":
      return folded("part thinking", ["Thinking"], () => [longText(content, isMarkdown ? renderMarkdown : plainText)]);
    case "tool_call":
      return toolCall(content, metadata ?? {});
    case "error":
      return element("div", { class: "part error" }, element("strong", {}, "Error: "), longText(content));
    case "interrupted":
      return element("p", { class: "part error" }, `Interrupted${content ? `: ${content}` : ""}`);
    default:
      return element("div", { class: "part text" }, longText(content, isMarkdown ? renderMarkdown : plainText));
  }
}

function toolCall(content, { tool, label, args, status, duration }) {
  const values = argumentsOf(args ?? "");
  const short = shorten((values[0]?.text ?? "").trim().split("\n", 1)[0], SUMMARY_LENGTH);
  const state = TOOL_STATES.includes(status) ? element("span", { class: `tool-state ${status}` }, status) : "";
  const summary = [element("strong", {}, tool ?? label ?? "Tool"), " ", element("code", {}, short), " ", state, duration ? ` ${duration}` : ""];
  const result = () => (content === "" ? element("p", { class: "note" }, "No result.") : labelled("Result", content));
  return folded("part tool", summary, () => [...values.map(({ name, text }) => labelled(name, text)), result()]);
}

/** Returns the arguments of a tool with their names. Agents write them as a JSON object, or as they show them. */
function argumentsOf(args) {
  let parsed = null;
  try {
    parsed = JSON.parse(args);
  } catch {
    // Text as the agent shows it.
  }
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) {
    return args === "" ? [] : [{ name: "Arguments", text: args }];
  }
  return Object.entries(parsed).map(([name, value]) => ({ name, text: typeof value === "string" ? value : JSON.stringify(value, null, 2) }));
}

function labelled(label, text) {
  return element("div", { class: "labelled" }, element("p", { class: "label" }, label), longText(text));
}

/** Returns a folded element, whose contents are created when it is unfolded. */
function folded(name, summary, createContents) {
  const fill = () => created.open && created.children.length === 1 && created.append(...createContents());
  const created = element("details", { class: name, ontoggle: fill }, element("summary", {}, ...summary));
  return created;
}

function dialogItem({ answered_at: at, dialog, choice, client, transport }) {
  const answer = choice === null ? "closed without a choice" : `“${choice}”`;
  const who = client ? ` by ${client}${transport ? ` (${transport})` : ""}` : "";
  return element("li", {}, `Dialog '${dialog}': ${answer}${who}${at ? `, ${formatTime(at)}` : ""}`);
}
