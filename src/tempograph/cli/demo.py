"""demo: from nothing to a ranked answer with evidence."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempograph.cli.answer_tables import print_completion
from tempograph.cli.console import (
    metric_cells,
    metric_columns,
    out,
    print_json,
    progress_bar,
    table,
)
from tempograph.cli.train import Json, training_progress

if TYPE_CHECKING:
    from tempograph.evaluation.evaluator import EvaluationSummary
    from tempograph.prediction.answers import Completion


def demo(
    folder: Annotated[
        Path,
        typer.Option(
            "--out", help="Folder for the runs; earlier runs of the demo there are replaced."
        ),
    ] = Path("runs/demo"),
    json_output: Json = False,
) -> None:
    """Make a small invented world, fit models to it, rank its missing facts, and answer a question with evidence."""
    from tempograph.data.synthetic.world import make_world
    from tempograph.prediction.predictor import Predictor
    from tempograph.training.trainer import evaluate, train

    begin = time.perf_counter()
    graph = make_world().graph
    if not json_output:
        size = f"{len(graph.entities)} entities, {len(graph.relations)} relations, {len(graph.times)} days"
        out.print(
            f"An invented diplomacy: {size}, {len(graph.train):,} train facts. What else happened?\n"
        )

    def fitted(name: str, model: str, **options: Any) -> EvaluationSummary:
        path = folder / name
        with training_progress(path, name, quiet=True) as (_, progress):
            run = train(graph, model, out=path, overwrite=True, progress=progress, **options)
        with progress_bar(f"ranking with {name}") as progress:
            return evaluate(run, progress=progress).summary()

    # Validating often takes time that a demo does not have.
    seldom = ["train.validate_every=10"]
    summaries = {
        "ComplEx, blind to time": fitted("complex", "complex", overrides=seldom),
        "TED, copying what is near": fitted("ted", "ted"),
        "TeMP-GRU": fitted("temp-gru", "temp-gru", overrides=seldom),
    }
    completion = _answered_right(Predictor(folder / "temp-gru", "auto"))
    if json_output:
        answer = dataclasses.asdict(completion)
        print_json({"run": str(folder / "temp-gru"), "models": summaries, "completion": answer})
        return
    cells = [[name, *metric_cells(summary["metrics"])] for name, summary in summaries.items()]
    columns = ["model", *metric_columns(summaries["TeMP-GRU"]["metrics"])]
    caption = f"{len(graph.test):,} test facts, protocol strict, filter time, Hits in per cent"
    out.print(table("Missing facts found", columns, cells, caption=caption))
    out.print()
    print_completion(completion)
    out.print(f"\n{time.perf_counter() - begin:.0f} s. The runs are in {folder}. Next:")
    relation, name = quote(completion.relation or ""), quote(completion.answers[0].name)
    best = f"--relation {relation} --object {name} --time {completion.time}"
    out.print(f"  tempograph complete {quote(str(folder / 'temp-gru'))} {best}", soft_wrap=True)
    out.print("  tempograph fit events.csv --out runs/mine", soft_wrap=True)


def _answered_right(predictor: Any) -> Completion:
    """The latest question of the test split that the run answers right, with its best answers."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    ranks = pq.read_table(predictor.run.path / "ranks.parquet")
    asked = (
        (pc.field("split") == "test")
        & (pc.field("side") == "object")
        & (pc.field("pessimistic") == 1)
    )
    fact = (
        ranks.filter(asked)
        .sort_by([("t", "descending"), ("s", "ascending")])
        .slice(0, 1)
        .to_pylist()[0]
    )
    graph = predictor.graph
    found: Completion = predictor.objects(
        graph.entities[fact["s"]], graph.relations[fact["r"]], graph.times[fact["t"]], top=5
    )
    return found
