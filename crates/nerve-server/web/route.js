// The view that the fragment of the address selects.

/**
 * Returns the route of a fragment: its view and the names in it. Unknown fragments lead to the list of nodes.
 *
 * `#/` lists the nodes, `#/node/SESSION/ID?turn=N` shows one of them, `#/node/MACHINE/SESSION/ID` one of another machine, `#/recording/ID?turn=N` a recording. With `?at=SECONDS` or
 * `?turn=N&tab=timeline`, both show the timeline. `#/search?q=TEXT` searches, `#/new` creates a node, `#/runs` lists the runs of
 * graphs, `#/run/ID` shows one of them.
 */
export function parseRoute(fragment) {
  const [path, query = ""] = fragment.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, ...names] = path.split("/").map(decodePart);
  const params = Object.fromEntries(new URLSearchParams(query));
  if (view === "node" && [2, 3].includes(names.length)) {
    const [id, session, machine = null] = names.reverse();
    return { view, machine, session, id, params };
  }
  if (["recording", "run"].includes(view) && names.length === 1) {
    return { view, id: names[0], params };
  }
  if (["search", "runs", "new"].includes(view) && names.length === 0) {
    return { view, params };
  }
  return { view: "nodes", params };
}

/** Returns the text of a part of an address. A person may have typed it. */
function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the fragment of a node's view. */
export function nodeHref(node, params = {}) {
  return href(["node", ...(node.machine ? [node.machine] : []), node.session, node.id], params);
}

/** Returns a fragment with these parts of its path. Parameters without a value are left out. */
export function href(parts, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${query === "" ? "" : `?${query}`}`;
}
