// Facts as blocks at their steps: above the line if the entity is the subject, below if it is the object.

import { svg } from "./dom.js";
import { plural, shortened, factText } from "./format.js";

const LANE = 36;
const ROWS = { for: 10, against: 26 };
const UNIT = 11;
const HALF = { min: 26, max: 78 };
const AXIS = 24;
const TICK = { min: 96, letter: 7, letters: 24 };

/** Horizontal positions of the steps. */
export class Scale {
  constructor(steps, width) {
    this.steps = steps;
    this.width = width;
    this.step = width / steps.length;
    this.positions = new Map(steps.map((time, index) => [time, index]));
  }

  left(time) {
    return this.positions.get(time) * this.step;
  }

  middle(time) {
    return this.left(time) + this.step / 2;
  }

  has(time) {
    return this.positions.has(time);
  }
}

/** `go(time)` is called when a time is chosen, `read(time)` on hover. */
export function chart(view, data, scale, days, evidence, go, read) {
  const lanes = hasSpans(data.facts) ? assignLanes(data.facts, data.entity, scale) : null;
  const tall = lanes ? lanes.counts : [0, 1].map((below) => tallest(days, data.entity, below));
  const unit = Math.min(UNIT, HALF.max / Math.max(...tall));
  const [above, under] = tall.map((count) => Math.max(HALF.min, count * unit + 4));
  const line = LANE + above;
  const height = line + under + AXIS;
  const behind = new Map(evidence.map((fact) => [keyOf(fact), sideOf(fact)]));
  const kindOf = (fact) => behind.get(keyOf(fact)) ?? (fact.relation === view.relation ? "alike" : "");
  const top = (below, lane) => (below ? line + 1 + lane * unit : line - 1 - (lane + 1) * unit);
  const blocks = (facts) =>
    stacks(facts, data.entity).flatMap((stack, below) =>
      sorted(stack, view).map((fact, index) => block(kindOf(fact), scale, fact, top(below, index), unit, 0.12)),
    );
  const bars = lanes
    ? stacks(data.facts, data.entity).flatMap((side, below) =>
        side.map((fact) => block(kindOf(fact), scale, fact, top(below, lanes.of.get(fact)), unit, 0)),
      )
    : [];
  const columns = days.shown.map((time) => day(time, days, scale, height, lanes ? [] : blocks(days.at(time))));
  bindDays(columns, days, scale, view, go, read);
  return svg(
    "svg",
    { class: "timeline", width: scale.width, height, role: "group", "aria-label": `Facts of ${data.entity} by time` },
    shade(data.window, scale, height),
    svg("line", { class: "axis", x1: 0, x2: scale.width, y1: line, y2: line }),
    ...ticks(view.time, scale, height),
    now(view.time, scale, height),
    ...bars,
    ...columns,
    ...marks(evidence, scale, line),
  );
}

const holdsForAWhile = ({ start }) => start !== undefined && start !== null;

export const hasSpans = (facts) => facts.some(holdsForAWhile);

/** First and last shown step of a fact that holds for a while; a bound outside the steps is at their end. */
export function shownSteps(fact, scale) {
  if (!holdsForAWhile(fact)) return [scale.positions.get(fact.time), scale.positions.get(fact.time)];
  const start = fact.start === "" ? fact.end : fact.start;
  const end = fact.end === "" ? fact.start : fact.end;
  return [scale.positions.get(start) ?? 0, scale.positions.get(end) ?? scale.steps.length - 1];
}

/** A lane for each fact on its side of the line, so that the bar of a fact stays at one height. */
function assignLanes(facts, entity, scale) {
  const of = new Map();
  const counts = stacks(facts, entity).map((side) => {
    const ends = [];
    const spans = side.map((fact) => ({ fact, span: shownSteps(fact, scale) }));
    for (const { fact, span } of spans.toSorted((one, other) => one.span[0] - other.span[0])) {
      const free = ends.findIndex((end) => end < span[0]);
      const lane = free < 0 ? ends.length : free;
      ends[lane] = span[1];
      of.set(fact, lane);
    }
    return Math.max(1, ends.length);
  });
  return { of, counts };
}

/** The block of a fact, from its first step to its last, with a margin in steps on both sides. */
function block(kind, scale, fact, y, unit, margin) {
  const gap = unit > 3 ? 1 : 0;
  const [first, last] = shownSteps(fact, scale);
  return svg("rect", {
    class: `fact ${kind}`,
    x: scale.step * (first + margin),
    y: y + gap / 2,
    width: scale.step * (last - first + 1 - 2 * margin),
    height: unit - gap,
  });
}

const sideOf = ({ effect }) => (effect < 0 ? "against" : "for");

const keyOf = ({ subject, relation, object, time }) => JSON.stringify([subject, relation, object, time]);

const stacks = (facts, entity) => [
  facts.filter((fact) => fact.subject === entity),
  facts.filter((fact) => fact.subject !== entity),
];

const tallest = (days, entity, below) =>
  Math.max(1, ...days.shown.map((time) => stacks(days.at(time), entity)[below].length));

/** Facts with the relation of the query come first, next to the line. */
const sorted = (facts, view) =>
  facts.toSorted((one, other) => (other.relation === view.relation) - (one.relation === view.relation));

const dayLabel = (time, facts) => `${time}: ${plural(facts.length, "fact")}. ${facts.map(factText).join("; ")}`;

/** A step with its blocks. Where facts hold for a while, all of their names follow once it has the focus. */
function day(time, days, scale, height, blocks) {
  const label = blocks.length ? dayLabel(time, days.at(time)) : `${time}: ${plural(days.count(time), "fact")}`;
  const reach = svg("rect", { class: "reach", x: scale.left(time), y: 0, width: scale.step, height: height - AXIS });
  return svg(
    "g",
    { class: "day", id: `day-${time}`, role: "button", tabindex: "-1", "aria-label": label, "data-time": time },
    reach,
    ...blocks,
  );
}

function shade(window, scale, height) {
  if (window === null || !scale.has(window.from) || !scale.has(window.to)) return null;
  const x = scale.left(window.from);
  return svg("rect", {
    class: "window",
    x,
    y: 0,
    width: scale.left(window.to) + scale.step - x,
    height: height - AXIS,
  });
}

function now(time, scale, height) {
  if (!scale.has(time)) return null;
  const x = scale.middle(time);
  return svg("line", { class: "now", x1: x, x2: x, y1: 0, y2: height - AXIS + 5 });
}

/** Labels at even distances from the time of the query, as far apart as the longest needs. */
function ticks(time, scale, height) {
  const letters = Math.min(TICK.letters, Math.max(...scale.steps.map((step) => step.length)));
  const width = Math.max(TICK.min, TICK.letter * (letters + 2));
  const every = Math.max(1, Math.ceil(width / scale.step));
  const first = scale.positions.get(time) % every || 0;
  const edge = width / 2.6;
  const room = (x) => x > edge && x < scale.width - edge;
  return scale.steps
    .filter((step, index) => index % every === first && (step === time || room(scale.middle(step))))
    .map((step) => {
      const x = Math.min(Math.max(scale.middle(step), edge), scale.width - edge);
      const kind = step === time ? "tick asked" : "tick";
      return svg("text", { class: kind, x, y: height - 6, "text-anchor": "middle" }, shortened(step, TICK.letters));
    });
}

/** Evidence at its times: triangles up support the answer, triangles down contradict it; size is the effect. */
function marks(evidence, scale, line) {
  const effects = new Map();
  for (const fact of evidence.filter(({ time }) => scale.has(time))) {
    const key = `${sideOf(fact)} ${fact.time}`;
    const mark = effects.get(key) ?? { kind: sideOf(fact), time: fact.time, effect: 0 };
    effects.set(key, { ...mark, effect: mark.effect + Math.abs(fact.effect ?? 0) });
  }
  const all = [...effects.values()];
  const largest = Math.max(...all.map((mark) => mark.effect)) || 1;
  return all.map(({ kind, time, effect }) => {
    const size = 3.5 + 4.5 * Math.sqrt(effect / largest);
    const [x, y] = [scale.middle(time), ROWS[kind]];
    const tip = kind === "for" ? -size : size;
    return svg(
      "g",
      { class: `mark ${kind}` },
      svg("line", { x1: x, x2: x, y1: y + size, y2: line }),
      svg("path", { d: `M${x} ${y + tip}L${x - size} ${y - tip}H${x + size}Z` }),
    );
  });
}

/** Hover or use the arrow keys to read the facts of a day; choose it to query that time. */
function bindDays(columns, days, scale, view, go, read) {
  const ahead = (column) => scale.left(column.dataset.time) >= scale.left(view.time);
  const stop = Math.max(0, columns.findIndex(ahead));
  columns[stop]?.setAttribute("tabindex", "0");
  columns.forEach((column, index) => {
    const { time } = column.dataset;
    column.addEventListener("pointerenter", () => read(time));
    column.addEventListener("focus", () => {
      column.setAttribute("aria-label", dayLabel(time, days.at(time)));
      read(time);
    });
    column.addEventListener("click", () => go(time));
    column.addEventListener("keydown", (event) => {
      const next = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: columns.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") go(time);
      else if (columns[next]) columns[next].focus();
      else return;
      event.preventDefault();
    });
  });
}
