"""What the programs of benchmarks/ found, as tables: they print them, and the docs show those of the kept results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tempograph.report.text_table import TextTable

Measured = dict[str, Any]
"""What a program of benchmarks/ writes as JSON: the environment, and figures for each thing measured."""

Columns = Mapping[str, Callable[[dict[str, Any]], str]]
"""What a column is called, and its cell for the figures of one thing."""


def figure(name: str, shape: str = "", unit: float = 1) -> Callable[[dict[str, Any]], str]:
    """The cell of a figure by its name, as many digits as its shape says, in a unit."""
    return lambda found: format(found[name] if unit == 1 else found[name] / unit, shape)


def temp_speed_table(measured: Measured, about: str = "") -> TextTable:
    """An epoch of TeMP, an evaluation, the most memory, and how near the epoch comes to the floor."""
    columns: Columns = {
        "model": figure("model"),
        "dataset": figure("dataset"),
        "s/epoch": figure("epoch_seconds", ".2f"),
        "s/valid": figure("evaluation_seconds", ".2f"),
        "GiB": figure("training_peak_bytes", ".1f", 2**30),
        "of the floor": figure("share_of_floor", ".1%"),
        "paper: s/epoch": lambda found: (
            f"{found['paper_epoch_seconds']:,}" if found["paper_epoch_seconds"] else "-"
        ),
    }
    return _text_table("Speed of TeMP", measured, columns, 2, about)


def methods_speed_table(measured: Measured, about: str = "") -> TextTable:
    """Parameters of every method, an epoch, ranking valid, and the most memory."""
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
    """Our layers beside the usual ways to write them."""
    columns: Columns = {
        "layer": figure("what"),
        "who": figure("who"),
        "milliseconds": figure("seconds", ".1f", 0.001),
        "times ours": figure("times_ours", ".1f"),
    }
    return _text_table("Speed of layers", measured, columns, 2, about)


def pointer_speed_table(measured: Measured, about: str = "") -> TextTable:
    """An epoch of the pointer with its kernels, and with plain operations."""
    columns: Columns = {
        "dataset": figure("dataset"),
        "facts/step": figure("facts_per_step", ","),
        "s/epoch": figure("epoch_seconds", ".2f"),
        "plain: s/epoch": figure("twin_epoch_seconds", ".2f"),
        "times": lambda found: f"{found['twin_epoch_seconds'] / found['epoch_seconds']:.1f}",
        "GiB": figure("peak_bytes", ".2f", 2**30),
        "plain: GiB": figure("twin_peak_bytes", ".2f", 2**30),
    }
    return _text_table("Speed of the pointer", measured, columns, 1, about)


def _text_table(
    title: str, measured: Measured, columns: Columns, left: int, about: str
) -> TextTable:
    rows = [[cell(found) for cell in columns.values()] for found in measured["results"]]
    caption = f"{measured['environment']['hardware']}{f'; {about}' if about else ''}."
    return TextTable(title, tuple(columns), rows, left, caption)
