"""What the programs of benchmarks/ found, as tables: they print them, and the docs show those of the kept results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tempograph.sheet import Sheet

Measured = dict[str, Any]
"""What a program of benchmarks/ writes as JSON: the environment, and figures for each thing measured."""

Columns = Mapping[str, Callable[[dict[str, Any]], str]]
"""What a column is called, and its cell for the figures of one thing."""


def temp_speed_sheet(measured: Measured, about: str = "") -> Sheet:
    """An epoch of TeMP, an evaluation, the most memory, and how near the epoch comes to the floor."""
    columns: Columns = {
        "model": lambda found: found["model"],
        "dataset": lambda found: found["dataset"],
        "s/epoch": lambda found: f"{found['epoch_seconds']:.2f}",
        "s/valid": lambda found: f"{found['evaluation_seconds']:.2f}",
        "GiB": lambda found: f"{found['training_peak_bytes'] / 2**30:.1f}",
        "of the floor": lambda found: f"{found['share_of_floor']:.1%}",
        "paper: s/epoch": lambda found: f"{found['paper_epoch_seconds']:,}" if found["paper_epoch_seconds"] else "-",
    }
    return _sheet("Speed of TeMP", measured, columns, 2, about)


def methods_speed_sheet(measured: Measured, about: str = "") -> Sheet:
    """Parameters of every method, an epoch, ranking valid, and the most memory."""
    columns: Columns = {
        "model": lambda found: found["model"],
        "dataset": lambda found: found["dataset"],
        "parameters": lambda found: f"{found['parameters']:,}",
        "s/epoch": lambda found: f"{found['epoch_seconds']:.2f}",
        "s/valid": lambda found: f"{found['evaluation_seconds']:.2f}",
        "GiB": lambda found: f"{found['peak_bytes'] / 2**30:.2f}",
    }
    return _sheet("Speed of methods", measured, columns, 2, about)


def layers_speed_sheet(measured: Measured, about: str = "") -> Sheet:
    """Our layers beside the usual ways to write them."""
    columns: Columns = {
        "layer": lambda found: found["what"],
        "who": lambda found: found["who"],
        "milliseconds": lambda found: f"{found['seconds'] * 1000:.1f}",
        "times ours": lambda found: f"{found['times_ours']:.1f}",
    }
    return _sheet("Speed of layers", measured, columns, 2, about)


def pointer_speed_sheet(measured: Measured, about: str = "") -> Sheet:
    """An epoch of the pointer with its kernels, and with plain operations."""
    columns: Columns = {
        "dataset": lambda found: found["dataset"],
        "facts/step": lambda found: f"{found['facts_per_step']:,}",
        "s/epoch": lambda found: f"{found['epoch_seconds']:.2f}",
        "plain: s/epoch": lambda found: f"{found['twin_epoch_seconds']:.2f}",
        "times": lambda found: f"{found['twin_epoch_seconds'] / found['epoch_seconds']:.1f}",
        "GiB": lambda found: f"{found['peak_bytes'] / 2**30:.2f}",
        "plain: GiB": lambda found: f"{found['twin_peak_bytes'] / 2**30:.2f}",
    }
    return _sheet("Speed of the pointer", measured, columns, 1, about)


def _sheet(title: str, measured: Measured, columns: Columns, left: int, about: str) -> Sheet:
    rows = [[cell(found) for cell in columns.values()] for found in measured["results"]]
    caption = f"{measured['environment']['hardware']}{f'; {about}' if about else ''}."
    return Sheet(title, tuple(columns), rows, left, caption)
