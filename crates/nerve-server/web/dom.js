// Creates elements. Text of agents and users is only ever inserted as text.

/**
 * Returns a new element. Properties whose names begin with "on" are listeners, `class` and names with a dash or `role`
 * are attributes, others are properties of the element. Strings among the children become text.
 */
export function element(tag, properties = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) {
      created.addEventListener(name.slice(2), value);
    } else if (name === "class" || name === "role" || name === "for" || name.includes("-")) {
      created.setAttribute(name, value);
    } else {
      created[name] = value;
    }
  }
  created.append(...children);
  return created;
}

/** Sets the text of an element, and hides the element if there is none. */
export function showText(target, text) {
  const wanted = text ?? "";
  if (target.textContent !== wanted) {
    target.textContent = wanted;
  }
  target.hidden = wanted === "";
}

/** Reports a change to screen readers. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

let lastId = 0;

/** Returns an id that no other element has. */
export function uniqueId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
