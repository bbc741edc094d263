// A question before something that cannot be undone, or that a program has suggested.

import { element, uniqueId } from "./dom.js";

/**
 * Shows a question with the button `refusal` and the control `confirm`. Resolves to true if `confirm` closed the
 * question, otherwise to false. Another view closes the question too, because it is about what was shown.
 */
function showQuestion(question, more, refusal, confirm) {
  return new Promise((resolve) => {
    const listeners = new AbortController();
    const finish = () => {
      listeners.abort();
      box.remove();
      resolve(box.returnValue === "yes");
    };
    const refuse = element("button", { type: "button", onclick: () => box.close() }, refusal);
    confirm.addEventListener("click", () => box.close("yes"));
    const title = element("p", { id: uniqueId("question") }, question);
    const box = element("dialog", { class: "confirm", "aria-labelledby": title.id, onclose: finish });
    box.append(title, ...more, element("p", { class: "actions" }, refuse, confirm));
    document.body.append(box);
    addEventListener("hashchange", () => box.close(), { signal: listeners.signal });
    box.showModal();
    refuse.focus();
  });
}

/** Shows a question with two buttons. Returns true if the action was confirmed. */
export function confirmAction(question, action, refusal) {
  return showQuestion(question, [], refusal, element("button", { type: "button", class: "danger" }, action));
}

/** Opens a link of a program after a confirmation: its text can differ from its target. Links of other kinds do nothing. */
export function confirmLink(target) {
  if (/^https?:\/\//i.test(target)) {
    const open = element("a", { class: "button", href: target, target: "_blank", rel: "noopener noreferrer" }, "Open");
    showQuestion("Open this link of the program?", [element("p", {}, element("code", {}, target))], "Cancel", open);
  }
}
