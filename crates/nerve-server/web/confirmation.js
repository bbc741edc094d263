// A question before something that cannot be undone.

import { element, uniqueId } from "./dom.js";

/** Shows a question with two buttons. Returns true if the action was confirmed; any other end of the dialog is false. */
export function confirmAction(question, action, refusal) {
  return new Promise((resolve) => {
    const finish = () => {
      box.remove();
      resolve(box.returnValue === "yes");
    };
    const keep = element("button", { type: "button", onclick: () => box.close() }, refusal);
    const confirm = element("button", { type: "button", class: "danger", onclick: () => box.close("yes") }, action);
    const title = element("p", { id: uniqueId("confirm") }, question);
    const box = element("dialog", { class: "confirm", "aria-labelledby": title.id, onclose: finish });
    box.append(title, element("p", { class: "actions" }, keep, confirm));
    document.body.append(box);
    box.showModal();
    keep.focus();
  });
}
