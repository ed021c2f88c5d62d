"""The sections of a trust report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tempograph.data.protocol import task_of
from tempograph.evaluation.reliability import reliability_cells
from tempograph.models.registry import model_kind
from tempograph.prediction.forecast import Forecast
from tempograph.report.document import Block, Code, Details, Heading, Paragraph, Picture
from tempograph.report.model_plots import reliability_figure
from tempograph.report.search_report import search_blocks
from tempograph.report.stored_figures import interval_figures, other_protocols
from tempograph.report.text_table import TextTable
from tempograph.report.trust_data import data_blocks
from tempograph.report.trust_examples import ExampleAnswer
from tempograph.report.trust_facts import (
    example_blocks,
    forecast_blocks,
    missing_blocks,
    surprising_blocks,
)
from tempograph.report.trust_figures import (
    GROUPINGS,
    MIN_QUESTIONS,
    QUESTIONS,
    GroupedBy,
    TrustFigures,
    describe_group,
)
from tempograph.training.run_card import describe_basis
from tempograph.training.runs import Run
from tempograph.training.search_record import read_search_record
from tempograph.typing import ASKED, Asked, Task

_WORST_RELATIONS: Final = 15
_ASKED: Final[dict[Asked, str]] = {
    "entity": "who: (s, r, ?, t) and (?, r, o, t)",
    "relation": "relation: (s, ?, o, t)",
    "time": "when: (s, r, o, ?)",
}


_BASELINE_WORDS: Final[dict[Task, str]] = {
    "complete": "TED copies known facts that are near in time.",
    "forecast": (
        "Recurrency says that what happened will happen again: it counts how often the subject or "
        "object had each answer before, recent facts more than old ones."
    ),
}
_HEAD_WORDS: Final = (
    " Counts of the pair rank relations by how often the two entities had them; activity of the "
    "pair ranks times by how many facts the two entities have near them."
)


def trust_blocks(
    run: Run,
    figures: TrustFigures,
    examples: Sequence[ExampleAnswer],
    missing: Sequence[Mapping[str, Any]],
    surprising: Sequence[Mapping[str, Any]],
    forecast: Forecast | None = None,
) -> list[Block]:
    """All blocks of a trust report; a forecaster has a forecast in place of missing facts."""
    found = missing_blocks(run, missing) if forecast is None else forecast_blocks(run, forecast)
    return [
        *_summary(run, figures),
        *_other_figures(run),
        *_weak(figures),
        *_calibration(run),
        *example_blocks(examples),
        *found,
        *surprising_blocks(surprising),
        *data_blocks(run),
        *_search(run),
        *_model(run),
    ]


def _search(run: Run) -> list[Block]:
    record = None if run.path is None else read_search_record(run.path)
    return [] if record is None else search_blocks(record)


def figures_table(figures: TrustFigures, model: str) -> TextTable:
    """The figures of a model beside those of the baselines."""
    rows = []
    for each in figures.questions:
        error = each["calibration_error"]
        named = [(model, each["metrics"], "-" if error is None else f"{error:.3f}")]
        if each["baseline"] is not None and each["baseline_metrics"] is not None:
            named.append((each["baseline"], each["baseline_metrics"], "-"))
        for name, metrics, shown in named:
            hits = (f"{100 * metrics[f'hits@{k}']:.1f}" for k in (1, 3, 10))
            count = f"{each['questions']:,}"
            question = QUESTIONS[each["asked"]]
            rows.append([question, name, count, f"{metrics['mrr']:.3f}", *hits, shown])
    return TextTable(
        "Answers to questions about held-out facts, beside plain baselines",
        ("question", "answered by", "questions", "MRR", "first", "first 3", "first 10", "error"),
        rows,
        2,
        "First, first 3, first 10: how often the right answer is there, in percent. Error: the "
        "expected calibration error of the probabilities.",
        narrow_columns=(
            ("question", (0,)),
            ("answered by", (1,)),
            ("MRR", (3,)),
            ("first, 3, 10", (4, 5, 6)),
            ("error", (7,)),
        ),
    )


def _summary(run: Run, figures: TrustFigures) -> list[Block]:
    graph, options = run.graph, run.import_options
    only_entities = all(each["asked"] == "entity" for each in figures.questions)
    baselines = _BASELINE_WORDS[task_of(run.config.protocol)]
    if not only_entities:
        baselines += _HEAD_WORDS
    if run.timeline.past_only:
        meaning = (
            "The test facts are the latest of the data, and each of them was asked about given all "
            "facts of earlier steps, those of valid and test included (forecast-single). The "
            "figures say how well the next step is forecast. Further ahead they fall."
        )
    elif options is not None and options.split == "chronological":
        meaning = (
            "The test facts are the latest of the data, and the train facts come before them. "
            "Models of this kind fill gaps; for a forecast, these figures are only a first hint."
        )
    else:
        meaning = (
            "The held-out facts are gaps inside the period of the data: facts before and after "
            "them are known. The figures say how well such gaps are filled. They say nothing "
            "about the future."
        )
    return [
        Heading("In short"),
        Paragraph(
            f"{len(graph.test):,} facts were held out for a test that the model had no part in. "
            f"It was asked for {_parts(only_entities)} of each of them. "
            f"{describe_basis(run.results, len(graph.train))}"
        ),
        figures_table(figures, run.config.name),
        Paragraph(meaning),
        Paragraph(
            "Before ranking, other answers that are known to be right are removed. "
            f"{baselines} MRR is the mean of 1 / rank of the right answer."
        ),
    ]


def _other_figures(run: Run) -> list[Block]:
    """What else was measured on test: entities under other protocols, and intervals."""
    results, label = run.results, run.config.name
    found = [
        *other_protocols(results, label, ("test",)),
        *interval_figures(results, label, ("test",)),
    ]
    return [Heading("Other figures on test"), *found] if found else []


def _parts(only_entities: bool) -> str:
    """What was asked for."""
    if only_entities:
        return "the subject and the object"
    return "the subject, the object, the relation and the time"


def _weak(figures: TrustFigures) -> list[Block]:
    weakest = [
        f"{describe_group(each)}: {each['hits@10']:.0%} of {each['questions']:,} questions"
        for each in figures.weakest()
    ]
    overall = figures.questions[0]["metrics"]["hits@10"]
    text = f"The right answer to who-questions is among the first ten in {overall:.0%} of all. "
    if weakest:
        text += f"It is least often there for: {'; '.join(weakest)}."
    by: tuple[GroupedBy, ...] = ("pair", "entity", "step")
    return [
        Heading("Where it is weak"),
        Paragraph(text),
        *(_group_table(figures, each) for each in by if figures.group(each)),
        _relation_table(figures),
    ]


def _group_table(figures: TrustFigures, by: GroupedBy) -> TextTable:
    """A row for each group, with the figures of all kinds of questions."""
    asked_for = [each["asked"] for each in figures.questions]
    found = {
        asked: {each["group"]: each for each in figures.group(by, asked)} for asked in asked_for
    }
    rows = []
    for name, who in found["entity"].items():
        row = [name, f"{who['questions'] // 2:,}"]
        for asked in asked_for:
            each = found[asked].get(name)
            row += ["-", "-"] if each is None else _percents(each["hits@1"], each["hits@10"])
        rows.append(row)
    places = ("1st", "top 10")
    columns = [f"{QUESTIONS[asked]}, {place}" for asked in asked_for for place in places]
    caption = "How often the right answer is first, or among the first ten, in percent."
    return TextTable(GROUPINGS[by][0], ("group", "facts", *columns), rows, 1, caption)


def _relation_table(figures: TrustFigures) -> TextTable:
    """The relations whose who-questions are answered worst."""
    groups = figures.group("relation")
    large = [each for each in groups if each["questions"] >= MIN_QUESTIONS] or groups
    worst = sorted(large, key=lambda each: each["hits@10"])[:_WORST_RELATIONS]
    rows = [
        [
            each["group"],
            f"{each['questions']:,}",
            f"{each['mrr']:.3f}",
            *_percents(each["hits@1"], each["hits@10"]),
        ]
        for each in worst
    ]
    caption = (
        f"Who-questions; the {len(worst)} worst of {len(large):,} relations with at least "
        f"{MIN_QUESTIONS} questions."
        if large is not groups
        else "Who-questions."
    )
    columns = ("relation", "questions", "MRR", "first", "first 10")
    return TextTable("Relations", columns, rows, 1, caption)


def _percents(*shares: float) -> list[str]:
    return [f"{100 * share:.1f}" for share in shares]


def _calibration(run: Run) -> list[Block]:
    blocks: list[Block] = [
        Heading("How far to trust a probability"),
        Paragraph(
            "Of the answers with a probability of 70%, about 70% should be right. The tables "
            "compare both on facts held out for validation. Each half of these facts is measured "
            "with probabilities that were fitted on the other half."
        ),
    ]
    for asked in ASKED:
        found = run.results.calibration_of(asked)
        if found is None:
            continue
        table = TextTable(
            f"Questions {_ASKED[asked]}",
            *reliability_cells(found["reliability"]),
            caption=f"{found['facts']:,} facts; expected calibration error "
            f"{found['calibration_error']:.3f}.",
        )
        alt = (
            f"{QUESTIONS[asked].capitalize()}-questions: how often the best answer is right, by "
            "its probability. On the dashed line both are equal."
        )
        figure = reliability_figure(found, run.config.about)
        picture = Picture(f"calibration-{asked}", figure, alt)
        shown: list[Block] = [table, picture]
        if asked != "entity":
            shown = [table, Details(f"The same as a figure: {QUESTIONS[asked]}", [picture])]
        blocks += shown
    return blocks + _occurrence(run)


def _occurrence(run: Run) -> list[Block]:
    """How far the probability that a fact happens can be trusted."""
    found = run.results.occurrence
    if found is None or not found["reliability"]:
        return []
    columns, cells = reliability_cells(found["reliability"])
    columns[1:] = ["facts", "mean", "happened"]
    caption = (
        f"{found['proposals']:,} facts that were said to be possible at {found['steps']} steps of "
        f"valid, of which {found['found']:,} happened; expected calibration error "
        f"{found['calibration_error']:.3f}."
    )
    return [TextTable("Will it happen? One step ahead", columns, cells, caption=caption)]


def _model(run: Run) -> list[Block]:
    config, results = run.config, run.results
    why = "" if run.fit is None else f", because {run.fit.choice.why}"
    text = (
        f"{config.name}{why}. In short: {model_kind(config.name).summary}. Protocol "
        f"{config.protocol}, seed {config.seed}, {results.parameters:,} parameters, trained on "
        f"{results.hardware}."
    )
    return [
        Heading("The model"),
        Paragraph(text),
        Details("Settings (config.toml)", [Code(config.to_toml())], printed=True),
    ]
