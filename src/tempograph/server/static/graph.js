// The neighbourhood of an entity at one time: it stands in the middle, its neighbours on both sides.

import { get } from "./api.js";
import { $, el, refill, svg } from "./dom.js";
import { Panel, redrawOnResize } from "./panel.js";
import { aboutEntity, address, entityOf } from "./view.js";
import { at, counted, sentence, shortened, told, wrapped } from "./words.js";

const MOST = 15;
const HEIGHT = 300;
const ROWS = { least: 32, most: 64 };
const MARGIN = 34;
const LABEL = { least: 112, most: 220 };
const LETTER = 6.6;
const LINE = 14;

/** `timeline()` are the facts around the time, to find a day with facts where this one has none. */
export function graphPanel(root, app, timeline, failed) {
  const body = root.querySelector(".body");
  const panel = new Panel(
    root,
    {
      question: (view) =>
        entityOf(view) && view.time
          ? { entity: entityOf(view), time: view.time, run: app.run.name, limit: MOST }
          : null,
      ask: (question, signal) => get("api/snapshot", question, signal),
      draw: (found, view) => {
        $("graph-title").textContent = `Neighbours ${at(view.time)}`;
        refill(body, ...(found === null ? [] : shown(body, found, view, timeline())));
      },
    },
    failed,
  );
  redrawOnResize(panel, body);
  return panel;
}

function shown(body, found, view, timeline) {
  if (found.nodes.length === 1 && !view.answer) return [nobody(found, view, timeline)];
  const width = body.clientWidth || 400;
  const names = found.nodes.slice(1).map((node) => node.name);
  const guess = guessOf(view);
  if (guess && guess !== found.entity && !names.includes(guess)) names.push(guess);
  const room = Math.min(LABEL.most, Math.max(LABEL.least, 0.3 * width), width / 2 - 40);
  const nodes = placed(found.entity, names, width / 2, width / 2 - room);
  const reader = el("div", { class: "reader" });
  const silent = () => reader.replaceChildren(summary(found, view, timeline));
  const point = (name, words) => {
    emphasise(drawing, name);
    if (name === null) silent();
    else reader.replaceChildren(el("p", {}, el("b", {}, name), `: ${words}`));
  };
  const lines = pairs(found.edges, nodes).map((pair) => edge(pair, nodes));
  const predicted = guess && nodes.has(guess) ? guessed(view, nodes) : null;
  const height = Math.max(...[...nodes.values()].map((node) => node.y)) + MARGIN;
  const drawing = svg(
    "svg",
    { class: "graph", width, height, role: "group", "aria-label": `Neighbours of ${found.entity}` },
    ...lines,
    predicted,
    ...[...nodes.values()].map((node) => dot(node, found, view, room, point)),
  );
  silent();
  return [drawing, reader];
}

const guessOf = (view) => (view.asked === "relation" ? "" : view.answer);

/** Places by name: the entity in the middle, the others in turn on an arc to its right and to its left. */
function placed(entity, names, x, reach) {
  const [right, left] = [Math.ceil(names.length / 2), Math.floor(names.length / 2)];
  const row = Math.min(ROWS.most, Math.max(ROWS.least, HEIGHT / Math.max(1, right)));
  const middle = MARGIN + Math.max(0, (right - 1) / 2) * row;
  const nodes = new Map([[entity, { name: entity, number: -1, x, y: middle, side: 0 }]]);
  names.forEach((name, number) => {
    const side = number % 2 ? -1 : 1;
    const down = Math.floor(number / 2) - ((side > 0 ? right : left) - 1) / 2;
    const bow = Math.sqrt(1 - (down / (right / 2 + 1)) ** 2);
    nodes.set(name, { name, number, x: x + side * bow * reach, y: middle + down * row, side });
  });
  return nodes;
}

/** Facts between two nodes, in either direction, are one line. */
function pairs(edges, nodes) {
  const found = new Map();
  for (const fact of edges) {
    const ends = [fact.subject, fact.object].sort();
    const key = JSON.stringify(ends);
    if (ends[0] !== ends[1] && ends.every((end) => nodes.has(end))) {
      found.set(key, { ends, facts: [...(found.get(key)?.facts ?? []), fact] });
    }
  }
  return [...found.values()];
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

/** A line from or to the middle is straight; one between neighbours is bent towards it, to pass by the others. */
function curve(from, to) {
  if (!from.side || !to.side) return `M${from.x} ${from.y}L${to.x} ${to.y}`;
  const bend = from.side === to.side ? -38 * from.side : 0;
  return `M${from.x} ${from.y}Q${(from.x + to.x) / 2 + bend} ${(from.y + to.y) / 2} ${to.x} ${to.y}`;
}

function guessed(view, nodes) {
  const [from, to] = [nodes.get(entityOf(view)), nodes.get(view.answer)];
  // Bent, so that it does not hide the line of what is known.
  const d = `M${from.x} ${from.y}Q${(from.x + to.x) / 2} ${(from.y + to.y) / 2 + 26} ${to.x} ${to.y}`;
  return svg("path", { class: "edge guess", d });
}

/** `room` is for a name; `point(name, words)` is told what one points at, or null. */
function dot(node, found, view, room, point) {
  const facts = found.edges.filter((fact) => [fact.subject, fact.object].includes(node.name));
  const own = node.side ? facts.filter((fact) => [fact.subject, fact.object].includes(found.entity)) : facts;
  const words = own.length ? own.map(told).join("; ") : "no fact at this time";
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

function nameOf({ name, x, y, side }, room) {
  if (!side) {
    return svg("text", { x, y: y - 16, "text-anchor": "middle" }, shortened(name, Math.floor((2 * room) / LETTER)));
  }
  const lines = wrapped(name, Math.floor((room - 18) / LETTER));
  const left = x + 12 * side;
  const rows = lines.map((line, row) =>
    svg("tspan", { x: left, y: y + 4 + LINE * (row - (lines.length - 1) / 2) }, line),
  );
  return svg("text", { "text-anchor": side > 0 ? "start" : "end" }, ...rows);
}

function emphasise(drawing, name) {
  for (const line of drawing.querySelectorAll("[data-ends]")) {
    line.classList.toggle("alight", name !== null && JSON.parse(line.dataset.ends).includes(name));
  }
}

function summary(found, view, timeline) {
  if (found.nodes.length === 1) return nobody(found, view, timeline);
  const shown = found.nodes.length - 1;
  const all = counted(found.neighbours, "neighbour");
  const those = shown < found.neighbours ? `the ${shown} busiest of ${all}` : all;
  const dashed = guessOf(view) ? " Dashed: the chosen answer." : "";
  return el(
    "p",
    { class: "fine" },
    `${sentence(those)} Point at one to read its facts; choose it to ask about it.${dashed}`,
  );
}

/** Nothing here: lead to the nearest times that have something. */
function nobody(found, view, timeline) {
  const near = timeline ? nearest(timeline, view.time) : [];
  const links = near.flatMap((time) => [" ", el("a", { href: address({ ...view, time }) }, time)]);
  const hint = near.length ? "The nearest times with facts:" : "No facts are near.";
  return el("p", { class: "empty" }, `Nothing is known of ${found.entity} ${at(view.time)}. ${hint}`, ...links);
}

/** The last time before and the first after one, of those that have facts. */
function nearest({ times, counts }, time) {
  const place = (other) => times?.indexOf(other) ?? -1;
  const before = counts.findLast((count) => place(count.time) < place(time));
  const after = counts.find((count) => place(count.time) > place(time));
  return [before, after].filter(Boolean).map((count) => count.time);
}
