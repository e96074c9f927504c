/* The form of a signature: a field for each input, and the answer below. */

import { html, number, shape } from "./dom.js";
import { postJson } from "./requests.js";
import { drawImage, exampleText, imageForm, isText, pixelsOf, random, valueOfFile, zeros } from "./values.js";

const LONGEST_ANSWER = 4000; // characters shown of an output
const MOST_BARS = 32;

/**
 * Fill the panel with the form of a signature.
 *
 * @param choice {model, version, signature, name}: the signature and its name
 * @param onTimeline called with the events of a step that was traced
 */
export function showForm(panel, choice, onTimeline) {
  const fields = Object.entries(choice.signature.inputs).map(([name, tensor], index) => new Field(`input-${index}`, name, tensor));
  const answer = html("section", { class: "answer", id: "answer", "aria-live": "polite", "aria-label": "Answer" });
  const run = html("button", { class: "primary", type: "submit", id: "run" }, "Run");
  const trace = html("button", { type: "submit", id: "run-traced", disabled: !choice.signature.traceable }, "Run and record a timeline");
  const form = html("form", { class: "try", novalidate: true }, ...fields.map((field) => field.element),
    html("div", { class: "buttons" }, run, trace), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const traced = event.submitter === trace;
    form.setAttribute("aria-busy", "true");
    run.disabled = trace.disabled = true;
    try {
      await submit(choice, fields, answer, traced ? onTimeline : null);
    } finally {
      form.removeAttribute("aria-busy");
      run.disabled = false;
      trace.disabled = !choice.signature.traceable;
    }
  });
  panel.replaceChildren(form);
}

async function submit(choice, fields, answer, onTimeline) {
  for (const field of fields) field.showError("");
  const inputs = {};
  for (const field of fields) {
    try {
      inputs[field.name] = field.value();
    } catch (error) {
      field.showError(error.message);
      field.focus();
      return;
    }
  }
  const body = JSON.stringify({ signature_name: choice.name, inputs });
  const started = performance.now();
  try {
    const path = `models/${encodeURIComponent(choice.model)}/versions/${choice.version}`;
    const reply = await postJson(onTimeline ? `page/${path}/trace` : `v1/${path}:predict`, body);
    const milliseconds = performance.now() - started;
    const names = Object.keys(choice.signature.outputs);
    // The REST interface replies with the value itself if a signature has one output.
    const outputs = onTimeline || names.length > 1 ? reply.outputs : { [names[0]]: reply.outputs };
    answer.replaceChildren(...answerOf(choice, outputs, milliseconds), requestOf(path, body));
    onTimeline?.(reply.timeline);
  } catch (error) {
    answer.replaceChildren(html("p", { class: "error", role: "alert" }, error.message));
  }
}

function answerOf(choice, outputs, milliseconds) {
  return [
    html("h3", {}, "Answer", html("span", { class: "also" }, `${number(milliseconds)} ms with the network`)),
    ...Object.entries(choice.signature.outputs).map(([name, tensor]) => outputOf(name, tensor, outputs[name])),
  ];
}

function outputOf(name, tensor, value) {
  const text = JSON.stringify(value);
  const shown = text.length > LONGEST_ANSWER ? `${text.slice(0, LONGEST_ANSWER)}… (${number(text.length)} characters)` : text;
  return html("div", { class: "output" },
    html("h4", {}, name, html("span", { class: "type" }, `${tensor.dtype} ${shape(dimsOf(value))}`)),
    ...barsOf(value),
    html("pre", { tabindex: "0", "aria-label": `Value of ${name}`, "data-output": name }, shown));
}

function dimsOf(value) {
  return Array.isArray(value) ? [value.length, ...(value.length ? dimsOf(value[0]) : [])] : [];
}

/** Bars for one row of numbers between 0 and 1, such as the probabilities of classes. */
function barsOf(value) {
  const row = Array.isArray(value) && value.length === 1 ? value[0] : value;
  const fits = Array.isArray(row) && row.length > 1 && row.length <= MOST_BARS;
  if (!fits || !row.every((share) => typeof share === "number" && share >= 0 && share <= 1)) return [];
  const most = Math.max(...row);
  return [html("ol", { class: "bars", start: "0" }, ...row.map((share, index) =>
    html("li", { class: share === most ? "most" : "" },
      html("span", { class: "bar-index" }, String(index)),
      trackOf(share),
      html("span", {}, share > 0 && share < 0.001 ? "< 0.001" : share.toFixed(3)))))];
}

function trackOf(share) {
  const filled = html("span", {});
  filled.style.width = `${share * 100}%`;
  return html("span", { class: "track", "aria-hidden": "true" }, filled);
}

function requestOf(path, body) {
  const shortened = body.length > 600 ? `${body.slice(0, 600)}…` : body;
  const url = new URL(`v1/${path}:predict`, document.baseURI);
  return html("details", {}, html("summary", {}, "The same request on the command line"),
    html("pre", { tabindex: "0" }, `curl ${url} -d '${shortened.replaceAll("'", "'\\''")}'`));
}

/** The field of one input. Its value comes from the text, or from the image or file chosen last. */
class Field {
  constructor(id, name, tensor) {
    this.name = name;
    this.tensor = tensor;
    this.image = imageForm(tensor);
    this.chosen = null; // a function that returns the value of the chosen image or file; null: the text counts
    this.text = html("textarea", { id, rows: "3", spellcheck: "false", "aria-describedby": `${id}-type ${id}-error` });
    this.text.value = exampleText(tensor);
    this.text.addEventListener("input", () => this.choose(null));
    this.error = html("p", { class: "error", id: `${id}-error`, role: "alert" });
    this.note = html("span", { class: "also", role: "status" });
    this.element = html("fieldset", { class: "field" },
      html("legend", {}, name, html("span", { class: "type", id: `${id}-type` }, `${tensor.dtype} ${shape(tensor.shape)}`)),
      ...(this.image ? [this.imageChooser(id)] : []),
      html("label", { class: "hidden", for: id }, `${name}, as JSON`), this.text,
      html("div", { class: "fills" },
        html("button", { type: "button", class: "small", onclick: () => this.fill(zeros) }, isText(tensor) ? "Empty" : "Zeros"),
        html("button", { type: "button", class: "small", onclick: () => this.fill(random) }, "Random"),
        this.fileChooser(id), this.note),
      this.error);
  }

  fill(make) {
    this.text.value = JSON.stringify(make(this.tensor));
    this.choose(null);
  }

  choose(value, note = "") {
    this.chosen = value;
    this.note.textContent = note;
    this.text.classList.toggle("unused", value !== null);
  }

  fileChooser(id) {
    const accept = isText(this.tensor) ? null : ".json,.npy";
    const file = html("input", { type: "file", id: `${id}-file`, class: "hidden-file", accept });
    file.addEventListener("change", () => this.take(file, async (chosen) => {
      const value = await valueOfFile(chosen, this.tensor);
      this.choose(() => value, `${chosen.name} is sent`);
    }));
    return html("span", {}, file, html("label", { class: "button small", for: file.id }, "File…"));
  }

  imageChooser(id) {
    const canvas = html("canvas", { class: "preview", role: "img", "aria-label": `Image for ${this.name}, as it is sent`, hidden: true });
    const file = html("input", { type: "file", id: `${id}-image`, class: "hidden-file", accept: "image/*" });
    const scale = html("select", { id: `${id}-scale` }, ...this.image.scales.map((name) => html("option", {}, name)));
    file.addEventListener("change", () => this.take(file, async (chosen) => {
      await drawImage(chosen, this.image, canvas);
      canvas.hidden = false;
      this.choose(() => pixelsOf(canvas, this.image, scale.value), `${chosen.name} is sent, ${canvas.width} × ${canvas.height}`);
    }));
    return html("div", { class: "image" }, canvas,
      html("div", {}, file, html("label", { class: "button", for: file.id }, "Choose an image…"),
        html("label", { for: scale.id }, "Values"), scale));
  }

  async take(input, read) {
    this.showError("");
    if (!input.files.length) return;
    try {
      await read(input.files[0]);
    } catch (error) {
      this.choose(null);
      this.showError(error.message);
    }
    input.value = "";
  }

  value() {
    if (this.chosen) return this.chosen();
    try {
      return JSON.parse(this.text.value);
    } catch (error) {
      throw new Error(this.text.value.trim() ? `not JSON: ${error.message}` : "a value is needed");
    }
  }

  showError(message) {
    this.error.textContent = message;
    this.text.setAttribute("aria-invalid", String(message !== ""));
  }

  focus() {
    this.text.focus();
  }
}
