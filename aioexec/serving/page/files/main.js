/* The page: loads the models, keeps the choice of model, version and signature, and fills the tabs. */

import { byId, html } from "./dom.js";
import { showForm } from "./form.js";
import { showGraph } from "./graph.js";
import { Plot } from "./plots.js";
import { events, getJson } from "./requests.js";
import { Tabs } from "./tabs.js";
import { showTimeline } from "./timeline.js";

const RECONNECT = 2000; // milliseconds

const plots = {
  throughput: new Plot(byId("throughput"), "Throughput", "requests/s", 1, ["", "failed"]),
  latency: new Plot(byId("latency"), "Latency", "ms", 0.1, ["p50", "p99"]),
  lag: new Plot(byId("lag"), "Event loop lag", "ms", 1, ["p99", "max"]),
};

const state = {
  models: [], // as the server describes them
  states: "", // of all versions, as JSON: a change reloads the models
  model: null, // the chosen model's name
  version: null,
  signature: null, // its name
  timeline: null, // the events of the last traced step of the chosen version
  graph: null, // "model/version/signature" whose graph is shown
};

const tabs = new Tabs(byId("tabs"), (id) => {
  if (id === "tab-graph") loadGraph();
});

const current = () => state.models.find((model) => model.name === state.model);
const currentVersion = () => current()?.versions.find((version) => version.version === state.version);

async function loadModels() {
  state.models = (await getJson("page/models")).models;
  if (!current()) state.model = state.models[0]?.name ?? null;
  showModels();
  const version = currentVersion();
  if (version?.state === "AVAILABLE" && state.signature in version.signatures) showVersions(); // keeps what is in the form
  else chooseModel(state.model);
}

function showModels() {
  byId("models").replaceChildren(...state.models.map((model) => {
    const available = model.versions.some((version) => version.state === "AVAILABLE");
    const button = html("button", { type: "button", "aria-current": String(model.name === state.model), onclick: () => chooseModel(model.name) },
      html("span", { class: available ? "dot good" : "dot bad" }), html("span", { class: "name" }, model.name),
      html("span", { class: "also" }, available ? versionsText(model) : "not available"));
    return html("li", {}, button);
  }));
  if (!state.models.length) byId("models").replaceChildren(html("li", { class: "empty" }, "No models"));
}

function versionsText(model) {
  const numbers = model.versions.filter((version) => version.state === "AVAILABLE").map((version) => version.version);
  return numbers.length === 1 ? `version ${numbers[0]}` : `versions ${numbers.join(", ")}`;
}

function chooseModel(name) {
  state.model = name;
  showModels();
  byId("model-title").textContent = name ?? "No model";
  chooseVersion(current()?.versions.find((version) => version.state === "AVAILABLE")?.version ?? null);
}

function chooseVersion(version) {
  state.version = version;
  state.timeline = null;
  state.graph = null;
  const names = Object.keys(currentVersion()?.signatures ?? {});
  chooseSignature(names.includes("serving_default") ? "serving_default" : names[0] ?? null);
  showTimeline(byId("panel-timeline"), null);
  showVersions();
}

function chooseSignature(name) {
  state.signature = name;
  showChoices();
  if (tabs.chosen === "tab-graph") loadGraph();
  const signature = currentVersion()?.signatures?.[name];
  if (!signature) {
    byId("panel-try").replaceChildren(html("p", { class: "empty" }, "No version of this model is available."));
    return;
  }
  const choice = { model: state.model, version: state.version, name, signature };
  showForm(byId("panel-try"), choice, (timeline) => {
    state.timeline = timeline;
    showTimeline(byId("panel-timeline"), timeline);
    tabs.choose("tab-timeline");
    byId("tab-timeline").focus();
  });
}

function showChoices() {
  const versions = (current()?.versions ?? []).filter((version) => version.state === "AVAILABLE").map((version) => String(version.version));
  const signatures = Object.keys(currentVersion()?.signatures ?? {});
  byId("choices").replaceChildren(
    ...choiceOf("version", "Version", versions, String(state.version), (value) => chooseVersion(Number(value))),
    ...choiceOf("signature", "Signature", signatures, state.signature, chooseSignature));
}

function choiceOf(id, label, values, chosen, onChoose) {
  if (!values.length) return [];
  const select = html("select", { id }, ...values.map((value) => html("option", { value, selected: value === chosen }, value)));
  select.addEventListener("change", () => {
    onChoose(select.value);
    byId(id)?.focus(); // the choices are made anew
  });
  return [html("span", {}, html("label", { for: id }, label), select)];
}

function showVersions() {
  const rows = (current()?.versions ?? []).map((version) => html("tr", {},
    html("th", { scope: "row" }, String(version.version)),
    html("td", {}, html("span", { class: version.state === "AVAILABLE" ? "badge good" : "badge" }, version.state)),
    html("td", {}, Object.entries(version.signatures ?? {}).map(([name, signature]) =>
      html("div", {}, name, html("span", { class: "also" }, signature.method_name)))),
    html("td", {}, version.error ?? "")));
  const head = ["Version", "State", "Signatures", "Error"].map((title) => html("th", { scope: "col" }, title));
  byId("panel-versions").replaceChildren(html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Versions" },
    html("table", {}, html("caption", {}, `Versions of ${state.model}`), html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...rows))));
}

async function loadGraph() {
  const shown = `${state.model}/${state.version}/${state.signature}`;
  if (state.version === null || state.graph === shown) return;
  state.graph = shown;
  const panel = byId("panel-graph");
  panel.replaceChildren(html("p", { class: "empty", role: "status" }, "Loading the graph"));
  try {
    const { nodes } = await getJson(`page/models/${encodeURIComponent(state.model)}/versions/${state.version}/graph`);
    if (state.graph === shown) showGraph(panel, nodes, outputsOf(currentVersion()));
  } catch (error) {
    state.graph = null;
    panel.replaceChildren(html("p", { class: "error", role: "alert" }, error.message));
  }
}

function outputsOf(version) {
  return Object.values(version.signatures[state.signature].outputs).map((output) => output.tensor);
}

function show(sample) {
  const at = performance.now() / 1000;
  plots.throughput.add(at, [sample.runs / sample.seconds, sample.failed_runs / sample.seconds]);
  plots.latency.add(at, [sample.latency_ms?.p50 ?? null, sample.latency_ms?.p99 ?? null]);
  plots.lag.add(at, [sample.lag_ms.p99, sample.lag_ms.max]);
}

function setConnection(text, good) {
  const element = byId("connection");
  if (element.textContent !== text) element.textContent = text; // said once by screen readers
  element.classList.toggle("good", good);
}

async function watch() {
  for (;;) {
    try {
      for await (const sample of events("page/live")) {
        setConnection("Live", true);
        show(sample);
        const states = JSON.stringify(sample.models);
        if (states !== state.states) {
          state.states = states;
          await loadModels();
        }
      }
      setConnection("The server closed the connection", false);
    } catch (error) {
      setConnection(error.status ? error.message : "No connection to the server", false);
    }
    await new Promise((resolve) => setTimeout(resolve, RECONNECT));
  }
}

tabs.choose("tab-try");
watch();
