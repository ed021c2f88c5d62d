// The page that shows how far probabilities can be trusted: a reliability chart with its figures.

import { get } from "./api.js";
import { el, svg } from "./dom.js";
import { choiceField } from "./fields.js";
import { figures } from "./figures.js";
import { formPage } from "./form-page.js";
import { rankedParts } from "./runs.js";
import { member, table } from "./table.js";
import { number, percent, plural } from "./format.js";

const KINDS = { entity: "entities", relation: "relations", time: "times" };
const SIZE = 300;
const MARGIN = { left: 44, bottom: 40, top: 8, right: 8 };
const DOT = { min: 4, max: 12 };
const TICKS = [0, 0.25, 0.5, 0.75, 1];
const whole = (part) => `${Math.round(100 * part)}%`;
const share = (name, label) =>
  member(name, label, { number: true, cell: (row) => (row[name] == null ? "" : percent(row[name])) });
const COLUMNS = [
  member("from", "Probability", { cell: ({ from, to }) => `${whole(from)} to ${whole(to)}` }),
  member("questions", "Questions", { number: true }),
  share("confidence", "Mean"),
  share("right", "First is right"),
  share("among_ten", "In the first ten"),
];

export const calibrationPage = formPage({
  name: "calibration",
  label: "Calibration",
  about: "Whether answers with a probability of 70% are right in 70% of the cases, measured on valid facts.",
  start: () => ({}),
  title: (view) => `Reliability of the probabilities of ${KINDS[view.kind] ?? view.kind}`,
  fields: [choiceField("kind", "Probabilities of", (app) => kindsOf(app.run))],
  request: (view) => ({ asked: view.kind, runs: [view.run, view.other].filter(Boolean) }),
  load: ({ asked, runs }, signal) => Promise.all(runs.map((run) => get("api/v1/calibration", { asked, run }, signal))),
  draw: (responses) => [el("div", { class: "columns" }, ...responses.map(column))],
  announce: (responses) => responses.map(({ run, calibration }) => `${run}: ${errorText(calibration)}`).join("; "),
});

const kindsOf = (run) =>
  Object.entries(KINDS).filter(([kind]) => kind === "entity" || rankedParts(run).includes(kind));

const errorText = ({ calibration_error: error }) => `calibration error ${percent(error)}`;

const column = ({ run, calibration }) =>
  el(
    "div",
    { class: "column" },
    el("h3", {}, run),
    figures([
      [
        "calibration error",
        percent(calibration.calibration_error),
        `${percent(calibration.calibration_error_before)} before`,
      ],
      ["log loss", number(calibration.log_loss), `${number(calibration.log_loss_before)} before`],
      ["temperature", number(calibration.temperature)],
      [`${calibration.split} facts`, calibration.facts.toLocaleString("en")],
    ]),
    chart(run, calibration),
    table({
      label: `Reliability of ${run}`,
      file: `calibration-${run}`,
      rows: calibration.reliability,
      columns: COLUMNS,
      note: el(
        "p",
        { class: "fine" },
        "Before: with a plain softmax of the scores. Each half of the facts is measured with the probabilities of the ",
        "other half.",
      ),
    }),
  );

const dotText = ({ confidence, right, questions }) =>
  `${percent(confidence)}: right in ${percent(right)} of ${plural(questions, "question")}`;

/** How often the first answer is right, by its probability; on the diagonal, probabilities are as they should be. */
function chart(run, { reliability, ...calibration }) {
  const x = (part) => MARGIN.left + part * SIZE;
  const y = (part) => MARGIN.top + (1 - part) * SIZE;
  const most = Math.max(...reliability.map(({ questions }) => questions));
  const radius = ({ questions }) => DOT.min + (DOT.max - DOT.min) * Math.sqrt(questions / most);
  const points = reliability.map(({ confidence, right }) => `${x(confidence)},${y(right)}`).join(" ");
  const [width, height] = [MARGIN.left + SIZE + MARGIN.right, MARGIN.top + SIZE + MARGIN.bottom];
  const dot = (row) =>
    svg(
      "circle",
      { class: "dot", cx: x(row.confidence), cy: y(row.right), r: radius(row) },
      svg("title", {}, dotText(row)),
    );
  return svg(
    "svg",
    {
      class: "reliability",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Reliability of ${run}: ${errorText(calibration)}. The table below has the same content.`,
    },
    svg("rect", { class: "frame", x: x(0), y: y(1), width: SIZE, height: SIZE }),
    ...TICKS.flatMap((part) => [
      svg("text", { class: "tick", x: x(part), y: y(0) + 16, "text-anchor": "middle" }, whole(part)),
      svg("text", { class: "tick", x: x(0) - 6, y: y(part) + 4, "text-anchor": "end" }, whole(part)),
    ]),
    svg("text", { class: "tick", x: x(0.5), y: y(0) + 34, "text-anchor": "middle" }, "probability of the first answer"),
    svg("line", { class: "diagonal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
    svg("polyline", { class: "reliability-line", points }),
    ...reliability.map(dot),
    svg("text", { class: "tick", x: x(0) + 8, y: y(1) + 18 }, "how often it is right"),
  );
}
