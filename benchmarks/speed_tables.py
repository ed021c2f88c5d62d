"""Tables of the measurements of benchmarks/, printed by its programs and shown in the docs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from tempograph.report.text_table import TextTable

Measured = dict[str, Any]
"""The JSON of a program of benchmarks/: its environment, and a list of results."""

Columns = Mapping[str, Callable[[dict[str, Any]], str]]
"""The name of each column, and the function from a result to its cell."""


def figure(name: str, digits: str = "", unit: float = 1) -> Callable[[dict[str, Any]], str]:
    """Return a function that formats a figure of a result in a unit."""
    return lambda result: format(result[name] if unit == 1 else result[name] / unit, digits)


def temp_speed_table(measured: Measured, about: str = "") -> TextTable:
    """Return the times of an epoch and an evaluation of TeMP, peak memory, and the lower bound."""
    columns: Columns = {
        "model": figure("model"),
        "dataset": figure("dataset"),
        "s/epoch": figure("epoch_seconds", ".2f"),
        "s/valid": figure("evaluation_seconds", ".2f"),
        "GiB": figure("training_peak_bytes", ".1f", 2**30),
        "efficiency": figure("share_of_floor", ".1%"),
        "paper: s/epoch": lambda result: (
            # The paper prints the times of TeMP-GRU alone.
            f"{result['paper_epoch_seconds']:,}" if result["model"] == "temp-gru" else "-"
        ),
    }
    return _text_table("Speed of TeMP", measured, columns, 2, about)


def methods_speed_table(measured: Measured, about: str = "") -> TextTable:
    """Return parameters, the times of an epoch and an evaluation, and peak memory."""
    columns: Columns = {
        "model": figure("model"),
        "dataset": figure("dataset"),
        "parameters": figure("parameters", ","),
        "s/epoch": figure("epoch_seconds", ".2f"),
        "s/valid": figure("evaluation_seconds", ".2f"),
        "GiB": figure("peak_bytes", ".2f", 2**30),
    }
    return _text_table("Speed of methods", measured, columns, 2, about)


def layers_speed_table(measured: Measured, about: str = "") -> TextTable:
    """Return the times of our layers and of the usual ways to write them."""
    columns: Columns = {
        "layer": figure("what"),
        "implementation": figure("who"),
        "milliseconds": figure("seconds", ".1f", 0.001),
        "relative time": figure("times_ours", ".1f"),
    }
    return _text_table("Speed of layers", measured, columns, 2, about)


def pointer_speed_table(measured: Measured, about: str = "") -> TextTable:
    """Return the times of an epoch of the pointer, with kernels and with plain operations."""
    columns: Columns = {
        "dataset": figure("dataset"),
        "facts/step": figure("facts_per_step", ","),
        "s/epoch": figure("epoch_seconds", ".2f"),
        "plain torch: s/epoch": figure("twin_epoch_seconds", ".2f"),
        "speedup": lambda result: f"{result['twin_epoch_seconds'] / result['epoch_seconds']:.1f}",
        "GiB": figure("peak_bytes", ".2f", 2**30),
        "plain torch: GiB": figure("twin_peak_bytes", ".2f", 2**30),
    }
    return _text_table("Speed of the pointer", measured, columns, 1, about)


def missing_facts_table(measured: Measured, about: str = "") -> TextTable:
    """Return how many hidden facts are among the first of each ranking of facts."""

    def calibration(result: dict[str, Any]) -> str:
        return f"{result['calibration_error']:.3f}" if "calibration_error" in result else "-"

    columns: Columns = {
        "model": lambda result: f"{result['model']}, {result['dataset']}",
        "ranking": figure("ranking"),
        "first": figure("proposals", ","),
        "hidden": figure("found", ","),
        "share": figure("share", ".1%"),
        "ECE": calibration,
        "seconds": figure("seconds", ".1f"),
    }
    return _text_table("Hidden facts among the first proposals", measured, columns, 2, about)


def will_it_happen_table(measured: Measured, about: str = "") -> TextTable:
    """Return how many of the most likely facts of a step happened, for each way to rank them."""

    def first(count: int) -> Callable[[dict[str, Any]], str]:
        return lambda result: f"{result['precision'][str(count)]:.1%}"

    def optional(name: str, digits: str) -> Callable[[dict[str, Any]], str]:
        return lambda result: format(result[name], digits) if name in result else "-"

    columns: Columns = {
        "model": lambda result: f"{result['model']}, {result['dataset']}",
        "ranking": figure("ranking"),
        "of first 10": first(10),
        "of first 100": first(100),
        "of first 1,000": first(1000),
        "expected": optional("expected", ",.0f"),
        "happened": optional("happened", ","),
        "ECE": optional("calibration_error", ".3f"),
    }
    return _text_table("Facts that happened among the most likely", measured, columns, 2, about)


def defaults_table(measured: Measured) -> TextTable:
    """Return how good suggested settings are beside those of a preset."""

    def differ(result: dict[str, Any]) -> str:
        return ", ".join(
            f"{name.partition('.')[2]} {_setting(ours)} ({_setting(theirs)})"
            for name, (ours, theirs) in result["different"].items()
        )

    def mrr(name: str) -> Callable[[dict[str, Any]], str]:
        return lambda result: "-" if result[name] is None else f"{result[name]:.3f}"

    columns: Columns = {
        "dataset": figure("dataset"),
        "model": figure("model"),
        "suggested (preset)": lambda result: differ(result) or "all the same",
        "of both": lambda result: ", ".join(result["set"]) or "-",
        "hardware": figure("hardware"),
        "facts": figure("facts", ","),
        "entities": figure("entities", ","),
        "suggested: MRR": mrr("suggested_mrr"),
        "preset: MRR": mrr("preset_mrr"),
    }
    about = "valid facts, seed 0; with the same settings, nothing was trained"
    return _text_table("Suggested settings beside presets", measured, columns, 5, about)


def _setting(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def fit_speed_table(measured: Measured, about: str = "") -> TextTable:
    """Return how long `fit` took on some data, and how good its model is."""

    def memory(result: dict[str, Any]) -> str:
        return f"{result['peak_bytes'] / 1e9:.1f}"

    def ted(result: dict[str, Any]) -> str:
        return "-" if result["ted_mrr"] is None else f"{result['ted_mrr']:.3f}"

    columns: Columns = {
        "data": figure("data"),
        "hardware": figure("hardware"),
        "model": figure("model"),
        "facts": figure("facts", ","),
        "entities": figure("entities", ","),
        "seconds": figure("seconds", ".0f"),
        "CPU seconds": figure("cpu_seconds", ".0f"),
        "memory, GB": memory,
        "MRR": figure("mrr", ".3f"),
        "TED: MRR": ted,
    }
    finished = [result for result in measured["results"] if "seconds" in result]
    shown = {**measured, "results": finished}
    return _text_table("Time of a fit", shown, columns, 3, about)


def many_entities_table(measured: Measured, about: str = "") -> TextTable:
    """Return what models cost on worlds with many entities, and how good they are."""

    def trained(name: str, digits: str) -> Callable[[dict[str, Any]], str]:
        return lambda result: format(result[name], digits) if name in result else "-"

    def peak(result: dict[str, Any]) -> str:
        bytes_ = max(result["training_peak_bytes"], result["ranking_peak_bytes"])
        return f"{bytes_ / 2**30:.1f}"

    columns: Columns = {
        "world": figure("dataset"),
        "model": figure("model"),
        "hardware": figure("hardware"),
        "entities": figure("entities", ","),
        "train facts": figure("train_facts", ","),
        "epochs": trained("epochs", ".3g"),
        "s/epoch": trained("epoch_seconds", ".3g"),
        "us/fact": trained("microseconds_per_fact", ".3g"),
        "GiB": peak,
        "questions": figure("questions", ","),
        "ranking s": figure("ranking_seconds", ".3g"),
        "MRR": lambda result: f"{result['metrics']['mrr']:.3f}",
    }
    return _text_table("Many entities", measured, columns, 3, about)


def forecast_speed_table(measured: Measured) -> TextTable:
    """Return the seconds of an epoch of forecasters beside those of completion."""
    columns: Columns = {
        "model": lambda result: f"{result['model']}, {result['dataset']}",
        "completion: s/epoch": figure("strict", ".2f"),
        "forecasts: s/epoch": figure("forecast-single", ".2f"),
        "ratio": figure("ratio", ".2f"),
    }
    return _text_table(
        "An epoch of a forecaster beside one of completion", measured, columns, 1, ""
    )


def interval_training_table(measured: Measured) -> TextTable:
    """Return the seconds of an epoch on facts that hold for a while, by how long they do."""
    columns: Columns = {
        "model": figure("model"),
        "facts": figure("facts", ","),
        "steps": figure("steps", ","),
        "steps a fact holds": figure("length", ","),
        "preparation, s": figure("timeline_seconds", ".1f"),
        "s/epoch": figure("epoch_seconds", ".1f"),
        "GiB": figure("peak_bytes", ".1f", 2**30),
    }
    return _text_table("Training on facts that hold for a while", measured, columns, 1, "")


def import_speed_table(measured: Measured) -> TextTable:
    """Return the time and the peak memory of an import."""
    columns: Columns = {
        "file": figure("kind"),
        "MB": figure("bytes", ",.0f", 1e6),
        "rows": figure("rows", ","),
        "skipped": figure("skipped", ","),
        "duplicates": figure("duplicates", ","),
        "entities": figure("entities", ","),
        "steps": figure("steps", ","),
        "seconds": figure("seconds", ".0f"),
        "CPU seconds": figure("cpu_seconds", ".0f"),
        "peak GB": figure("peak_bytes", ".1f", 1e9),
    }
    return _text_table("Import", measured, columns, 1, "")


def serve_speed_table(measured: Measured) -> TextTable:
    """Return the questions a second of services, beside those of the version before."""
    before = {
        result["model"]: result for result in measured["results"] if result["service"] == "before"
    }

    def speedup(result: dict[str, Any]) -> str:
        return f"{result['per_second'] / before[result['model']]['per_second']:.1f}"

    columns: Columns = {
        "model": figure("model"),
        "service": figure("service"),
        "questions/s": figure("per_second", ",.0f"),
        "speedup": speedup,
        "p50 ms": figure("p50", ".0f", 0.001),
        "p99 ms": figure("p99", ".0f", 0.001),
        "CPU ms/question": figure("cpu_seconds_per_question", ".2f", 0.001),
        "light p99 ms": figure("light_p99", ",.0f", 0.001),
        "MiB": figure("memory_bytes", ",.0f", 2**20),
    }
    others = statistics.median(result["cores_of_others"] for result in measured["results"])
    clients = statistics.median(result["cores_of_clients"] for result in measured["results"])
    about = (
        f"{measured['clients']} clients on the same machine, which used {clients:.2f} cores; other "
        f"programs used {others:.2f}"
    )
    return _text_table("Speed of the service", measured, columns, 2, about)


def _text_table(
    title: str, measured: Measured, columns: Columns, left: int, about: str
) -> TextTable:
    rows = [[cell(result) for cell in columns.values()] for result in measured["results"]]
    environment, results = measured["environment"], measured["results"]
    commit = f"commit {environment['commit'][:7]}" if environment["commit"] else "unknown commit"
    changed = " with changes" if environment.get("dirty") else ""
    # Rows that name their hardware may be from several machines.
    where = "" if any("hardware" in each for each in results) else f"{environment['hardware']}, "
    caption = f"{where}{commit}{changed}{f'; {about}' if about else ''}."
    caption = caption[0].upper() + caption[1:]
    elsewhere: dict[str, list[str]] = {}
    for result in results:
        if result.get("commit", environment["commit"]) != environment["commit"]:
            name = f"{result['model']} on {result.get('dataset') or result['data']}"
            elsewhere.setdefault(result["commit"][:7], []).append(name)
    for other, names in elsewhere.items():
        caption += f" Measured at commit {other}: {', '.join(names)}."
    return TextTable(title, tuple(columns), rows, left, caption)
