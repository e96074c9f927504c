/* The drawing of a graph: pan, zoom, scopes that open, a search, and the details of the selected item. */

import { html, number, svg } from "./dom.js";
import { addEdges, layOut, shownEdges, shownFor, treeOf } from "./graph_layout.js";

const MOST_LISTED = 12;
const SMALLEST = 0.05;
const LARGEST = 3;
const READABLE = 0.8; // the least scale of a node that was looked for

/**
 * Show the nodes of a graph.
 *
 * @param rows [name, op, device, indices of inputs, indices of control inputs, outputs as text] of each node
 * @param outputs the names of the tensors that the signature fetches
 */
export function showGraph(panel, rows, outputs) {
  const nodes = rows.map(([name, op, device, inputs, controls, outputs], index) =>
    ({ index, name, op, device, inputs, controls, outputs, readers: [] }));
  for (const node of nodes) for (const input of new Set(node.inputs)) nodes[input].readers.push(node.index);
  new GraphView(panel, nodes, neededFor(nodes, outputs));
}

/** The nodes that a step of the signature may run: those that its outputs depend on. */
function neededFor(nodes, outputs) {
  const names = new Set(outputs.map((tensor) => tensor.split(":")[0]));
  const needed = new Set(nodes.filter((node) => names.has(node.name)));
  for (const node of needed) for (const input of [...node.inputs, ...node.controls]) needed.add(nodes[input]);
  return needed;
}

class GraphView {
  constructor(panel, nodes, needed) {
    this.nodes = nodes;
    this.needed = needed;
    this.scale = 1;
    this.left = this.top = 0; // where the drawing's corner is in the frame, in pixels
    this.selected = null;
    this.elements = new Map(); // shown item -> its element
    this.openLayer = svg("g", {}); // open scopes are below the edges, other items above
    this.edgeLayer = svg("g", {});
    this.itemLayer = svg("g", {});
    this.drawing = svg("g", {}, this.openLayer, this.edgeLayer, this.itemLayer);
    this.frame = svg("svg", { class: "graph", role: "group", "aria-label": "Graph", "aria-describedby": "graph-help" }, this.drawing);
    this.details = html("div", { class: "details", "aria-live": "polite" });
    this.results = html("ul", { class: "results", "aria-label": "Nodes found" });
    panel.replaceChildren(this.tools(), html("div", { class: "graph-columns" }, this.frame, html("aside", { "aria-label": "Details" }, this.results, this.details)));
    this.listen();
    this.build();
  }

  tools() {
    const button = (text, label, act) => html("button", { type: "button", class: "small", "aria-label": label, onclick: act }, text);
    const search = html("input", { type: "search", id: "graph-search", placeholder: "Find a node", "aria-label": "Find a node" });
    search.addEventListener("input", () => this.search(search.value));
    search.addEventListener("keydown", (event) => event.key === "Enter" && this.results.querySelector("button")?.click());
    this.constants = html("input", { type: "checkbox", id: "graph-constants", onchange: () => this.build() });
    this.whole = html("input", { type: "checkbox", id: "graph-whole", onchange: () => this.build() });
    return html("div", { class: "tools" }, search,
      button("+", "Zoom in", () => this.zoom(1.3)), button("−", "Zoom out", () => this.zoom(1 / 1.3)),
      button("Fit", "Fit the graph into the frame", () => this.fit()), button("Close all", "Close all scopes", () => this.closeAll()),
      html("label", { for: "graph-constants" }, this.constants, " Constants"),
      html("label", { for: "graph-whole" }, this.whole, " Nodes that the signature does not need"),
      html("p", { id: "graph-help", class: "also" }, "Enter opens a scope, Escape closes it, arrow keys move, + and − zoom, drag to pan."));
  }

  build() {
    const keep = (node) => (this.whole.checked || this.needed.has(node)) && (this.constants.checked || node.op !== "Const");
    this.kept = this.nodes.filter(keep).length;
    const { root, leaves } = treeOf(this.nodes, keep);
    this.root = root;
    this.leaves = leaves;
    this.edges = this.nodes.flatMap((node) => [
      ...node.inputs.map((input) => ({ from: leaves[input], to: leaves[node.index], control: false })),
      ...node.controls.map((input) => ({ from: leaves[input], to: leaves[node.index], control: true })),
    ]).filter(({ from, to }) => from && to);
    addEdges(this.edges);
    if (root.children.length === 1) root.children[0].open = true;
    this.selected = null;
    this.draw();
    this.fit();
    this.describe();
  }

  // Drawing

  draw() {
    layOut(this.root);
    this.elements.clear();
    this.openLayer.replaceChildren();
    this.itemLayer.replaceChildren();
    for (const child of this.root.children) this.drawItem(child, this.root.x, this.root.y);
    this.placeBends(this.root, this.root.x, this.root.y);
    this.edgeLayer.replaceChildren(...shownEdges(this.edges).map((edge) => this.drawEdge(edge)));
    this.mark();
  }

  drawItem(item, left, top) {
    item.absolute = { x: left + item.x, y: top + item.y };
    const { x, y } = item.absolute;
    const kind = item.isScope ? (item.open ? "scope open" : "scope") : `node ${kindOf(this.nodes[item.node])}`;
    const letters = item.open ? 40 : 26;
    const label = item.label.length > letters ? `${item.label.slice(0, letters - 1)}…` : item.label;
    const element = svg("g", {
      class: kind, tabindex: "-1", role: "button", "aria-label": this.spoken(item), "aria-expanded": item.isScope ? String(item.open) : null,
    }, svg("title", {}, item.path), svg("rect", { x, y, width: item.width, height: item.height, rx: item.isScope ? 7 : 14 }));
    const middle = item.open ? y + 20 : y + item.height / 2 + 4;
    element.append(item.isScope
      ? svg("text", { x: x + 12, y: middle }, `${item.open ? "▾" : "▸"} ${label}`)
      : svg("text", { x: x + item.width / 2, y: middle, "text-anchor": "middle" }, label));
    if (item.isScope) element.append(svg("text", { class: "count", x: x + item.width - 10, y: middle, "text-anchor": "end" }, String(item.count)));
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      if (this.dragged) return;
      if (item.isScope) this.toggle(item);
      else this.select(item);
    });
    element.addEventListener("focus", () => this.select(item));
    this.elements.set(item, element);
    (item.open ? this.openLayer : this.itemLayer).append(element);
    if (!item.open) return;
    for (const child of item.children) this.drawItem(child, x, y);
    this.placeBends(item, x, y);
  }

  placeBends(scope, left, top) {
    for (const { route } of scope.edges.values()) {
      for (const bend of route) bend.absolute = { x: left + bend.x, y: top + bend.y };
    }
  }

  drawEdge({ from, to, count, control, route }) {
    const points = [[from.absolute.x + from.width / 2, from.absolute.y + from.height],
      ...route.flatMap((bend) => [0, bend.height].map((down) => [bend.absolute.x + bend.width / 2, bend.absolute.y + down])),
      [to.absolute.x + to.width / 2, to.absolute.y]];
    let d = `M${points[0].join(" ")}`;
    for (let index = 1; index < points.length; index++) {
      const [[x1, y1], [x2, y2]] = [points[index - 1], points[index]];
      const bend = Math.max(Math.abs(y2 - y1) / 2, y2 < y1 ? 40 : 0);
      d += x1 === x2 ? `L${x2} ${y2}` : `C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
    }
    const path = svg("path", { class: control ? "edge control" : "edge", "stroke-width": Math.min(1.2 + Math.log2(count) * 0.7, 5), d });
    path.ends = [from, to];
    return path;
  }

  /** Set the classes of the selected item and its edges; the selected item is the tab stop. */
  mark() {
    const stop = this.elements.has(this.selected) ? this.selected : this.root.children[0];
    for (const [item, element] of this.elements) {
      element.tabIndex = item === stop ? 0 : -1;
      element.classList.toggle("selected", item === this.selected);
    }
    for (const path of this.edgeLayer.children) path.classList.toggle("marked", path.ends.includes(this.selected));
  }

  move() {
    this.drawing.setAttribute("transform", `translate(${this.left} ${this.top}) scale(${this.scale})`);
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.frame;
    if (width === 0) return;
    this.scale = Math.min(Math.max(Math.min(width / this.root.width, height / this.root.height), 0.25), 1.15);
    this.left = (width - this.root.width * this.scale) / 2;
    this.top = Math.max((height - this.root.height * this.scale) / 2, 0);
    this.move();
  }

  zoom(factor, x = this.frame.clientWidth / 2, y = this.frame.clientHeight / 2) {
    const scale = Math.min(Math.max(this.scale * factor, SMALLEST), LARGEST);
    this.left = x - (x - this.left) * scale / this.scale;
    this.top = y - (y - this.top) * scale / this.scale;
    this.scale = scale;
    this.move();
  }

  /** Move the drawing so that an item is inside the frame. */
  reveal(item) {
    const inside = (at, size, start, frame) => {
      const low = at * this.scale + start;
      const high = low + size * this.scale;
      return low < 12 ? 12 - low : high > frame - 12 ? Math.max(frame - 12 - high, 12 - low) : 0;
    };
    this.left += inside(item.absolute.x, item.width, this.left, this.frame.clientWidth);
    this.top += inside(item.absolute.y, item.height, this.top, this.frame.clientHeight);
    this.move();
  }

  // Actions

  select(item) {
    if (this.selected === item) return;
    this.selected = item;
    this.mark();
    this.describe();
  }

  /** Open or close a scope. The drawing is centred if it fits into the frame; otherwise the scope's corner stays where it is. */
  toggle(scope) {
    const before = scope.absolute;
    scope.open = !scope.open;
    this.draw();
    const right = this.frame.clientWidth - this.root.width * this.scale;
    const bottom = this.frame.clientHeight - this.root.height * this.scale;
    if (right >= 0 && bottom >= 0) [this.left, this.top] = [right / 2, bottom / 2];
    else {
      this.left += (before.x - scope.absolute.x) * this.scale;
      this.top += (before.y - scope.absolute.y) * this.scale;
    }
    this.move();
    this.focus(scope);
  }

  focus(item) {
    this.select(item);
    this.mark();
    this.elements.get(item).focus({ preventScroll: true });
    if (!item.open) this.reveal(item);
  }

  closeAll() {
    const close = (item) => {
      item.open = false;
      item.children.forEach(close);
    };
    this.root.children.forEach(close);
    this.selected = null;
    this.draw();
    this.fit();
    this.describe();
  }

  /** Open the scopes around a node, select it, and move it into the frame. */
  goTo(index) {
    if (!this.leaves[index]) {
      this.constants.checked ||= this.nodes[index].op === "Const";
      this.whole.checked ||= !this.needed.has(this.nodes[index]);
      this.build();
    }
    const leaf = this.leaves[index];
    for (const item of leaf.within()) if (item !== leaf) item.open = true;
    this.draw();
    this.scale = Math.max(this.scale, READABLE);
    this.left = this.frame.clientWidth / 2 - (leaf.absolute.x + leaf.width / 2) * this.scale;
    this.top = this.frame.clientHeight / 2 - (leaf.absolute.y + leaf.height / 2) * this.scale;
    this.move();
    this.focus(leaf);
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    const found = wanted ? this.nodes.filter((node) => node.name.toLowerCase().includes(wanted) || node.op.toLowerCase() === wanted) : [];
    found.sort((a, b) => Number(!this.leaves[a.index]) - Number(!this.leaves[b.index])); // those that are drawn first
    const items = found.slice(0, MOST_LISTED).map((node) => html("li", {}, this.link(node.index)));
    if (wanted && !found.length) items.push(html("li", {}, "No node has this name"));
    if (found.length > MOST_LISTED) items.push(html("li", { class: "also" }, `and ${number(found.length - MOST_LISTED)} more`));
    this.results.replaceChildren(...items);
  }

  link(index) {
    const { name, op } = this.nodes[index];
    return html("button", { type: "button", class: "link", onclick: () => this.goTo(index) }, name, html("span", { class: "also" }, op));
  }

  // Text

  spoken(item) {
    return item.isScope ? `Scope ${item.path}, ${item.count} nodes` : `${this.nodes[item.node].op} ${item.path}`;
  }

  describe() {
    const item = this.selected;
    if (item === null) {
      this.details.replaceChildren(html("p", {}, `${number(this.kept)} of ${number(this.nodes.length)} nodes. Select one to see its op, device, inputs and readers.`), legend());
    } else if (item.isScope) this.describeScope(item);
    else this.describeNode(this.nodes[item.node]);
  }

  describeScope(scope) {
    const counts = new Map();
    const visit = (item) => {
      if (!item.isScope) counts.set(this.nodes[item.node].op, (counts.get(this.nodes[item.node].op) ?? 0) + 1);
      item.children.forEach(visit);
    };
    visit(scope);
    const ops = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST_LISTED);
    this.details.replaceChildren(html("h3", {}, scope.path), html("p", {}, `Scope of ${number(scope.count)} nodes`),
      html("dl", {}, ...ops.flatMap(([op, count]) => [html("dt", {}, op), html("dd", {}, number(count))])));
  }

  describeNode(node) {
    const list = (title, indices) => indices.length === 0 ? [] : [html("h4", {}, title),
      html("ul", {}, ...[...new Set(indices)].slice(0, MOST_LISTED).map((index) => html("li", {}, this.link(index))),
        ...(indices.length > MOST_LISTED ? [html("li", { class: "also" }, `and ${number(indices.length - MOST_LISTED)} more`)] : []))];
    this.details.replaceChildren(html("h3", {}, node.name),
      html("dl", {}, html("dt", {}, "Op"), html("dd", {}, node.op), html("dt", {}, "Device"), html("dd", {}, node.device || "any"),
        ...node.outputs.flatMap((text, index) => [html("dt", {}, `Output ${index}`), html("dd", {}, text)])),
      ...list("Inputs", node.inputs), ...list("Control inputs", node.controls), ...list("Readers", node.readers));
  }

  // Events

  listen() {
    this.frame.addEventListener("keydown", (event) => this.onKey(event));
    this.frame.addEventListener("pointerdown", (event) => this.onDrag(event));
    this.frame.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !this.frame.contains(document.activeElement)) return; // the page scrolls
      event.preventDefault();
      const box = this.frame.getBoundingClientRect();
      this.zoom(event.deltaY > 0 ? 1 / 1.15 : 1.15, event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    new ResizeObserver(() => this.fit()).observe(this.frame); // also when a hidden panel is shown
  }

  onKey(event) {
    const item = [...this.elements].find(([, element]) => element === document.activeElement)?.[0];
    if (!item) return;
    const act = {
      Enter: () => item.isScope && this.toggle(item), " ": () => item.isScope && this.toggle(item), Escape: () => this.closeAround(item),
      ArrowUp: () => this.step(item, 0, -1), ArrowDown: () => this.step(item, 0, 1),
      ArrowLeft: () => this.step(item, -1, 0), ArrowRight: () => this.step(item, 1, 0),
      "+": () => this.zoom(1.3), "=": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3), 0: () => this.fit(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  closeAround(item) {
    const scope = item.isScope && item.open ? item : item.parent;
    if (scope === this.root) return;
    scope.open = true;
    this.toggle(scope);
  }

  /** Focus the nearest item in a direction: distance counts, and twice as much across the direction. */
  step(item, dx, dy) {
    const centre = (each) => [each.absolute.x + each.width / 2, each.absolute.y + (each.open ? 15 : each.height / 2)];
    const [x, y] = centre(item);
    let best = null;
    let least = Infinity;
    for (const other of this.elements.keys()) {
      const [ox, oy] = centre(other);
      const along = (ox - x) * dx + (oy - y) * dy;
      const cost = along + 2 * Math.abs((ox - x) * dy + (oy - y) * dx);
      if (along > 1 && cost < least) [best, least] = [other, cost];
    }
    if (best) this.focus(shownFor(best));
  }

  onDrag(start) {
    const { left, top } = this;
    this.dragged = false;
    const move = (event) => {
      const [dx, dy] = [event.clientX - start.clientX, event.clientY - start.clientY];
      if (Math.hypot(dx, dy) > 4 && !this.dragged) {
        this.dragged = true;
        this.frame.setPointerCapture(start.pointerId);
      }
      if (!this.dragged) return;
      this.left = left + dx;
      this.top = top + dy;
      this.move();
    };
    this.frame.addEventListener("pointermove", move);
    const end = () => this.frame.removeEventListener("pointermove", move);
    this.frame.addEventListener("pointerup", end, { once: true });
    this.frame.addEventListener("pointercancel", end, { once: true });
  }
}

function kindOf({ op }) {
  if (op.startsWith("Placeholder")) return "placeholder";
  if (/^(Variable|VarHandle)/.test(op)) return "variable";
  return op === "Const" ? "constant" : "";
}

function legend() {
  const row = (kind, text) => html("li", {}, html("span", { class: `swatch ${kind}` }), text);
  return html("ul", { class: "legend", "aria-label": "Colours" }, row("scope", "scope, with its number of nodes"),
    row("placeholder", "placeholder"), row("variable", "variable"), row("other", "other node"));
}
