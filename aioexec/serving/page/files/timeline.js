/* The timeline of a step: a lane for each concurrent node of a device, and a table of the longest nodes. */

import { duration, html, svg } from "./dom.js";

const LANE = 22;
const LEFT = 8;
const TOP = 26;
const MOST_BARS = 4000;
const LONGEST = 12;

/** Show the events of Chrome's trace format. */
export function showTimeline(panel, events) {
  if (!events) {
    panel.replaceChildren(html("p", { class: "empty" },
      "No step is recorded yet. Choose ", html("b", {}, "Run and record a timeline"), " in the form."));
    return;
  }
  const nodes = events.filter((event) => event.ph === "X").sort((a, b) => b.dur - a.dur);
  const devices = new Map(events.filter((event) => event.name === "process_name").map((event) => [event.pid, event.args.name]));
  const view = new Timeline(nodes.slice(0, MOST_BARS), devices);
  const left = nodes.length > MOST_BARS ? `; the ${MOST_BARS} longest are drawn` : "";
  panel.replaceChildren(
    html("p", { class: "summary" }, `The last recorded step: ${nodes.length} nodes in ${duration(view.end)}${left}.`),
    view.element,
    tableOf(nodes.slice(0, LONGEST), devices));
  view.draw();
}

function tableOf(nodes, devices) {
  const head = ["Node", "Op", "Device", "Start", "Duration"].map((title) => html("th", { scope: "col" }, title));
  const rows = nodes.map((node) => html("tr", {},
    html("th", { scope: "row" }, node.args.name), html("td", {}, node.args.op), html("td", {}, deviceOf(node, devices)),
    html("td", { class: "figure" }, duration(node.ts)), html("td", { class: "figure" }, duration(node.dur))));
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The longest nodes" },
    html("table", {}, html("caption", {}, "The longest nodes"), html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...rows)));
}

function deviceOf(node, devices) {
  return (devices.get(node.pid) ?? "").replace(/ Compute$/, "").replace(/^.*\/device:/, "");
}

/** A stable hue for an op's name. */
export function hueOf(op) {
  let hash = 7;
  for (const letter of op) hash = (hash * 31 + letter.charCodeAt(0)) % 3600;
  return hash / 10;
}

class Timeline {
  constructor(nodes, devices) {
    this.nodes = nodes;
    this.devices = devices;
    this.end = Math.max(...nodes.map((node) => node.ts + node.dur), 1);
    this.from = 0; // the microseconds at the left edge
    this.to = this.end;
    this.lanes = [...new Set(nodes.map((node) => `${node.pid}/${node.tid}`))].sort(
      (a, b) => a.localeCompare(b, "en", { numeric: true }));
    this.drawing = svg("svg", { role: "img", height: TOP + this.lanes.length * LANE + 6, "aria-label":
      `Timeline of ${nodes.length} nodes in ${this.lanes.length} lanes, ${duration(this.end)}` });
    const button = (text, label, act) => html("button", { type: "button", class: "small", "aria-label": label, onclick: act }, text);
    this.frame = html("div", { class: "timeline", tabindex: "0", role: "group",
      "aria-label": "Timeline; plus and minus zoom, arrow keys move, 0 shows all" }, this.drawing);
    this.element = html("div", {}, html("div", { class: "tools" },
      button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)), button("All", "Show all", () => this.zoom(Infinity))), this.frame);
    this.frame.addEventListener("keydown", (event) => this.onKey(event));
    this.frame.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.frame.addEventListener("pointerdown", (event) => this.onDrag(event));
    new ResizeObserver(() => this.draw()).observe(this.frame);
  }

  draw() {
    const width = this.frame.clientWidth - 2;
    if (width <= 0) return;
    this.width = width;
    this.drawing.setAttribute("width", width);
    const scale = (width - 2 * LEFT) / (this.to - this.from);
    const x = (at) => LEFT + (at - this.from) * scale;
    const shown = this.nodes.filter((node) => node.ts + node.dur >= this.from && node.ts <= this.to);
    this.drawing.replaceChildren(...this.ticks(x), ...shown.map((node) => this.bar(node, x, scale)));
  }

  ticks(x) {
    return [0, 0.25, 0.5, 0.75, 1].flatMap((share) => {
      const at = this.from + share * (this.to - this.from);
      const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
      return [svg("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP - 6, y2: TOP + this.lanes.length * LANE }),
        svg("text", { class: "tick", x: x(at), y: 13, "text-anchor": anchor }, duration(at))];
    });
  }

  bar(node, x, scale) {
    const y = TOP + this.lanes.indexOf(`${node.pid}/${node.tid}`) * LANE;
    const left = Math.max(x(node.ts), 0);
    const width = Math.max(Math.min(x(node.ts + node.dur), this.width) - left, 1);
    const label = node.args.name.split("/").at(-1);
    const letters = Math.floor((width - 8) / 6.2);
    const group = svg("g", { class: "bar" },
      svg("title", {}, `${node.args.name} (${node.args.op}) on ${deviceOf(node, this.devices)}: ${duration(node.dur)} from ${duration(node.ts)}`),
      svg("rect", { x: left, y, width, height: LANE - 4, rx: Math.min(3, width / 2) }));
    group.style.setProperty("--hue", hueOf(node.args.op));
    if (letters >= 3) {
      const text = label.length > letters ? `${label.slice(0, letters - 1)}…` : label;
      group.append(svg("text", { x: left + 5, y: y + 13 }, text));
    }
    return group;
  }

  /** Show `factor` times the time, around a point given as a share of the width. */
  zoom(factor, around = 0.5) {
    const span = Math.min(Math.max((this.to - this.from) * factor, this.end / 5000), this.end);
    const at = this.from + around * (this.to - this.from);
    this.show(at - around * span, span);
  }

  show(from, span) {
    this.from = Math.min(Math.max(from, 0), this.end - span);
    this.to = this.from + span;
    this.draw();
  }

  onKey(event) {
    const span = this.to - this.from;
    const act = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.zoom(Infinity),
      ArrowLeft: () => this.show(this.from - span / 8, span), ArrowRight: () => this.show(this.from + span / 8, span),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  onWheel(event) {
    if (!event.ctrlKey && document.activeElement !== this.frame) return; // the page scrolls
    event.preventDefault();
    const box = this.drawing.getBoundingClientRect();
    this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, (event.clientX - box.left) / box.width);
  }

  onDrag(start) {
    const { from, to } = this;
    const move = (event) => this.show(from - (event.clientX - start.clientX) / this.width * (to - from), to - from);
    this.frame.setPointerCapture(start.pointerId);
    this.frame.addEventListener("pointermove", move);
    this.frame.addEventListener("pointerup", () => this.frame.removeEventListener("pointermove", move), { once: true });
  }
}
