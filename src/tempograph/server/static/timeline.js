// The facts of an entity around a time: a picture, what one points at in it, and all of it as a table.

import { get } from "./api.js";
import { $, el, refill } from "./dom.js";
import { Panel, redrawOnResize } from "./panel.js";
import { picture, Scale } from "./timeline-picture.js";
import { address, entityOf } from "./view.js";
import { counted, told } from "./words.js";

const PAGE = 1000;
const MOST_PAGES = 10;
const REACHES = [5, 15, 30, 90, 365, 3650];
const NARROW = 560;

/** `evidence()` are the facts behind the chosen answer; `drawn()` is told that there is something new. */
export function timelinePanel(root, app, evidence, drawn, failed) {
  const body = root.querySelector(".body");
  const panel = new Panel(
    root,
    {
      question: (view) =>
        entityOf(view) && view.time ? questionAbout(view, reachOf(view, app.run, body), app.run) : null,
      ask: allPages,
      draw: (found, view) => {
        $("timeline-title").textContent = `${entityOf(view) || "Facts"} around ${view.time}`;
        refill(body, ...(found === null ? [] : shown(body, app, found, view, evidence())));
        drawn();
      },
    },
    failed,
  );
  redrawOnResize(panel, body);
  return panel;
}

const questionAbout = (view, reach, run) => ({
  entity: entityOf(view),
  time: view.time,
  reach,
  run: run.name,
  limit: PAGE,
});

/** Steps on each side: as the view says, else so many that the window of the model fits well. */
function reachOf(view, run, body) {
  const usual = body.clientWidth < NARROW ? 15 : 30;
  const needed = Math.max(usual, run.window?.past ?? 0, run.window?.future ?? 0);
  return Number(view.reach) || (REACHES.find((reach) => reach >= needed) ?? REACHES.at(-1));
}

async function allPages(question, signal) {
  const found = await get("api/timeline", question, signal);
  for (let page = 1; page < MOST_PAGES && found.facts.length < found.total; page += 1) {
    const more = await get("api/timeline", { ...question, offset: page * PAGE }, signal);
    found.facts.push(...more.facts);
  }
  return { ...found, reach: question.reach };
}

function shown(body, app, found, view, evidence) {
  const steps = found.times ?? [...new Set(found.facts.map((fact) => fact.time))];
  const scale = new Scale(steps, body.clientWidth || 600);
  const days = Map.groupBy(found.facts, (fact) => fact.time);
  const go = (time) => app.go({ ...view, time });
  const reader = el("div", { class: "reader", role: "group", tabindex: "0", "aria-label": "Facts of one time" });
  const read = (time) => reader.replaceChildren(...reading(time, days.get(time) ?? [], view));
  read(view.time);
  return [
    zoom(app, view, found.reach),
    picture(view, found, scale, days, evidence, go, read),
    legend(app, found),
    reader,
    list(found),
  ];
}

function reading(time, facts, view) {
  const away = time === view.time ? el("b", {}, time) : el("a", { href: address({ ...view, time }) }, time);
  if (!facts.length) return [el("p", {}, away, `: nothing is known of ${entityOf(view)} at this time.`)];
  return [
    el("p", {}, away, `: ${counted(facts.length, "fact")}`),
    el("ul", {}, ...facts.map((fact) => el("li", {}, `${told(fact)}\u00a0`, el("small", {}, fact.split)))),
  ];
}

function zoom(app, view, chosen) {
  const { steps } = app.run;
  const select = el("select", { id: "reach", onchange: () => app.go({ ...view, reach: select.value }) });
  const fewer = [...new Set([...REACHES, chosen])].filter((reach) => reach < steps).sort((one, other) => one - other);
  const words = (reach) => (reach === steps ? "all steps" : `\u00b1 ${counted(reach, "step")}`);
  const option = (reach) => el("option", { value: reach, selected: reach === Math.min(chosen, steps) }, words(reach));
  select.append(...[...fewer, steps].map(option));
  return el("div", { class: "zoom" }, el("label", { for: select.id }, "Shown "), select);
}

function legend(app, found) {
  const key = (kind, words) => el("li", {}, el("span", { class: `key ${kind}` }), words);
  const { window } = app.run;
  const reads = `what ${app.run.model} reads: ${window?.past} steps back, ${window?.future} ahead`;
  return el(
    "ul",
    { class: "legend" },
    window ? key("window", reads) : el("li", {}, `${app.run.model} has no window of steps`),
    key("alike", "same relation"),
    key("", "other facts"),
    key("for", "\u25b2 speaks for the answer"),
    key("against", "\u25bc speaks against it"),
    el("li", {}, `above the line ${found.entity} is the subject, below the object`),
    found.facts.length < found.total ? el("li", {}, `only the first ${found.facts.length} facts are drawn`) : null,
  );
}

/** All of it as text, made when it is opened. */
function list(found) {
  const rest = found.total - found.facts.length;
  const cells = (fact) => [fact.time, fact.subject, fact.relation, fact.object, fact.split];
  const head = ["Time", "Subject", "Relation", "Object", "Split"].map((name) => el("th", { scope: "col" }, name));
  const details = el("details", {}, el("summary", {}, `${counted(found.total, "fact")} as a table`));
  details.addEventListener("toggle", () => {
    if (details.querySelector("table")) return;
    const rows = found.facts.map((fact) => el("tr", {}, ...cells(fact).map((text) => el("td", {}, text))));
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
    const label = `Facts of ${found.entity}`;
    details.append(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table));
    if (rest > 0) details.append(el("p", { class: "fine" }, `The first ${found.facts.length} of them.`));
  });
  return details;
}
