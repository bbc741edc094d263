// Creates a node.

import { createNode, describeFailure } from "./api.js";
import { announce, element, showText, uniqueId } from "./dom.js";
import { nodeHref } from "./route.js";

/** Commands to choose from. */
const COMMANDS = ["claude", "codex", "gemini", "opencode", "bash"];
/** Option for a command that is typed. */
const OTHER = "other…";

function input(properties) {
  return element("input", { id: uniqueId("new"), autocomplete: "off", autocapitalize: "off", spellcheck: false, ...properties });
}

function field(label, control, hint) {
  const note = element("p", { class: "note", id: uniqueId("hint") }, hint);
  control.setAttribute("aria-describedby", note.id);
  return element("div", { class: "field" }, element("label", { for: control.id }, label), control, note);
}

/** Shows the form, and then the view of the created node. */
export class NewNodeForm {
  title = "New node";
  #isClosed = false;
  #name = input({ required: true, maxLength: 32, pattern: "[a-z0-9\\-]+", title: "1 to 32 of a-z, 0-9 and -" });
  #command = element("select", { id: uniqueId("new"), onchange: () => this.#showOther() }, ...[...COMMANDS, OTHER].map((command) => element("option", {}, command)));
  #other = input({ placeholder: "Command with its arguments" });
  #otherField = field("Other command", this.#other, "Split into words as in a shell, but run without one.");
  #machine = element("select", { id: uniqueId("new") });
  #folder = input({ placeholder: "/path/to/project" });
  #session = input({ placeholder: "default" });
  #send = element("button", { type: "submit", class: "primary" }, "Create");
  #problem = element("p", { class: "problem", role: "alert", hidden: true });

  constructor(store) {
    const local = [...store.nodes.values()].filter(({ machine }) => machine === null);
    const sessions = [...new Set(local.map(({ session }) => session))].sort();
    const list = element("datalist", { id: uniqueId("sessions") }, ...sessions.map((value) => element("option", { value })));
    this.#session.setAttribute("list", list.id);
    const folders = [...new Set(local.map(({ metadata }) => metadata.cwd).filter((cwd) => cwd))].sort();
    const folderList = element("datalist", { id: uniqueId("folders") }, ...folders.map((value) => element("option", { value })));
    this.#folder.setAttribute("list", folderList.id);
    const machines = store.machines.map(({ name }) => element("option", {}, name));
    this.#machine.append(element("option", { value: "" }, "this server"), ...machines);
    const machineField = field("Machine", this.#machine, "Where the node runs");
    machineField.hidden = machines.length === 0;
    const form = element(
      "form",
      { class: "new-node", onsubmit: (event) => this.#submit(event) },
      field("Name", this.#name, "1 to 32 of a-z, 0-9 and -"),
      field("Command", this.#command, "The agent or program to run"),
      this.#otherField,
      machineField,
      field("Folder", this.#folder, "Absolute path on the machine of the node. If empty: the folder in which the server there was started"),
      field("Session", this.#session, "If empty: the default session"),
      list,
      folderList,
      this.#problem,
      element("p", { class: "actions" }, this.#send),
    );
    this.element = element("div", { class: "page-view" }, element("h1", { tabIndex: -1 }, "New node"), form);
    this.#showOther();
  }

  close() {
    this.#isClosed = true;
  }

  #showOther() {
    this.#otherField.hidden = this.#command.value !== OTHER;
    this.#other.required = this.#command.value === OTHER;
  }

  async #submit(event) {
    event.preventDefault();
    const id = this.#name.value.trim();
    const session = this.#session.value.trim() || "default";
    const command = this.#command.value === OTHER ? this.#other.value.trim() : this.#command.value;
    const machine = this.#machine.value || null;
    this.#send.disabled = true;
    showText(this.#problem, "");
    announce(`Creating ${id}…`);
    try {
      await createNode({ machine, session, id }, command, this.#folder.value.trim());
      announce(`${id} was created`);
      if (!this.#isClosed) {
        location.hash = nodeHref({ machine, session, id });
      }
    } catch (error) {
      const uncertain = "the node may have been created. Check the list of nodes before you create it again.";
      showText(this.#problem, describeFailure("Not created", error, uncertain));
    } finally {
      this.#send.disabled = false;
    }
  }
}
