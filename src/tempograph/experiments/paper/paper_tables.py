"""The tables of the paper with ours beside them, and those of the docs, all made from measured results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.experiments.published import (
    PAPER_ABLATION,
    PAPER_SIZES,
    PAPER_TED_VALID,
    PAPER_TEST,
    SEES_WHO_IS_ACTIVE,
    Published,
    published,
)
from tempograph.experiments.results import (
    SPREAD,
    Alone,
    Result,
    best_settings,
    figure_cells,
    figures,
    mean_of,
    seeds_cells,
    without_copies,
)
from tempograph.models.registry import MODELS, model_kind
from tempograph.report.text_table import TextTable
from tempograph.training.setting_values import flat_settings
from tempograph.typing import Protocol

_FIGURES: Final = ("MRR", "Hits@1", "Hits@3", "Hits@10")
_BESIDE: Final = ("published: MRR", "Hits@1", "Hits@3", "Hits@10")
_NAMED: Final = (*_FIGURES, *(f"published {name}" for name in _FIGURES))
"""Our figures and the published ones, as programs tell them apart."""
_BOTH: Final[tuple[Protocol, ...]] = ("paper", "strict")
_NOTHING: Final = ["-"] * 4


def comparative_table(
    results: Sequence[Result], dataset: str, protocols: Sequence[Protocol] = _BOTH
) -> TextTable:
    """The paper's comparative table, then the models it does not have; settings are those best on valid.

    Models whose figures depend on the protocol are shown under these alone, the others always.
    """
    best, rows = best_settings(results), []
    for model, protocol in _models(protocols):
        runs, theirs = best.get((dataset, model, protocol), []), _beside(dataset, model, protocol)
        if runs or theirs != _NOTHING:
            ours = seeds_cells([run["test"]["metrics"] for run in runs]) if runs else _NOTHING
            rows.append([model, protocol, str(len(runs) or "-"), *ours, *theirs])
    caption = (
        f"Test, filter by time, Hits in per cent; {SPREAD}. A dash: not measured, or not published."
    )
    if dataset == "gdelt":
        caption += " GDELT's facts may not be passed on, so nothing of it is measured here."
    packed = (
        ("model, protocol", [0, 1]),
        ("MRR", [3]),
        ("Hits@1, 3, 10", [4, 5, 6]),
        ("published", range(7, 11)),
    )
    head = ("model", "protocol", "seeds")
    columns, names = (*head, *_FIGURES, *_BESIDE), (*head, *_NAMED)
    return TextTable(f"Models on {dataset}", columns, rows, 2, caption, packed, names, [3])


def preset_table(results: Sequence[Result], dataset: str, models: Sequence[str]) -> TextTable:
    """Every preset measured on a dataset as it is shipped, with its protocol."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in without_copies(results):
        whole = result.get("preset") is not None and not result.get("changed")
        if result["dataset"] == dataset and result["model"] in models and whole:
            groups.setdefault((result["model"], result["preset"], result["protocol"]), []).append(
                result
            )
    rows = []
    for (model, preset, protocol), runs in sorted(groups.items()):
        cells = seeds_cells([run["test"]["metrics"] for run in runs])
        rows.append(
            [model, preset, protocol, str(len(runs)), *cells, *_beside(dataset, model, protocol)]
        )
    caption = f"Test; {SPREAD}."
    head = ("model", "preset", "protocol", "seeds")
    columns, names = (*head, *_FIGURES, *_BESIDE), (*head, *_NAMED)
    return TextTable(f"Presets on {dataset}", columns, rows, 3, caption, names=names, spreads=[4])


def ted_table(results: Sequence[Result], dataset: str, split: str) -> TextTable:
    """TED for every sigma measured on a dataset or published, with a dash where one of the two lacks."""
    printed: dict[float, Published] = {}
    printed |= PAPER_TED_VALID[dataset] if split == "valid" else {1e-1: PAPER_TEST[dataset]["ted"]}
    # A preset may have the sigma of another run, and so its figures.
    of_ted = [run for run in results if (run["model"], run["dataset"]) == ("ted", dataset)]
    found = {run["config"].get("model", {}).get("sigma"): run[split] for run in of_ted}
    found.pop(None, None)
    rows = []
    for sigma in sorted({*found, *PAPER_TED_VALID[dataset]}):
        ours = figure_cells(figures(found[sigma]["metrics"])) if sigma in found else _NOTHING
        rows.append([f"{sigma:g}", *ours, *figure_cells(printed.get(sigma, (None,) * 4))])
    columns = ("sigma", f"{dataset} {split}: MRR", *_FIGURES[1:], *_BESIDE)
    caption = "Hits in per cent; TED depends on no protocol."
    packed = (
        ("sigma", [0]),
        ("MRR", [1]),
        ("Hits@1, 3, 10", [2, 3, 4]),
        ("published", range(5, 9)),
    )
    return TextTable(
        f"TED on {dataset}, {split}", columns, rows, 0, caption, packed, ("sigma", *_NAMED)
    )


def tried_table(results: Sequence[Result], dataset: str, model: str) -> TextTable:
    """Runs that looked for settings, on valid, those of the same settings together: what differs, the best last."""
    runs = [run for run in results if (run["dataset"], run["model"]) == (dataset, model)]
    # What is a setting now and was none then was as it is by default.
    added = {
        f"model.{setting.name}": setting.default for setting in fields(model_kind(model).settings)
    }
    settings = [added | flat_settings(run["config"]) for run in runs]
    names = dict.fromkeys(name for one in settings for name in one)
    varied = [name for name in names if len({str(one.get(name)) for one in settings}) > 1]
    usual = {
        name: Counter(_spelt(one[name]) for one in settings if name in one).most_common(1)[0][0]
        for name in varied
    }
    tried: dict[str, list[dict[str, float]]] = {}
    for run, one in zip(runs, settings, strict=True):
        own = [
            f"{name} = {_spelt(one[name])}"
            for name in varied
            if name in one and _spelt(one[name]) != usual[name]
        ]
        ended = "" if run["finished"] else ", ended by a time limit"
        tried.setdefault((", ".join(own) or "as most others") + ended, []).append(
            run["valid"]["metrics"]
        )
    # What is tried differs by less than the digits that other tables show.
    rows = [
        [what, str(len(metrics)), *seeds_cells(metrics, digits=4)]
        for what, metrics in tried.items()
    ]
    rows.sort(key=lambda row: float(row[2].partition(" ")[0]))
    shared = ", ".join(f"{name} = {value}" for name, value in usual.items())
    caption = (
        f"{dataset}, valid, protocol {runs[0]['protocol']}; unless said: {shared}." if runs else ""
    )
    columns = ("settings", "seeds", *_FIGURES)
    return TextTable(
        f"{model} on {dataset}: what was tried", columns, rows, 1, caption, spreads=[2]
    )


def _spelt(setting: object) -> str:
    return " + ".join(map(str, setting)) if isinstance(setting, list | tuple) else str(setting)


def ablation_table(results: Sequence[Result], dataset: str) -> TextTable:
    """Imputation and gate switched off in the paper's presets, on valid."""
    rows = []
    for model, variants in PAPER_ABLATION.items():
        for (imputation, gate), theirs in variants.items():
            parts = {"imputation": imputation, "gate": gate}
            runs = [
                run for run in without_copies(results) if _is_ablation(run, dataset, model, parts)
            ]
            ours = seeds_cells([run["valid"]["metrics"] for run in runs])[0] if runs else "-"
            paper = figure_cells([theirs.get(dataset)])[0]
            if (ours, paper) != ("-", "-"):
                rows.append(
                    [model, _yes(imputation), _yes(gate), str(len(runs) or "-"), ours, paper]
                )
    columns = ("model", "imputation", "gate", "seeds", "valid MRR", "published")
    caption = f"The paper's presets, protocol paper, valid; {SPREAD}. Attention always imputes."
    return TextTable(f"Imputation and gate on {dataset}", columns, rows, 3, caption, spreads=[4])


def _is_ablation(run: Result, dataset: str, model: str, parts: dict[str, bool]) -> bool:
    asked = {f"model.{name}" for name in parts}
    return (
        (run["dataset"], run["model"], run.get("preset"), run["protocol"])
        == (dataset, model, "paper", "paper")
        and set(run.get("changed", {})) <= asked
        and all(run["config"].get("model", {}).get(name) == value for name, value in parts.items())
    )


def leak_table(results: Sequence[Result]) -> TextTable:
    """What a model gains when facts of valid and test tell who is active: its best settings under both protocols."""
    best, rows = best_settings(results), []
    for dataset, model in sorted(
        {(dataset, model) for dataset, model, _ in best if model in SEES_WHO_IS_ACTIVE}
    ):
        strict, leaking = (
            best.get((dataset, model, protocol), []) for protocol in ("strict", "paper")
        )
        cells = []
        for path, digits in (("mrr", 3), ("hits@10", 1)):
            pair = [mean_of(runs, "test", "metrics", path) for runs in (strict, leaking)]
            scale = 1 if path == "mrr" else 100
            cells += ["-" if value is None else f"{scale * value:.{digits}f}" for value in pair]
            whole = None not in pair
            cells.append(f"{scale * (pair[1] - pair[0]):+.{digits}f}" if whole else "-")  # type: ignore[operator]
        rows.append([dataset, model, *cells])
    columns = ("dataset", "model", "MRR strict", "paper", "leak", "Hits@10 strict", "paper", "leak")
    names = (
        "dataset",
        "model",
        *(f"{of} {what}" for of in ("MRR", "Hits@10") for what in ("strict", "paper", "leak")),
    )
    caption = (
        "Test, Hits in per cent; the settings best on valid under each protocol. The leak is the difference before "
        "rounding."
    )
    packed = (
        ("dataset, model", [0, 1]),
        ("MRR strict, paper, leak", [2, 3, 4]),
        ("Hits@10 strict, paper, leak", [5, 6, 7]),
    )
    return TextTable("What the leak is worth", columns, rows, 2, caption, packed, names)


def error_reduction_table(
    results: Sequence[Result], dataset: str, protocols: Sequence[Protocol] = _BOTH
) -> TextTable:
    """How much of TED's error in Hits@10 each model takes away; protocols as in the comparative table."""
    best, rows = best_settings(results), []
    ted = mean_of(best.get((dataset, "ted", "strict"), []), "test", "metrics", "hits@10")
    for model, protocol in _models(protocols):
        ours = mean_of(best.get((dataset, model, protocol), []), "test", "metrics", "hits@10")
        theirs, their_ted = (
            published(dataset, model, protocol)[3],
            published(dataset, "ted", protocol)[3],
        )
        printed = (
            None
            if theirs is None or their_ted is None
            else _reduction(theirs / 100, their_ted / 100)
        )
        found = None if ours is None or ted is None else _reduction(ours, ted)
        if model != "ted" and (found is not None or printed is not None):
            cells = ["-" if value is None else f"{100 * value:+.1f}" for value in (found, printed)]
            rows.append([model, protocol, *cells])
    columns = ("model", "protocol", "less error than TED, %", "published, %")
    caption = "Relative reduction of 1 - Hits@10 on test; below 0 there is more error than TED's."
    return TextTable(f"Error in Hits@10 on {dataset}, against TED", columns, rows, 2, caption)


def _reduction(hits: float, of_ted: float) -> float:
    return 1 - (1 - hits) / (1 - of_ted)


def cost_table(
    results: Sequence[Result],
    dataset: str,
    protocols: Sequence[Protocol] = _BOTH,
    alone: Alone | None = None,
) -> TextTable:
    """Parameters and time of the best settings of every model, in the order of the comparative table.

    An epoch measured alone stands for that of the runs, where preset and hardware are theirs.
    """
    best, rows, beside, by_itself = best_settings(results), [], list[str](), 0
    for model, protocol in _models(protocols):
        runs = best.get((dataset, model, protocol), [])
        if not runs:
            continue
        hardware, epoch = runs[0].get("hardware"), mean_of(runs, "epoch_seconds")
        if (
            alone is not None
            and (runs[0].get("preset"), hardware) == alone[:2]
            and (dataset, model) in alone.seconds
        ):
            epoch, by_itself = alone.seconds[dataset, model], by_itself + 1
        elif epoch is not None:
            beside.append(f"{model} ({protocol})" if model in SEES_WHO_IS_ACTIVE else model)
        told = (
            (mean_of(runs, "parameters"), ",.0f"),
            (epoch, ".2f"),
            (mean_of(runs, "train_seconds"), ",.0f"),
        )
        cells = ["-" if value is None else format(value, shape) for value, shape in told]
        rows.append([model, protocol, str(hardware or "-"), *cells])
    columns = ("model", "protocol", "hardware", "parameters", "s/epoch", "training s")
    caption = (
        "Training times are of runs that shared a GPU with others, so they do not measure speed."
    )
    if not by_itself:
        caption += " Neither do those of an epoch."
    else:
        caption += " An epoch was measured alone" + (
            f", but for {', '.join(beside)}." if beside else "."
        )
    return TextTable(f"What models cost on {dataset}", columns, rows, 3, caption)


def statistics_table(dataset: str, graph: TemporalGraph | None) -> TextTable:
    """The sizes of a dataset as counted here, where its data are, and as the paper prints them."""
    rows = []
    if graph is not None:
        parts = (graph.entities, graph.relations, graph.times, graph.train, graph.valid, graph.test)
        rows.append([dataset, "here", *_sizes(list(map(len, parts)))])
    if dataset in PAPER_SIZES:
        rows.append([dataset, "published", *_sizes(PAPER_SIZES[dataset])])
    columns = (
        "dataset",
        "counted",
        "entities",
        "relations",
        "time steps",
        "train",
        "valid",
        "test",
        "total",
    )
    swapped = "Two digits of the published train count are swapped, and its total with them: the data have 368,962."
    packed = [
        ("steps" if name == "time steps" else name, [place])
        for place, name in enumerate(columns[:-1])
    ][1:]
    return TextTable(
        f"Sizes of {dataset}", columns, rows, 2, swapped if dataset == "icews05-15" else "", packed
    )


def _sizes(counts: Sequence[int]) -> list[str]:
    return [f"{count:,}" for count in (*counts, sum(counts[3:]))]


def model_table() -> TextTable:
    """Every model of the registry: its score, what depends on time, where it comes from."""
    rows = [
        [kind.name, kind.summary, f"`{kind.score}`", kind.timed, kind.reference]
        for kind in MODELS.values()
    ]
    return TextTable(
        "Models", ("model", "what it does", "score", "depends on time", "reference"), rows, 5
    )


def _models(protocols: Sequence[Protocol] = _BOTH) -> Iterator[tuple[str, str]]:
    """Every model with its protocols: in the paper's order, then those that the paper does not have."""
    printed = PAPER_TEST["icews14"]
    for model in (*printed, *(model for model in MODELS if model not in printed)):
        for protocol in protocols if model in SEES_WHO_IS_ACTIVE else ("strict",):
            yield model, protocol


def _beside(dataset: str, model: str, protocol: str) -> list[str]:
    return figure_cells(published(dataset, model, protocol))


def _yes(value: bool) -> str:
    return "yes" if value else "no"
