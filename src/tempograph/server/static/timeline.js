// The facts of an entity around a time: a chart, the facts of one step, and a table of all.

import { get } from "./api.js";
import { $, el, refill } from "./dom.js";
import { Panel, redrawOnResize } from "./panel.js";
import { factColumns, member, table } from "./table.js";
import { chart, hasSpans, Scale, shownSteps } from "./timeline-chart.js";
import { address, entityOf, focused, withTime } from "./view.js";
import { plural, factText, whenText } from "./format.js";

const PAGE = 1000;
const MAX_PAGES = 10;
const REACHES = [5, 15, 30, 90, 365, 3650];
const NARROW = 560;

/** `evidence()` returns the evidence for the chosen answer; `onDraw()` is called after each change. */
export function timelinePanel(root, app, evidence, onDraw, onError) {
  const body = root.querySelector(".body");
  const panel = new Panel(
    root,
    {
      request: (view) =>
        entityOf(view) ? timelineRequest(focused(view, app.run), reachOf(view, app.run, body), app.run) : null,
      load: allPages,
      draw: (data, given) => {
        const view = focused(given, app.run);
        $("timeline-title").textContent = `${entityOf(view) || "Facts"} around ${view.time}`;
        refill(body, ...(data === null ? [] : render(body, app, data, view, evidence())));
        onDraw();
      },
    },
    onError,
  );
  redrawOnResize(panel, body);
  return panel;
}

const timelineRequest = (view, reach, run) => ({
  entity: entityOf(view),
  time: view.time,
  reach,
  run: run.name,
  limit: PAGE,
});

/** Steps on each side: from the view, or enough to show the window of the model. */
function reachOf(view, run, body) {
  const usual = body.clientWidth < NARROW ? 15 : 30;
  const needed = Math.max(usual, run.window?.past ?? 0, run.window?.future ?? 0);
  return Number(view.reach) || (REACHES.find((reach) => reach >= needed) ?? REACHES.at(-1));
}

async function allPages(request, signal) {
  const data = await get("api/v1/timeline", request, signal);
  for (let page = 1; page < MAX_PAGES && data.facts.length < data.total; page += 1) {
    const more = await get("api/v1/timeline", { ...request, offset: page * PAGE }, signal);
    data.facts.push(...more.facts);
  }
  return { ...data, reach: request.reach };
}

function render(body, app, data, view, evidence) {
  const steps = data.times ?? [...new Set(data.facts.map((fact) => fact.time))];
  const scale = new Scale(steps, body.clientWidth || 600);
  const days = new Days(data.facts, scale);
  const go = (time) => app.go(withTime(view, time));
  const reader = el("div", { class: "reader", role: "group", tabindex: "0", "aria-label": "Facts of one time" });
  const read = (time) => reader.replaceChildren(...reading(time, days.at(time), view));
  read(view.time);
  return [
    zoom(app, view, data.reach),
    chart(view, data, scale, days, evidence, go, read),
    legend(app, data),
    reader,
    list(data),
  ];
}

const held = (fact) => (whenText(fact) === fact.time ? null : `${whenText(fact)}, `);

/** The facts of each step, of which a fact that holds for a while is at many: they are found when they are read. */
class Days {
  #facts;
  #scale;
  #spans;
  #counts;
  #events = null;

  constructor(facts, scale) {
    this.#facts = facts;
    this.#scale = scale;
    this.#spans = facts.map((fact) => shownSteps(fact, scale));
    const changes = new Array(scale.steps.length + 1).fill(0);
    for (const [first, last] of this.#spans) {
      changes[first] += 1;
      changes[last + 1] -= 1;
    }
    let count = 0;
    this.#counts = changes.map((change) => (count += change));
    /** The steps with facts, in order. */
    this.shown = scale.steps.filter((_, step) => this.#counts[step] > 0);
    if (!hasSpans(facts)) this.#events = Map.groupBy(facts, (fact) => fact.time);
  }

  /** The number of facts at a step. */
  count(time) {
    return this.#counts[this.#scale.positions.get(time)] ?? 0;
  }

  /** The facts at a step. */
  at(time) {
    if (this.#events) return this.#events.get(time) ?? [];
    const step = this.#scale.positions.get(time);
    return this.#facts.filter((_, index) => this.#spans[index][0] <= step && step <= this.#spans[index][1]);
  }
}

function reading(time, facts, view) {
  const away = time === view.time ? el("b", {}, time) : el("a", { href: address(withTime(view, time)) }, time);
  if (!facts.length) return [el("p", {}, away, `: no facts about ${entityOf(view)} at this time.`)];
  return [
    el("p", {}, away, `: ${plural(facts.length, "fact")}`),
    el(
      "ul",
      {},
      ...facts.map((fact) => el("li", {}, `${factText(fact)}\u00a0`, el("small", {}, held(fact), fact.split))),
    ),
  ];
}

function zoom(app, view, chosen) {
  const { steps } = app.run;
  const select = el("select", { id: "reach", onchange: () => app.go({ ...view, reach: select.value }) });
  const fewer = [...new Set([...REACHES, chosen])].filter((reach) => reach < steps).sort((one, other) => one - other);
  const words = (reach) => (reach === steps ? "all steps" : `\u00b1 ${plural(reach, "step")}`);
  const option = (reach) => el("option", { value: reach, selected: reach === Math.min(chosen, steps) }, words(reach));
  select.append(...[...fewer, steps].map(option));
  return el("div", { class: "zoom" }, el("label", { for: select.id }, "Shown "), select);
}

function legend(app, data) {
  const key = (kind, words) => el("li", {}, el("span", { class: `key ${kind}` }), words);
  const { window } = app.run;
  const reads = `window of ${app.run.model}: ${window?.past} steps back, ${window?.future} ahead`;
  return el(
    "ul",
    { class: "legend" },
    window ? key("window", reads) : el("li", {}, `${app.run.model} has no window of steps`),
    key("alike", "same relation"),
    key("", "other facts"),
    key("for", "\u25b2 supports the answer"),
    key("against", "\u25bc contradicts it"),
    el("li", {}, `${data.entity} is the subject above the line, the object below`),
    data.facts.length < data.total ? el("li", {}, `only the first ${data.facts.length} facts are drawn`) : null,
  );
}

/** All facts as a table, built when it is opened. */
function list(data) {
  const { facts, total, entity } = data;
  const details = el("details", {}, el("summary", {}, `${plural(total, "fact")} as a table`));
  const note = facts.length < total ? el("p", { class: "fine" }, `The first ${facts.length} of them.`) : null;
  details.addEventListener("toggle", () => {
    if (details.querySelector("table")) return;
    const columns = [...factColumns(facts), member("split", "Split")];
    details.append(table({ label: `Facts of ${entity}`, file: `facts-${entity}`, columns, rows: facts, note }));
  });
  return details;
}
