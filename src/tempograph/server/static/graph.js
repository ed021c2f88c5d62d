// The neighborhood of an entity at one time: the entity in the middle, its neighbors on both sides.

import { get } from "./api.js";
import { $, el, refill, svg } from "./dom.js";
import { Panel, redrawOnResize } from "./panel.js";
import { aboutEntity, address, entityOf } from "./view.js";
import { at, plural, sentence, shortened, factText, wrapped } from "./format.js";

const MAX_NODES = 15;
const HEIGHT = 300;
const ROWS = { min: 32, max: 64 };
const MARGIN = 34;
const LABEL = { min: 112, max: 220 };
const LETTER = 6.6;
const LINE = 14;

/** `timeline()` returns the facts around the time, to link to a step with facts if this one has none. */
export function graphPanel(root, app, timeline, onError) {
  const body = root.querySelector(".body");
  const panel = new Panel(
    root,
    {
      request: (view) =>
        entityOf(view) && view.time
          ? { entity: entityOf(view), time: view.time, run: app.run.name, limit: MAX_NODES }
          : null,
      load: (request, signal) => get("api/snapshot", request, signal),
      draw: (data, view) => {
        $("graph-title").textContent = `Neighbors ${at(view.time)}`;
        refill(body, ...(data === null ? [] : render(body, data, view, timeline())));
      },
    },
    onError,
  );
  redrawOnResize(panel, body);
  return panel;
}

function render(body, data, view, timeline) {
  if (data.nodes.length === 1 && !view.answer) return [emptySnapshot(data, view, timeline)];
  const width = body.clientWidth || 400;
  const names = data.nodes.slice(1).map((node) => node.name);
  const guess = guessOf(view);
  if (guess && guess !== data.entity && !names.includes(guess)) names.push(guess);
  const room = Math.min(LABEL.max, Math.max(LABEL.min, 0.3 * width), width / 2 - 40);
  const nodes = layout(data.entity, names, width / 2, width / 2 - room);
  const reader = el("div", { class: "reader" });
  const showSummary = () => reader.replaceChildren(summary(data, view, timeline));
  const point = (name, words) => {
    highlight(drawing, name);
    if (name === null) showSummary();
    else reader.replaceChildren(el("p", {}, el("b", {}, name), `: ${words}`));
  };
  const lines = pairs(data.edges, nodes).map((pair) => edge(pair, nodes));
  const predicted = guess && nodes.has(guess) ? guessed(view, nodes) : null;
  const height = Math.max(...[...nodes.values()].map((node) => node.y)) + MARGIN;
  const drawing = svg(
    "svg",
    { class: "graph", width, height, role: "group", "aria-label": `Neighbors of ${data.entity}` },
    ...lines,
    predicted,
    ...[...nodes.values()].map((node) => dot(node, data, view, room, point)),
  );
  showSummary();
  return [drawing, reader];
}

const guessOf = (view) => (view.asked === "relation" ? "" : view.answer);

/** Positions by name: the entity in the middle, the others on an arc, alternating right and left. */
function layout(entity, names, x, reach) {
  const [right, left] = [Math.ceil(names.length / 2), Math.floor(names.length / 2)];
  const row = Math.min(ROWS.max, Math.max(ROWS.min, HEIGHT / Math.max(1, right)));
  const middle = MARGIN + Math.max(0, (right - 1) / 2) * row;
  const nodes = new Map([[entity, { name: entity, number: -1, x, y: middle, side: 0 }]]);
  names.forEach((name, number) => {
    const side = number % 2 ? -1 : 1;
    const down = Math.floor(number / 2) - ((side > 0 ? right : left) - 1) / 2;
    const bow = Math.sqrt(1 - (down / (right / 2 + 1)) ** 2);
    // Beside the entity, more lines could run into its name.
    const lines = down === 0 ? 2 : Math.floor(row / LINE);
    nodes.set(name, { name, number, x: x + side * bow * reach, y: middle + down * row, side, lines });
  });
  return nodes;
}

/** All facts between two nodes, in either direction, share one line. */
function pairs(edges, nodes) {
  const data = new Map();
  for (const fact of edges) {
    const ends = [fact.subject, fact.object].sort();
    const key = JSON.stringify(ends);
    if (ends[0] !== ends[1] && ends.every((end) => nodes.has(end))) {
      data.set(key, { ends, facts: [...(data.get(key)?.facts ?? []), fact] });
    }
  }
  return [...data.values()];
}

function edge({ ends, facts }, nodes) {
  const path = svg("path", {
    class: "edge",
    d: curve(nodes.get(ends[0]), nodes.get(ends[1])),
    "data-ends": JSON.stringify(ends),
  });
  path.style.strokeWidth = `${Math.min(4, 1 + facts.length * 0.4)}px`;
  return path;
}

/** Straight to and from the middle; bent towards it between neighbors, to avoid the other nodes. */
function curve(from, to) {
  if (!from.side || !to.side) return `M${from.x} ${from.y}L${to.x} ${to.y}`;
  const bend = from.side === to.side ? -38 * from.side : 0;
  return `M${from.x} ${from.y}Q${(from.x + to.x) / 2 + bend} ${(from.y + to.y) / 2} ${to.x} ${to.y}`;
}

function guessed(view, nodes) {
  const [from, to] = [nodes.get(entityOf(view)), nodes.get(view.answer)];
  // Bent, so that it does not hide the line of known facts.
  const d = `M${from.x} ${from.y}Q${(from.x + to.x) / 2} ${(from.y + to.y) / 2 + 26} ${to.x} ${to.y}`;
  return svg("path", { class: "edge guess", d });
}

/** `room` is the width for a name; `point(name, words)` is called on hover, with null on leave. */
function dot(node, data, view, room, point) {
  const facts = data.edges.filter((fact) => [fact.subject, fact.object].includes(node.name));
  const own = node.side ? facts.filter((fact) => [fact.subject, fact.object].includes(data.entity)) : facts;
  const words = own.length ? own.map(factText).join("; ") : "no fact at this time";
  const kind = node.side === 0 ? "middle" : node.name === view.answer ? "chosen" : "";
  const inside = [
    svg("circle", { class: `node ${kind}`, cx: node.x, cy: node.y, r: node.side ? 7 : 10 }),
    nameOf(node, room),
    svg("title", {}, node.name),
  ];
  if (!node.side) return svg("g", { class: "at" }, ...inside);
  const href = address(aboutEntity(view, node.name));
  const label = `Ask about ${node.name}. ${words}.`;
  const link = svg("a", { class: "at", id: `node-${node.number}`, href, "aria-label": label }, ...inside);
  for (const event of ["pointerenter", "focus"]) link.addEventListener(event, () => point(node.name, words));
  for (const event of ["pointerleave", "blur"]) link.addEventListener(event, () => point(null));
  return link;
}

function nameOf({ name, x, y, side, lines: max }, room) {
  if (!side) {
    return svg("text", { x, y: y - 16, "text-anchor": "middle" }, shortened(name, Math.floor((2 * room) / LETTER)));
  }
  const lines = wrapped(name, Math.floor((room - 18) / LETTER), max);
  const left = x + 12 * side;
  const rows = lines.map((line, row) =>
    svg("tspan", { x: left, y: y + 4 + LINE * (row - (lines.length - 1) / 2) }, line),
  );
  return svg("text", { "text-anchor": side > 0 ? "start" : "end" }, ...rows);
}

function highlight(drawing, name) {
  for (const line of drawing.querySelectorAll("[data-ends]")) {
    line.classList.toggle("highlighted", name !== null && JSON.parse(line.dataset.ends).includes(name));
  }
}

function summary(data, view, timeline) {
  if (data.nodes.length === 1) return emptySnapshot(data, view, timeline);
  const shown = data.nodes.length - 1;
  const all = plural(data.neighbours, "neighbor");
  const those = shown < data.neighbours ? `the ${shown} most active of ${all}` : all;
  const dashed = guessOf(view) ? " Dashed: the chosen answer." : "";
  return el(
    "p",
    { class: "fine" },
    `${sentence(those)} Point at one to read its facts; choose it to ask about it.${dashed}`,
  );
}

/** No facts at this time: link to the nearest times that have some. */
function emptySnapshot(data, view, timeline) {
  const near = timeline ? nearest(timeline, view.time) : [];
  const links = near.flatMap((time) => [" ", el("a", { href: address({ ...view, time }) }, time)]);
  const hint = near.length ? "Nearest times with facts:" : "There are none nearby.";
  return el("p", { class: "empty" }, `There are no facts about ${data.entity} ${at(view.time)}. ${hint}`, ...links);
}

/** The last time before and the first after a time that have facts. */
function nearest({ times, counts }, time) {
  const indexOf = (other) => times?.indexOf(other) ?? -1;
  const before = counts.findLast((count) => indexOf(count.time) < indexOf(time));
  const after = counts.find((count) => indexOf(count.time) > indexOf(time));
  return [before, after].filter(Boolean).map((count) => count.time);
}
