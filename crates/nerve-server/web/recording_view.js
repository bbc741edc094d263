// The conversation and the timeline of a recording, whose node may be gone.

import { ChatTab } from "./chat_tab.js";
import { element } from "./dom.js";
import { href, nodeHref } from "./route.js";
import { TabList } from "./tab_list.js";

/** Digits of a recording's id in the title. */
const ID_DIGITS = 8;

/** Shows the turns that began while a recording was made. */
export class RecordingView {
  #chat;
  #tabs;
  #facts = element("p", { class: "facts" });
  #name = element("bdi");

  constructor({ session: { role } }, route) {
    this.title = `Recording ${route.id.slice(0, ID_DIGITS)}`;
    const source = { recording: route.id };
    this.#chat = new ChatTab(source);
    const timeline = async () => new (await import("./timeline_tab.js")).TimelineTab(source, role);
    this.#tabs = new TabList(
      [
        { name: "chat", label: "Chat", create: () => this.#chat },
        { name: "timeline", label: "Timeline", create: timeline },
      ],
      "Views of the recording",
      (tab) => history.replaceState(history.state, "", href(["recording", route.id], tab === "chat" ? {} : { tab })),
    );
    const heading = element("h1", { tabIndex: -1 }, "Recording of ", this.#name);
    this.#name.textContent = "…";
    this.element = element("div", { class: "node-view node" }, element("header", {}, heading, this.#facts), this.#tabs.element);
    // The head needs the description of the transcript, whichever tab is shown.
    this.#chat.show();
    this.#describe();
    this.open(route);
  }

  /** Shows the turn or the position that an address names. */
  async open({ params: { turn, at, tab } }) {
    if (tab === "timeline" || at) {
      (await this.#tabs.select("timeline"))?.open({ turn, at });
      return;
    }
    await this.#tabs.select("chat");
    if (turn) {
      this.#chat.showTurn(Number(turn));
    }
  }

  close() {
    this.#tabs.close();
    // Its tab may never have been selected.
    this.#chat.close();
  }

  async #describe() {
    const transcript = await this.#chat.loadDescription();
    const { node_id: id, session_id: session, profile, cwd, recording_id: recording } = transcript ?? {};
    this.#name.textContent = id ?? "a program without a node";
    const link = id && session ? [element("a", { href: nodeHref({ session, id }) }, "The node's newest conversation")] : [];
    const facts = [profile, cwd, recording].filter((fact) => fact).map((fact) => element("bdi", {}, fact));
    this.#facts.replaceChildren(...facts, ...link);
  }
}
