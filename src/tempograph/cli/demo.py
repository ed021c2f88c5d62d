"""demo: from nothing to a ranked answer with evidence."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tempograph.cli.console import metric_cells, metric_columns, out, print_json, progress_bar, table
from tempograph.cli.model import Json, print_completion

if TYPE_CHECKING:
    from tempograph.predict import Completion


def demo(
    folder: Annotated[Path, typer.Option("--out", help="The run folder; an earlier run there is replaced.")] = Path(
        "runs/demo"
    ),
    json_output: Json = False,
) -> None:
    """Make a small invented world, fit models to it, rank its missing facts, and answer a question with evidence."""
    import dataclasses

    from tempograph.data.world import make_world
    from tempograph.predict import Predictor
    from tempograph.training import evaluate, train

    begin = time.perf_counter()
    graph = make_world().graph
    rows = {}
    with progress_bar("all-time counts") as progress:
        rows["all-time counts (TED, sigma 0)"] = evaluate(train(graph, overrides=["model.sigma=0"], progress=progress))
    with progress_bar("TED") as progress:
        run = train(graph, out=folder, overwrite=True, progress=progress)
        rows[f"TED (sigma {run.config.model.sigma:g}, chosen on valid)"] = found = evaluate(run, progress=progress)
    # A question of the test split that is answered right, from among the most recent ones.
    right = found.facts[(found.ranks.pessimistic[: len(found.facts)] == 1).numpy()]
    subject, relation, _, moment = right[right[:, 3].argmax()].tolist()
    completion = Predictor(run).objects(graph.entities[subject], graph.relations[relation], graph.times[moment], top=5)
    summaries = {name: evaluation.summary() for name, evaluation in rows.items()}
    if json_output:
        print_json({"run": str(folder), "models": summaries, "completion": dataclasses.asdict(completion)})
        return
    size = f"{len(graph.entities)} entities, {len(graph.relations)} relations, {len(graph.times)} days"
    out.print(f"An invented diplomacy: {size}, {len(graph.train):,} train facts. What else happened?\n")
    cells = [[name, *metric_cells(summary["metrics"])] for name, summary in summaries.items()]
    columns = ["model", *metric_columns(summaries[next(iter(summaries))]["metrics"])]
    caption = f"{len(graph.test):,} test facts, protocol strict, filter time, Hits in per cent"
    out.print(table("Missing facts found", columns, cells, caption=caption))
    out.print()
    print_completion(completion)
    out.print(f"\n{time.perf_counter() - begin:.0f} s. The run is in {folder}. Next:")
    out.print(f"  tempograph complete {folder} {_inverse_question(completion)}", soft_wrap=True)
    out.print("  tempograph data import events.csv --out mydata && tempograph train mydata", soft_wrap=True)


def _inverse_question(completion: Completion) -> str:
    """The same fact asked from its other side, as options of `complete`."""
    return f'--relation "{completion.relation}" --object "{completion.answers[0].name}" --time {completion.time}'
