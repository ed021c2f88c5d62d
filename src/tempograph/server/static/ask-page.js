// The page that asks for a missing part of a fact: answers, evidence, timeline and neighbors.

import { answersPanel } from "./answers.js";
import { $, el } from "./dom.js";
import { evidenceAnnouncement, evidencePanel } from "./evidence.js";
import { graphPanel } from "./graph.js";
import { QueryForm } from "./query-form.js";
import { timelinePanel } from "./timeline.js";
import { queryText, timeText, untilOf } from "./view.js";
import { plural } from "./format.js";

const OF_ALL = "The probabilities of all candidates add up to 100%.";
const AT_BEST = "Each probability is that at the time of the period when the answer is most likely.";

export const askPage = {
  name: "ask",
  label: "Ask",
  timed: true,
  start: ({ asked, subject, relation, object, time, answer, first, last, until }) => ({
    asked,
    subject,
    relation,
    object,
    time,
    answer,
    first,
    last,
    until,
  }),
  title: (view) => `${queryText(view)} ${timeText(view)}`,
  mount(app) {
    const form = new QueryForm(app);
    const panels = makePanels(app);
    return {
      elements: [$("question"), $("ask")],
      target: "answers",
      show(view) {
        $("asking").replaceChildren(`${queryText(view)} `, el("span", { class: untilOf(view) ? null : "nowrap" }, timeText(view)));
        $("evidence-title").textContent = view.answer ? `Why ${view.answer}?` : "Evidence";
        $("probability-note").textContent = untilOf(view) ? AT_BEST : OF_ALL;
        $("ask").classList.toggle("comparing", view.other !== "");
        form.show(view);
        for (const panel of panels) panel.show(view);
      },
    };
  },
};

function makePanels(app) {
  const onError = (error) => app.report(error);
  const ofOther = (error) => app.reportOfOther(error);
  const spoken = { run: "", other: "" };
  let evidence = [];
  const first = answersPanel($("first"), "run", app, () => null, answered, onError);
  const second = answersPanel($("second"), "other", app, () => first.data, noop, ofOther);
  const reasons = evidencePanel($("first-evidence"), "run", app, onEvidence, onError);
  const others = evidencePanel($("second-evidence"), "other", app, (data) => say("other", data), ofOther);
  const timeline = timelinePanel(
    $("timeline"),
    app,
    () => evidence,
    () => graph.redraw(),
    onError,
  );
  const graph = graphPanel($("graph"), app, () => timeline.data, onError);
  return [first, second, reasons, others, timeline, graph];

  function noop() {}

  function answered(data) {
    second.redraw();
    if (data) app.announce(announcement(data));
  }

  function say(which, data) {
    spoken[which] = data === null ? "" : evidenceAnnouncement(data);
    const words = `${spoken.run} ${spoken.other}`.trim();
    if ($("evidence-status").textContent !== words) $("evidence-status").textContent = words;
  }

  function onEvidence(data) {
    say("run", data);
    const facts = data?.evidence ?? [];
    const acting = facts.filter((fact) => fact.effect);
    evidence = acting.length ? acting : facts;
    timeline.redraw();
  }
}

function announcement({ answers, run }) {
  const first = answers.length ? `; the best is ${answers[0].name}` : "";
  return `${plural(answers.length, "answer")} from ${run}${first}`;
}
