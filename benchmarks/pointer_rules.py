"""Does the pointer learn the rules of the demo world, which records the cause of each rule?

A rule such as "who is accused denies it a day later" is learned if, for queries with its relation,
the weights of facts at that distance rank the relation of the cause first among all relations in
both directions. A recurring rule says that a relation follows itself; those whose relation occurs
only once for a pair are left out.

PYTHONPATH=src python benchmarks/pointer_rules.py --picture docs/images/pointer-rules.png
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from tempograph.cli.console import out, table
from tempograph.data.synthetic.rules import BURSTS, RELATIONS
from tempograph.data.synthetic.world import Rule, World, make_world
from tempograph.models.pointer.copying import Copying
from tempograph.models.pointer.pointer_model import Pointer
from tempograph.report.drawing import save
from tempograph.training.run_evaluation import evaluate
from tempograph.training.trainer import train

_BURST_LAG = 6
"""Steps between facts of a recurring relation whose weight is read."""


@dataclass(frozen=True)
class RuleWeights:
    """A rule from one side: the weights of all relations at its distance, and the true relation."""

    rule: Rule
    weights: Tensor
    cause: int

    @property
    def rank(self) -> int:
        """The rank of the true relation."""
        return 1 + int((self.weights > self.weights[self.cause]).sum())


def main() -> None:
    """Train, read the weights, print, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="draw the weights to this file")
    parser.add_argument("overrides", nargs="*", help="settings, such as train.epochs=20")
    arguments = parser.parse_args()
    world = make_world()
    with tempfile.TemporaryDirectory() as folder:
        run = train(
            world.graph,
            "pointer",
            out=Path(folder) / "run",
            seed=arguments.seed,
            overrides=arguments.overrides,
        )
        valid = evaluate(run, "valid").summary()["metrics"]["mrr"]
    assert isinstance(run.model, Pointer)
    found = rule_weights(run.model, world)
    rows = []
    for kind in ("recurring", "periodic", "reciprocal", "chain"):
        ranks = [one.rank for one in found if one.rule.kind == kind]
        rows.append([kind, str(len(ranks)), f"{share_first(ranks):.0%}", str(max(ranks))])
    every = [one.rank for one in found]
    rows.append(["all", str(len(every)), f"{share_first(every):.0%}", str(max(every))])
    caption = (
        f"Both sides of each rule; valid MRR {valid:.3f}, protocol strict, seed {arguments.seed}."
    )
    out.print(
        table(
            "True relation first",
            ["rules", "queries", "first", "worst rank"],
            rows,
            caption=caption,
        )
    )
    if arguments.picture is not None:
        save(picture(found, world), arguments.picture)


def rule_weights(model: Pointer, world: World) -> list[RuleWeights]:
    """Return the weights of every rule with a cause, from both sides."""
    source = next(
        way
        for way in model.vote_sources
        if isinstance(way, Copying) and way.fact_index.key == "entity"
    )
    relations, found = model.timeline.num_relations, []
    with torch.no_grad():
        pair, _, _ = source.pair(torch.arange(2 * relations, device=model.device))
    middle = len(source.bins.gap_class) // 2
    for rule in world.rules:
        once = rule.kind == "recurring" and BURSTS[RELATIONS[rule.relation % len(RELATIONS)]] == (
            1,
            1,
        )
        if rule.cause is None or once:
            continue
        lag = _BURST_LAG if rule.lag is None else rule.lag
        gap = int(source.bins.gap_class[middle - lag])
        for inverse in (False, True):
            # Seen from the query, the cause is inverse if the query's entity was its object.
            cause = rule.cause + relations * (rule.inverted != inverse)
            found.append(
                RuleWeights(rule, pair[rule.relation + relations * inverse, :, gap].cpu(), cause)
            )
    return found


def share_first(ranks: list[int]) -> float:
    """Return the share of ranks that are 1."""
    return sum(rank == 1 for rank in ranks) / len(ranks)


def picture(found: list[RuleWeights], world: World) -> Figure:
    """Draw a row for each rule and a column for each relation; the true one is framed."""
    names = world.graph.relations
    shown = found[::2]
    figure = Figure(figsize=(12, 7.4), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(torch.stack([one.weights for one in shown]), cmap="viridis", aspect="auto")
    for row, one in enumerate(shown):
        colour = "#D55E00" if one.rank == 1 else "white"
        axes.plot(
            [one.cause],
            [row],
            marker="s",
            markersize=11,
            markerfacecolor="none",
            markeredgecolor=colour,
            mew=2,
        )
    when = {None: "in a burst", 0: "the same day", 1: "a day before"}
    labels = [
        f"{names[one.rule.relation]}, {when.get(one.rule.lag, f'{one.rule.lag} days before')}"
        for one in shown
    ]
    axes.set_yticks(range(len(shown)), labels, fontsize=8)
    both = [*names, *(f"{name}, inverse" for name in names)]
    axes.set_xticks(range(len(both)), both, rotation=90, fontsize=7)
    axes.set_xlabel("relation of the fact that votes")
    axes.set_ylabel("relation asked for, and how long before")
    axes.set_title(
        "Learned weights of facts on the demo world\n"
        "Framed: the relation that the rule starts from, orange if its weight is the largest"
    )
    figure.colorbar(image, label="weight (logarithm)", shrink=0.6)
    return figure


if __name__ == "__main__":
    main()
