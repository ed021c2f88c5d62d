// The neighborhood of an entity in a period: a graph to expand, the facts of one node or edge, and a list of all nodes.

import { get, Unreachable } from "./api.js";
import { $, el, refill } from "./dom.js";
import { GraphDrawing } from "./graph-drawing.js";
import { graphElements } from "./graph-elements.js";
import { Panel, redrawOnResize } from "./panel.js";
import { exportButtons, member } from "./table.js";
import { aboutEntity, address, centersOf, entityOf, focused, guessOf, withExpanded, withTime } from "./view.js";
import { at, plural } from "./format.js";

const MAX_NEIGHBORS = 10;
const EDGE_COLUMNS = ["subject", "relation", "object", "facts", "first", "last"].map((name) => member(name));
const SPANS = [0, 3, 7, 15, 30, 90, 365];
const HINT = "Choose a node to expand it or to ask about it. Drag or use the arrow keys to move, + and \u2212 to zoom.";

/** `timeline()` returns the facts around the time, to link to a step with facts if this period has none. */
export function graphPanel(root, app, timeline, onError) {
  const body = root.querySelector(".body");
  let drawing = null;
  const panel = new Panel(
    root,
    {
      request: (view) => (entityOf(view) ? neighborsRequest(focused(view, app.run), app.run) : null),
      load: async (request, signal) => {
        const [data, cytoscape] = await Promise.all([get("api/v1/neighborhood", request, signal), loadCytoscape()]);
        drawing ??= new GraphDrawing(cytoscape);
        return data;
      },
      draw: (data, view) => {
        $("graph-title").replaceChildren("Neighbors", ...(data === null ? [] : period(data)));
        if (data === null) refill(body);
        else render(app, drawing, body, data, focused(view, app.run), timeline());
      },
    },
    onError,
  );
  redrawOnResize(panel, body);
  return panel;
}

const neighborsRequest = (view, run) => ({
  entity: centersOf(view),
  time: view.time,
  reach: spanOf(view),
  run: run.name,
  limit: MAX_NEIGHBORS,
});

const spanOf = (view) => (/^\d+$/.test(view.span) ? Number(view.span) : 7);

const periodOf = ({ from, to }) => (from === to ? at(from) : `from ${from} to ${to}`);

const period = ({ from, to }) =>
  (from === to ? [at(from)] : [`from ${from}`, `to ${to}`]).flatMap((each) => [
    " ",
    el("span", { class: "nowrap" }, each),
  ]);

async function loadCytoscape() {
  try {
    return (await import("./vendor/cytoscape.esm.min.mjs")).default;
  } catch {
    throw new Unreachable("The service does not answer.");
  }
}

function render(app, drawing, body, data, view, timeline) {
  const guess = guessOf(view);
  if (data.nodes.length === 1 && !guess && !data.edges.length) {
    refill(body, spanField(app, view), emptyPeriod(data, view, timeline));
    return;
  }
  const elements = graphElements(data, guess, centersOf(view));
  const reader = el("div", { class: "reader", role: "group", tabindex: "0", "aria-label": "Facts in the graph" });
  const read = (id) => reader.replaceChildren(...reading(elements, id, view));
  read(data.nodes[0].name);
  const toggle = (name) => name !== entityOf(view) && app.go(withExpanded(view, name));
  const highlight = (name) => drawing.highlight(name);
  const nodes = list(elements, view, { read, toggle, highlight }, listOpen(body));
  const words = el("p", { class: "fine" }, summary(data, guess));
  const beside = el("div", {}, reader, words, nodes, exportButtons("neighbors", EDGE_COLUMNS, data.edges));
  refill(body, spanField(app, view), el("div", { class: "graph-parts" }, drawing.element, beside));
  // Once it is in the page: the layout depends on the size of the canvas.
  drawing.show(elements, { read, toggle });
}

const listOpen = (body) => body.querySelector("details")?.open ?? false;

function spanField(app, view) {
  const { steps } = app.run;
  const chosen = spanOf(view);
  const select = el("select", { id: "span", onchange: () => app.go({ ...view, span: select.value }) });
  const fewer = [...new Set([...SPANS, chosen])].filter((span) => span < steps).sort((one, other) => one - other);
  const words = (span) =>
    span === 0 ? "this step" : span === steps ? "all steps" : `\u00b1 ${plural(span, "step")}`;
  const option = (span) => el("option", { value: span, selected: span === Math.min(chosen, steps) }, words(span));
  select.append(...[...fewer, steps].map(option));
  return el("div", { class: "zoom" }, el("label", { for: select.id }, "Period "), select);
}

function summary(data, guess) {
  const [{ name, facts: all }] = data.neighbors;
  const shown = Math.min(MAX_NEIGHBORS, all);
  const those = shown < all ? `the ${shown} most active of its ${plural(all, "neighbor")}` : plural(all, "neighbor");
  const hidden = data.total_edges - data.edges.length;
  const rest = hidden > 0 ? ` ${plural(hidden, "edge")} with fewer facts are not drawn.` : "";
  return `${name} with ${those}.${rest}${guess ? " Dashed: the chosen answer." : ""} ${HINT}`;
}

/** What a node or an edge stands for. */
function reading(elements, id, view) {
  const node = elements.nodes.find(({ name }) => name === id);
  const lines = elements.edges.filter((edge) => edge.id === id || edge.subject === id || edge.object === id);
  const facts = lines.flatMap((edge) => edge.relations.map((relation) => ({ ...edge, ...relation })));
  const items = facts.map(({ subject, relation, object, facts: count, first, last }) => {
    const when = count === 0 ? "predicted" : first === last ? first : `${count} times, ${first} to ${last}`;
    return el("li", {}, `${subject} ${relation} ${object}\u00a0`, el("small", {}, when));
  });
  const about = node ? [el("b", {}, node.name), `: ${plural(node.facts, "fact")} in this period. `] : [];
  const ask = node && node.name !== entityOf(view) ? askAbout(node.name, view, "Ask about it") : null;
  return [about.length ? el("p", {}, ...about, ask) : null, el("ul", {}, ...items)].filter(Boolean);
}

const askAbout = (name, view, words) =>
  el("a", { href: address(aboutEntity(view, name)), "aria-label": `Ask about ${name}` }, words);

/** All nodes as buttons that expand them: what the graph offers to a pointer, for the keyboard. */
function list({ nodes }, view, { read, toggle, highlight }, open) {
  const centers = centersOf(view);
  const rows = nodes.map(({ name, facts }, index) => {
    const point = () => {
      highlight(name);
      read(name);
    };
    const button = el(
      "button",
      {
        id: `node-${index}`,
        type: "button",
        "aria-expanded": String(centers.includes(name)),
        "aria-disabled": name === centers[0] ? "true" : null,
        onclick: () => toggle(name),
        onfocus: point,
        onpointerenter: point,
        onblur: () => highlight(null),
        onpointerleave: () => highlight(null),
      },
      el("span", { class: "label" }, name),
      el("small", {}, plural(facts, "fact")),
    );
    const link = name === centers[0] ? null : askAbout(name, view, "\u2192");
    link?.classList.add("go");
    return el("li", {}, button, link);
  });
  return el(
    "details",
    { open },
    el("summary", {}, `${plural(nodes.length, "entity", "entities")} as a list`),
    el("ul", { class: "graph-nodes" }, ...rows),
  );
}

/** No facts in this period: link to the nearest times that have some. */
function emptyPeriod(data, view, timeline) {
  const near = timeline ? nearest(timeline, view.time) : [];
  const links = near.flatMap((time) => [" ", el("a", { href: address(withTime(view, time)) }, time)]);
  const hint = near.length ? "Nearest times with facts:" : "There are none nearby.";
  const words = `There are no facts about ${data.nodes[0].name} ${periodOf(data)}. ${hint}`;
  return el("p", { class: "empty" }, words, ...links);
}

/** The last time before and the first after a time that have facts. */
function nearest({ times, counts }, time) {
  const indexOf = (other) => times?.indexOf(other) ?? -1;
  const before = counts.findLast((count) => indexOf(count.time) < indexOf(time));
  const after = counts.find((count) => indexOf(count.time) > indexOf(time));
  return [before, after].filter(Boolean).map((count) => count.time);
}
