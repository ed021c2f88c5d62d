"""What the programs of benchmarks/ found, as tables: they print them, and the docs show those of the kept results."""

from __future__ import annotations

from typing import Any

from tempograph.sheet import Sheet

Measured = dict[str, Any]
"""What a program of benchmarks/ writes as JSON: the environment, and a row of figures for each thing measured."""


def temp_speed_sheet(measured: Measured, about: str = "") -> Sheet:
    """An epoch of TeMP, an evaluation, the most memory, and how near the epoch comes to the floor."""
    rows = [
        [
            found["model"],
            found["dataset"],
            f"{found['epoch_seconds']:.2f}",
            f"{found['evaluation_seconds']:.2f}",
            f"{found['training_peak_bytes'] / 2**30:.1f}",
            f"{found['share_of_floor']:.1%}",
            f"{found['paper_epoch_seconds']:,}" if found["paper_epoch_seconds"] else "-",
        ]
        for found in measured["results"]
    ]
    columns = ("model", "dataset", "s/epoch", "s/valid", "GiB", "of the floor", "paper: s/epoch")
    return Sheet("Speed of TeMP", columns, rows, 2, _caption(measured, about))


def methods_speed_sheet(measured: Measured, about: str = "") -> Sheet:
    """Parameters of every method, an epoch, ranking valid, and the most memory."""
    rows = [
        [
            found["model"],
            found["dataset"],
            f"{found['parameters']:,}",
            f"{found['epoch_seconds']:.2f}",
            f"{found['evaluation_seconds']:.2f}",
            f"{found['peak_bytes'] / 2**30:.2f}",
        ]
        for found in measured["results"]
    ]
    columns = ("model", "dataset", "parameters", "s/epoch", "s/valid", "GiB")
    return Sheet("Speed of methods", columns, rows, 2, _caption(measured, about))


def layers_speed_sheet(measured: Measured, about: str = "") -> Sheet:
    """Our layers beside the usual ways to write them."""
    rows = [
        [found["what"], found["who"], f"{found['seconds'] * 1000:.1f}", f"{found['times_ours']:.1f}"]
        for found in measured["results"]
    ]
    columns = ("layer", "who", "milliseconds", "times ours")
    return Sheet("Speed of layers", columns, rows, 2, _caption(measured, about))


def pointer_speed_sheet(measured: Measured, about: str = "") -> Sheet:
    """An epoch of the pointer with its kernels, and with plain operations."""
    rows = [
        [
            found["dataset"],
            f"{found['facts_per_step']:,}",
            f"{found['epoch_seconds']:.2f}",
            f"{found['twin_epoch_seconds']:.2f}",
            f"{found['twin_epoch_seconds'] / found['epoch_seconds']:.1f}",
            f"{found['peak_bytes'] / 2**30:.2f}",
            f"{found['twin_peak_bytes'] / 2**30:.2f}",
        ]
        for found in measured["results"]
    ]
    columns = ("dataset", "facts/step", "s/epoch", "plain: s/epoch", "times", "GiB", "plain: GiB")
    return Sheet("Speed of the pointer", columns, rows, 1, _caption(measured, about))


def _caption(measured: Measured, about: str) -> str:
    return f"{measured['environment']['hardware']}{f'; {about}' if about else ''}."
