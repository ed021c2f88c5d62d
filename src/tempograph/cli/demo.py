"""demo: from nothing to a ranked answer with evidence."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

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
from tempograph.cli.shared_options import Json
from tempograph.cli.train import training_progress

if TYPE_CHECKING:
    from tempograph.evaluation.evaluations import Evaluation


def demo(
    folder: Annotated[
        Path,
        typer.Option("--out", help="Folder for the runs; runs of an earlier demo are replaced."),
    ] = Path("runs/demo"),
    json_output: Json = False,
) -> None:
    """Train three models on a small synthetic world, compare them, and answer a query."""
    from tempograph.data.synthetic.world import make_world
    from tempograph.prediction.predictor import Predictor
    from tempograph.training.run_evaluation import evaluate
    from tempograph.training.trainer import train

    start = time.perf_counter()
    graph = make_world().graph
    if not json_output:
        out.print(
            f"A synthetic world of diplomacy: {len(graph.entities)} entities, "
            f"{len(graph.relations)} relations, {len(graph.times)} days, "
            f"{len(graph.train):,} train facts. What else happened?\n"
        )

    def fit_and_evaluate(model: str, *overrides: str) -> Evaluation:
        path = folder / model
        with training_progress(path, f"training {model}", quiet=True) as bar:
            run = train(
                graph,
                model,
                out=path,
                overwrite=True,
                overrides=overrides,
                report=bar.report,
                progress=bar.rank,
            )
        with progress_bar(f"ranking with {model}") as progress:
            return evaluate(run, progress=progress)

    # A demo has no time for frequent validation.
    rarely = "train.validate_every=10"
    temp = fit_and_evaluate("temp-gru", rarely)
    summaries = {
        "ComplEx, which ignores time": fit_and_evaluate("complex", rarely).summary(),
        "TED, which copies recent facts": fit_and_evaluate("ted").summary(),
        "TeMP-GRU": temp.summary(),
    }
    # The latest object query of the test split that TeMP-GRU answers correctly.
    correct = temp.facts[(temp.ranks.pessimistic.chunk(2)[0] == 1).cpu().numpy()]
    subject, relation_id, _, step = min(correct.tolist(), key=lambda fact: (-fact[3], fact[0]))
    run = folder / "temp-gru"
    completion = Predictor(run, "auto").objects(subject, relation_id, step, top=5)
    if json_output:
        answer = dataclasses.asdict(completion)
        print_json({"run": str(run), "models": summaries, "completion": answer})
        return
    rows = [[name, *metric_cells(summary["metrics"])] for name, summary in summaries.items()]
    columns = ["model", *metric_columns(summaries["TeMP-GRU"]["metrics"])]
    caption = f"{len(graph.test):,} test facts, protocol strict, filter time, Hits in percent"
    out.print(table("Missing facts found", columns, rows, caption=caption))
    out.print()
    print_completion(completion)
    out.print(f"\n{time.perf_counter() - start:.0f} s. The runs are in {folder}. Next:")
    relation, name = quote(completion.relation or ""), quote(completion.answers[0].name)
    query = f"--relation {relation} --object {name} --time {completion.time}"
    out.print(f"  tempograph complete {quote(str(run))} {query}", soft_wrap=True)
    out.print("  tempograph fit events.csv --out runs/mine", soft_wrap=True)
