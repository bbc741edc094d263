// Places the steps of a graph in layers: a step is one layer after the last of the steps that it depends on.

/** Size of a step and distances between steps, in pixels. */
export const BOX = { width: 176, height: 64 };
const GAP = { x: 44, y: 18 };
const MARGIN = 12;
/** Maximum number of steps for which long edges get bends, which need room. */
const MAX_ROUTED = 60;

/** Returns the layer of each step by its id: the length of the longest path to it. */
export function findLayers(plan) {
  const ids = new Set(plan.map((step) => step.step_id));
  const dependencies = new Map(plan.map((step) => [step.step_id, (step.depends_on ?? []).filter((id) => ids.has(id))]));
  const dependants = new Map(plan.map((step) => [step.step_id, []]));
  dependencies.forEach((ids, step) => ids.forEach((id) => dependants.get(id).push(step)));
  const missing = new Map([...dependencies].map(([step, ids]) => [step, ids.length]));
  const layers = new Map(plan.map((step) => [step.step_id, 0]));
  const ready = plan.map((step) => step.step_id).filter((id) => missing.get(id) === 0);
  for (const id of ready) {
    for (const next of dependants.get(id)) {
      layers.set(next, Math.max(layers.get(next), layers.get(id) + 1));
      missing.set(next, missing.get(next) - 1);
      if (missing.get(next) === 0) {
        ready.push(next);
      }
    }
  }
  return layers;
}

/**
 * Returns the items of each layer, steps and bends, and the edges. An edge over several layers has a bend in each of them, so that it does
 * not pass behind a step. All such edges of one step share their bends.
 */
function routeEdges(plan, layers) {
  const columns = [];
  const add = (layer, item) => (columns[layer] ??= []).push(item);
  plan.forEach((step) => add(layers.get(step.step_id), { id: step.step_id, before: (step.depends_on ?? []).filter((id) => layers.has(id)) }));
  const isRouted = plan.length <= MAX_ROUTED;
  const bends = new Set();
  const edges = [];
  for (const { id: to, before } of columns.flat()) {
    for (const from of before) {
      const via = [];
      for (let layer = layers.get(from) + 1; isRouted && layer < layers.get(to); layer += 1) {
        const id = `${from}#${layer}`;
        if (!bends.has(id)) {
          bends.add(id);
          add(layer, { id, before: [via.at(-1) ?? from] });
        }
        via.push(id);
      }
      edges.push({ from, to, via });
    }
  }
  return { columns, edges };
}

/** Returns the items of a layer in their order: near the middle of the items before them, which avoids crossings. */
function orderLayer(items, rows) {
  const middle = ({ before }) => {
    const earlierRows = before.map((id) => rows.get(id)).filter((row) => row !== undefined);
    return earlierRows.length === 0 ? 0 : earlierRows.reduce((sum, row) => sum + row, 0) / earlierRows.length;
  };
  return items.map((item, index) => ({ item, index, at: middle(item) })).sort((one, other) => one.at - other.at || one.index - other.index).map((placed) => placed.item);
}

/** Returns the places of steps and bends by id, the edges between steps, and the size of the picture. */
export function layOut(plan) {
  const { columns, edges } = routeEdges(plan, findLayers(plan));
  const height = Math.max(...columns.map((column) => column.length));
  const rows = new Map();
  const places = new Map();
  columns.forEach((column, layer) => {
    orderLayer(column, rows).forEach((item, index) => {
      // Short columns are centered.
      const row = index + (height - column.length) / 2;
      rows.set(item.id, row);
      places.set(item.id, { x: MARGIN + layer * (BOX.width + GAP.x), y: MARGIN + row * (BOX.height + GAP.y) });
    });
  });
  return {
    places,
    edges,
    width: 2 * MARGIN + columns.length * (BOX.width + GAP.x) - GAP.x,
    height: 2 * MARGIN + height * (BOX.height + GAP.y) - GAP.y,
  };
}
