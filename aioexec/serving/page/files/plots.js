/* A line plot over the last two minutes: SVG, with a sentence for screen readers. */

import { html, number, svg } from "./dom.js";

const SECONDS = 120;
const HEIGHT = 116;
const MARGIN = { left: 40, right: 6, top: 8, bottom: 18 };

/** The least of 1, 2, 5 times a power of ten that is no less than the value. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((digit) => digit * power).find((bound) => bound >= value * 0.999999);
}

export class Plot {
  /**
   * @param figure the element to fill
   * @param title what is plotted
   * @param unit of the values
   * @param least the least end of the axis
   * @param series the names of the lines; the first one is the large number of the caption
   */
  constructor(figure, title, unit, least, series) {
    this.title = title;
    this.unit = unit;
    this.least = least;
    this.series = series;
    this.samples = []; // {at: seconds, values: a number or null for each series}, oldest first
    this.now = html("b", {});
    this.name = html("span", { class: "name" });
    this.also = html("span", { class: "also" });
    this.drawing = svg("svg", { role: "img", height: HEIGHT });
    figure.append(
      html("figcaption", {}, html("span", { class: "plot-title" }, title), html("span", { class: "plot-now" }, this.now, this.name, this.also)),
      this.drawing,
    );
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  add(at, values) {
    this.samples.push({ at, values });
    while (this.samples[0].at < at - SECONDS) this.samples.shift();
    this.draw();
  }

  draw() {
    const width = this.drawing.parentElement.clientWidth - 32;
    if (width <= 0) return;
    const last = this.samples.at(-1);
    const known = this.samples.flatMap((sample) => sample.values).filter((value) => value !== null);
    const most = roundUp(Math.max(...known, this.least));
    const right = last ? last.at : 0;
    const x = (at) => MARGIN.left + (1 - (right - at) / SECONDS) * (width - MARGIN.left - MARGIN.right);
    const y = (value) => HEIGHT - MARGIN.bottom - (value / most) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    this.drawing.setAttribute("width", width);
    this.drawing.replaceChildren(...this.grid(width, most, x, y), ...this.series.map((_, index) => this.line(index, x, y)).reverse());
    this.describe(last, most);
  }

  grid(width, most, x, y) {
    const lines = [0, 0.5, 1].flatMap((share) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(share * most), y2: y(share * most) }),
      svg("text", { class: "tick", x: MARGIN.left - 6, y: y(share * most) + 3.5, "text-anchor": "end" }, number(share * most)),
    ]);
    const right = this.samples.at(-1)?.at ?? 0;
    const ticks = [[-SECONDS, "2 min ago", "start"], [-SECONDS / 2, "1 min", "middle"], [0, "now", "end"]];
    return [...lines, ...ticks.map(([at, text, anchor]) =>
      svg("text", { class: "tick", x: x(right + at), y: HEIGHT - 3, "text-anchor": anchor }, text))];
  }

  line(index, x, y) {
    let path = "";
    let open = false; // whether the previous sample has a value
    for (const { at, values } of this.samples) {
      const value = values[index];
      if (value !== null) path += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      if (value !== null && !open) path += "h0.01"; // a dot, by the line's round ends: a single value is visible
      open = value !== null;
    }
    return svg("path", { class: `line line-${index}`, d: path });
  }

  describe(last, most) {
    const texts = last
      ? this.series.map((name, index) => [name, last.values[index] === null ? "–" : `${number(last.values[index])} ${this.unit}`])
      : [];
    this.now.textContent = texts.length ? texts[0][1] : "–";
    this.name.textContent = this.series[0];
    this.also.textContent = texts.slice(1).map(([name, text]) => `${name} ${text}`).join(", ");
    const said = texts.map((pair) => pair.filter(Boolean).join(" ")).join(", ");
    this.drawing.setAttribute("aria-label", `${this.title} of the last two minutes; now ${said || "unknown"}; the axis ends at ${number(most)} ${this.unit}`);
  }
}
