// The conversation of a recording, whose node may be gone.

import { ChatTab } from "./chat_tab.js";
import { element } from "./dom.js";
import { nodeHref } from "./route.js";

/** Digits of a recording's id in the title. */
const ID_DIGITS = 8;

/** Shows the turns that began while a recording was made. */
export class RecordingView {
  #chat;
  #facts = element("p", { class: "facts" });
  #name = element("bdi");

  constructor(route) {
    this.title = `Recording ${route.id.slice(0, ID_DIGITS)}`;
    this.#chat = new ChatTab({ recording: route.id });
    const heading = element("h1", { tabIndex: -1 }, "Recording of ", this.#name);
    this.#name.textContent = "…";
    this.element = element("div", { class: "node-view node" }, element("header", {}, heading, this.#facts), this.#chat.element);
    this.#describe();
    this.open(route);
  }

  /** Shows the turn that an address names. */
  open(route) {
    if (route.params.turn) {
      this.#chat.showTurn(Number(route.params.turn));
    }
  }

  show() {
    this.#chat.show();
  }

  close() {
    this.#chat.close();
  }

  async #describe() {
    const transcript = await this.#chat.described();
    const { node_id: id, session_id: session, profile, cwd, recording_id: recording } = transcript ?? {};
    this.#name.textContent = id ?? "a program without a node";
    const link = id && session ? [element("a", { href: nodeHref({ session, id }) }, "The node's newest conversation")] : [];
    const facts = [profile, cwd, recording].filter((fact) => fact).map((fact) => element("bdi", {}, fact));
    this.#facts.replaceChildren(...facts, ...link);
  }
}
