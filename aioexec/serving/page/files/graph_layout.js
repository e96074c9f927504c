/*
 * The layout of a graph, without the document: nodes are grouped by name scope, and each open scope is laid out in layers.
 *
 * 1. Nodes become items in a tree of scopes. A scope with one item is merged with it; many nodes of one op in a scope, whose names
 *    differ in a number only, become a series, which opens like a scope.
 * 2. An edge belongs to the innermost scope that has both its ends, where it joins two items.
 * 3. Items of an open scope are in layers: each below the items that it reads. Edges that close a cycle (of a loop, or between
 *    scopes) are left out. An edge that passes layers gets an item without a label in each. Sweeps order each layer by the mean
 *    position of neighbours, then move items towards it.
 */

const GAP = 18;
const LAYER_GAP = 34;
const PADDING = 16;
const HEADER = 30;
const WIDEST_ROW = 1500;
const BEND = 10; // the width that an edge takes beside items
const MOST_BENDS = 3000; // of one scope; beyond, its long edges are drawn straight
const SERIES = 8; // as many nodes of one kind make a series

export class Item {
  constructor(label, parent) {
    this.label = label;
    this.parent = parent;
    this.children = []; // empty for a node
    this.isSeries = false; // whether it is a scope that the layout made
    this.node = null; // the node's index, null for a scope
    this.count = 0; // nodes in it
    this.open = false;
    this.edges = new Map(); // between children: key -> {from, to, route: the items without a label on its way}
    this.x = this.y = this.width = this.height = 0; // relative to the parent's corner
  }

  get isScope() {
    return this.node === null;
  }

  get path() {
    let outer = this.parent;
    while (outer?.isSeries) outer = outer.parent;
    return outer?.parent ? `${outer.path}/${this.label}` : this.label;
  }

  * within() {
    for (let item = this; item; item = item.parent) yield item;
  }
}

/** The tree of scopes of the nodes for which `keep` is true. Returns {root, leaves: an item or null for each node}. */
export function treeOf(nodes, keep) {
  const root = new Item("", null);
  const kept = nodes.map((node, index) => (keep(node) ? index : -1)).filter((index) => index >= 0);
  const scopes = new Map([["", root]]);
  const scopeOf = (path) => {
    if (!scopes.has(path)) {
      const cut = path.lastIndexOf("/");
      const parent = scopeOf(cut < 0 ? "" : path.slice(0, cut));
      const scope = new Item(path.slice(cut + 1), parent);
      parent.children.push(scope);
      scopes.set(path, scope);
    }
    return scopes.get(path);
  };
  for (const index of kept) {
    const cut = nodes[index].name.lastIndexOf("/");
    if (cut > 0) scopeOf(nodes[index].name.slice(0, cut));
  }
  const leaves = nodes.map(() => null);
  for (const index of kept) {
    const { name } = nodes[index];
    const cut = name.lastIndexOf("/");
    const parent = scopes.get(name) ?? scopes.get(cut < 0 ? "" : name.slice(0, cut));
    leaves[index] = new Item(name.slice(cut + 1), parent);
    leaves[index].node = index;
    parent.children.push(leaves[index]);
  }
  simplify(root, nodes);
  countNodes(root);
  root.open = true;
  return { root, leaves };
}

function simplify(scope, nodes) {
  for (const child of [...scope.children]) if (child.isScope) simplify(child, nodes);
  scope.children = scope.children.map((child) => {
    if (!child.isScope || child.children.length !== 1) return child;
    const [only] = child.children;
    only.label = only.label === child.label ? child.label : `${child.label}/${only.label}`;
    only.parent = scope;
    return only;
  });
  groupSeries(scope, nodes);
}

function groupSeries(scope, nodes) {
  const kinds = new Map();
  for (const child of scope.children) {
    const base = child.label.replace(/_\d+$/, "");
    const kind = child.isScope ? `${base}/` : `${base} ${nodes[child.node].op}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), child]);
  }
  for (const members of kinds.values()) {
    if (members.length < SERIES || members.length === scope.children.length) continue;
    const series = new Item(`${members[0].label.replace(/_\d+$/, "")} … ${members.at(-1).label}`, scope);
    series.isSeries = true;
    series.children = members;
    scope.children = [...scope.children.filter((child) => !members.includes(child)), series];
    for (const member of members) member.parent = series;
  }
}

function countNodes(item) {
  item.count = item.isScope ? item.children.reduce((sum, child) => sum + countNodes(child), 0) : 1;
  return item.count;
}

/** Add each edge to the innermost scope that has both ends, as its `inner`. */
export function addEdges(edges) {
  for (const edge of edges) {
    const above = new Map(); // of `from`: scope -> its child on the way down
    let child = null;
    for (const item of edge.from.within()) {
      above.set(item, child);
      child = item;
    }
    child = null;
    for (const item of edge.to.within()) {
      if (above.has(item)) {
        edge.inner = join(item, above.get(item), child);
        break;
      }
      child = item;
    }
  }
}

let nextId = 0;
const ids = new WeakMap();

function idOf(item) {
  if (!ids.has(item)) ids.set(item, nextId++);
  return ids.get(item);
}

function join(scope, from, to) {
  if (from === null || to === null || from === to) return null;
  const key = `${idOf(from)} ${idOf(to)}`;
  if (!scope.edges.has(key)) scope.edges.set(key, { from, to, route: [] });
  return scope.edges.get(key);
}

/** The item that stands for a node in the drawing: its outermost closed scope, or itself. */
export function shownFor(leaf) {
  let shown = leaf;
  for (const item of leaf.within()) if (item.isScope && !item.open) shown = item;
  return shown;
}

/** The edges between shown items, with the number of edges that each one stands for. */
export function shownEdges(edges) {
  const found = new Map();
  for (const edge of edges) {
    const from = shownFor(edge.from);
    const to = shownFor(edge.to);
    if (from === to) continue;
    const key = `${idOf(from)} ${idOf(to)}`;
    const known = found.get(key);
    if (known) {
      known.count += 1;
      known.control &&= edge.control;
    } else found.set(key, { from, to, count: 1, control: edge.control, route: edge.inner?.route ?? [] });
  }
  return [...found.values()];
}

/** Set the sizes and positions of an item's open scopes, from the inside out. */
export function layOut(item) {
  if (!item.isScope || !item.open) {
    const letters = Math.min(item.label.length, 26);
    item.width = Math.max(60, letters * 7.2 + (item.isScope ? 46 + String(item.count).length * 7 : 24));
    item.height = item.isScope ? 36 : 28;
    return;
  }
  for (const child of item.children) layOut(child);
  const size = place(item.children, [...item.edges.values()]);
  const label = Math.min(item.label.length, 40) * 7 + 60;
  const header = item.parent ? HEADER : 0;
  item.width = Math.max(size.width + 2 * PADDING, label);
  item.height = size.height + 2 * PADDING + header;
  const bends = new Set([...item.edges.values()].flatMap((edge) => edge.route));
  for (const child of [...item.children, ...bends]) {
    child.x += PADDING + (item.width - 2 * PADDING - size.width) / 2;
    child.y += PADDING + header;
  }
}

/** Place items in layers; return the size of all. */
function place(items, edges) {
  const below = new Map(items.map((item) => [item, []]));
  const above = new Map(items.map((item) => [item, []]));
  for (const { from, to } of edges) below.get(from).push(to);
  dropCycles(items, below);
  for (const [from, targets] of below) for (const to of targets) above.get(to).push(from);
  const joined = items.filter((item) => below.get(item).length + above.get(item).length > 0);
  const layers = layersOf(joined, below, above);
  routeLong(layers, edges, below, above);
  const rows = splitWide(orderRows(layers, above, below));
  const alone = splitWide([items.filter((item) => !joined.includes(item))].filter((row) => row.length));
  alignRows(rows, above, below);
  for (const row of alone) pack(row);
  return stack([...rows, ...alone]);
}

/** Remove the edges that close a cycle, by a depth-first search without recursion. */
function dropCycles(items, below) {
  const state = new Map(); // 1: on the path, 2: finished
  for (const start of items) {
    if (state.has(start)) continue;
    const path = [[start, 0]];
    state.set(start, 1);
    while (path.length) {
      const top = path.at(-1);
      const targets = below.get(top[0]);
      if (top[1] === targets.length) {
        state.set(top[0], 2);
        path.pop();
      } else if (state.get(targets[top[1]]) === 1) targets.splice(top[1], 1);
      else {
        const target = targets[top[1]++];
        if (!state.has(target)) {
          state.set(target, 1);
          path.push([target, 0]);
        }
      }
    }
  }
}

/** Layers by the longest path from a source; a source is moved down to its first reader. */
function layersOf(items, below, above) {
  const waiting = new Map(items.map((item) => [item, above.get(item).length]));
  const layer = new Map();
  const ready = items.filter((item) => waiting.get(item) === 0);
  for (const item of ready) {
    layer.set(item, Math.max(-1, ...above.get(item).map((each) => layer.get(each))) + 1);
    for (const target of below.get(item)) {
      waiting.set(target, waiting.get(target) - 1);
      if (waiting.get(target) === 0) ready.push(target);
    }
  }
  for (const item of items) {
    if (above.get(item).length === 0) layer.set(item, Math.min(...below.get(item).map((each) => layer.get(each))) - 1);
  }
  const rows = [];
  for (const item of items) (rows[layer.get(item)] ??= []).push(item);
  return rows.filter(Boolean);
}

/**
 * Add an item without a label to each layer that an edge passes, so that edges do not cross other items. The edges from one item
 * share them: they leave its line at the layer of their target. Replaces these edges in `below` and `above`.
 */
function routeLong(layers, edges, below, above) {
  const layer = new Map(layers.flatMap((row, index) => row.map((item) => [item, index])));
  const last = new Map(); // an item's farthest target
  for (const edge of edges) {
    edge.route = [];
    if (layer.get(edge.to) > layer.get(edge.from)) last.set(edge.from, Math.max(last.get(edge.from) ?? 0, layer.get(edge.to)));
  }
  const needed = [...last].reduce((sum, [item, end]) => sum + end - layer.get(item) - 1, 0);
  if (needed > MOST_BENDS) return;
  const bends = new Map();
  for (const [item, end] of last) {
    const own = [];
    for (let index = layer.get(item) + 1; index < end; index++) {
      const bend = new Item("", null);
      bend.width = BEND;
      below.set(bend, []);
      above.set(bend, []);
      layers[index].push(bend);
      own.push(bend);
    }
    bends.set(item, own);
  }
  for (const item of last.keys()) {
    const targets = below.get(item);
    below.set(item, []);
    const chain = [item, ...bends.get(item)];
    const connect = (from, to) => {
      below.get(from).push(to);
      above.get(to).push(from);
    };
    for (let index = 1; index < chain.length; index++) connect(chain[index - 1], chain[index]);
    for (const target of targets) {
      above.set(target, above.get(target).filter((each) => each !== item));
      connect(chain[layer.get(target) - layer.get(item) - 1], target);
    }
  }
  for (const edge of edges) {
    const span = layer.get(edge.to) - layer.get(edge.from);
    if (span > 1) edge.route = bends.get(edge.from).slice(0, span - 1);
  }
}

function orderRows(rows, above, below) {
  const position = new Map();
  const number = (row) => row.forEach((item, index) => position.set(item, (index + 0.5) / row.length));
  rows.forEach(number);
  for (let sweep = 0; sweep < 6; sweep++) {
    const neighbours = sweep % 2 ? below : above;
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const mean = new Map(row.map((item) => {
        const near = neighbours.get(item);
        return [item, near.length ? near.reduce((sum, each) => sum + position.get(each), 0) / near.length : position.get(item)];
      }));
      row.sort((a, b) => mean.get(a) - mean.get(b));
      number(row);
    }
  }
  return rows;
}

const widthOf = (row) => row.reduce((sum, item) => sum + item.width + GAP, -GAP);

function splitWide(rows) {
  return rows.flatMap((row) => {
    const parts = Math.ceil(widthOf(row) / WIDEST_ROW);
    const size = Math.ceil(row.length / Math.max(parts, 1));
    return Array.from({ length: Math.ceil(row.length / size) }, (_, part) => row.slice(part * size, (part + 1) * size));
  });
}

function pack(row) {
  let x = -widthOf(row) / 2;
  for (const item of row) {
    item.x = x;
    x += item.width + GAP;
  }
}

const middle = (item) => item.x + item.width / 2;

/** Move items towards the mean of their neighbours without changing their order: the mean of a pass from each side. */
function alignRows(rows, above, below) {
  rows.forEach(pack);
  for (let sweep = 0; sweep < 8; sweep++) {
    const neighbours = sweep % 2 ? below : above;
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const wanted = row.map((item) => {
        const near = neighbours.get(item);
        return near.length ? near.reduce((sum, each) => sum + middle(each), 0) / near.length - item.width / 2 : item.x;
      });
      const fromLeft = [...wanted];
      for (let i = 1; i < row.length; i++) fromLeft[i] = Math.max(wanted[i], fromLeft[i - 1] + row[i - 1].width + GAP);
      const fromRight = [...wanted];
      for (let i = row.length - 2; i >= 0; i--) fromRight[i] = Math.min(wanted[i], fromRight[i + 1] - row[i].width - GAP);
      row.forEach((item, i) => (item.x = (fromLeft[i] + fromRight[i]) / 2));
    }
  }
}

function stack(rows) {
  const left = Math.min(...rows.flat().map((item) => item.x), 0);
  let y = 0;
  let right = 0;
  for (const row of rows) {
    const height = Math.max(...row.map((item) => item.height));
    for (const item of row) {
      item.x -= left;
      item.y = y + (height - item.height) / 2;
      right = Math.max(right, item.x + item.width);
    }
    y += height + LAYER_GAP;
  }
  return { width: right, height: Math.max(y - LAYER_GAP, 0) };
}
