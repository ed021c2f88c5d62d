"""tempograph: find the missing facts of a temporal knowledge graph, with evidence.

import tempograph

run = tempograph.train("demo", "ted", out="runs/demo")
print(tempograph.evaluate(run, "test").summary()["metrics"]["mrr"])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tempograph.version import __version__ as __version__

if TYPE_CHECKING:
    from tempograph.client.async_client import AsyncClient as AsyncClient
    from tempograph.client.sync_client import Client as Client
    from tempograph.data.added_facts import AddedFacts as AddedFacts
    from tempograph.data.arrow_tables import ArrowStream as ArrowStream
    from tempograph.data.catalog import load_dataset as load_dataset
    from tempograph.data.graph import TemporalGraph as TemporalGraph
    from tempograph.data.importers.column_guessing import TableColumns as TableColumns
    from tempograph.data.importers.importer import ImportResult as ImportResult
    from tempograph.data.importers.options import ImportOptions as ImportOptions
    from tempograph.data.name_index import NameIndex as NameIndex
    from tempograph.data.name_index import NameMatch as NameMatch
    from tempograph.data.result_table import ResultTable as ResultTable
    from tempograph.data.spans import Spans as Spans
    from tempograph.data.split_records import SplitRecord as SplitRecord
    from tempograph.data.timeline import Queries as Queries
    from tempograph.data.timeline import Timeline as Timeline
    from tempograph.errors import ConfigError as ConfigError
    from tempograph.errors import DataError as DataError
    from tempograph.errors import QueryError as QueryError
    from tempograph.errors import RunError as RunError
    from tempograph.errors import ServiceError as ServiceError
    from tempograph.errors import StorageError as StorageError
    from tempograph.errors import TempographError as TempographError
    from tempograph.errors import TempographWarning as TempographWarning
    from tempograph.evaluation.audit_checks import AuditCheck as AuditCheck
    from tempograph.evaluation.audit_checks import AuditSummary as AuditSummary
    from tempograph.evaluation.calibration import Calibration as Calibration
    from tempograph.evaluation.evaluations import Evaluation as Evaluation
    from tempograph.evaluation.evaluations import EvaluationSummary as EvaluationSummary
    from tempograph.evaluation.evaluations import QuestionEvaluation as QuestionEvaluation
    from tempograph.evaluation.evaluations import QuestionSummary as QuestionSummary
    from tempograph.evaluation.interval_choice_fit import ChooserSummary as ChooserSummary
    from tempograph.evaluation.interval_evaluation import IntervalEvaluation as IntervalEvaluation
    from tempograph.evaluation.interval_evaluation import IntervalFigures as IntervalFigures
    from tempograph.evaluation.interval_evaluation import IntervalSummary as IntervalSummary
    from tempograph.evaluation.interval_figures import FactFigures as FactFigures
    from tempograph.evaluation.interval_overlap import Intervals as Intervals
    from tempograph.evaluation.probabilities import Confidence as Confidence
    from tempograph.evaluation.ranking import Ranks as Ranks
    from tempograph.evaluation.ranking import StepMeans as StepMeans
    from tempograph.evaluation.ranking import StepRanks as StepRanks
    from tempograph.evaluation.reliability import ReliabilityRow as ReliabilityRow
    from tempograph.experiments.autofit import fit as fit
    from tempograph.experiments.autofit import resume as resume
    from tempograph.experiments.comparison import Comparison as Comparison
    from tempograph.experiments.comparison import ComparisonRow as ComparisonRow
    from tempograph.experiments.comparison import compare as compare
    from tempograph.experiments.fit_result import FitResult as FitResult
    from tempograph.experiments.paper.reproduction import Reproduction as Reproduction
    from tempograph.experiments.paper.reproduction import reproduce as reproduce
    from tempograph.experiments.run_audit import audit as audit
    from tempograph.experiments.slurm import SlurmArray as SlurmArray
    from tempograph.experiments.specs import RunSpec as RunSpec
    from tempograph.experiments.status import RunStatus as RunStatus
    from tempograph.models.base import CrossFitted as CrossFitted
    from tempograph.models.base import Evidence as Evidence
    from tempograph.models.base import Model as Model
    from tempograph.models.registry import ModelKind as ModelKind
    from tempograph.prediction.answer import Answer as Answer
    from tempograph.prediction.answer import EvidenceFact as EvidenceFact
    from tempograph.prediction.answers import Completion as Completion
    from tempograph.prediction.backtest_result import Backtest as Backtest
    from tempograph.prediction.backtest_result import BacktestStep as BacktestStep
    from tempograph.prediction.backtest_result import BacktestSummary as BacktestSummary
    from tempograph.prediction.backtesting import backtest as backtest
    from tempograph.prediction.forecast import Forecast as Forecast
    from tempograph.prediction.forecast import ForecastFact as ForecastFact
    from tempograph.prediction.predictor import Predictor as Predictor
    from tempograph.report.text_table import TextTable as TextTable
    from tempograph.report.trust_examples import ExampleAnswer as ExampleAnswer
    from tempograph.report.trust_figures import GroupFigures as GroupFigures
    from tempograph.report.trust_figures import QuestionFigures as QuestionFigures
    from tempograph.report.trust_figures import TrustFigures as TrustFigures
    from tempograph.report.trust_report import TrustReport as TrustReport
    from tempograph.training.classifier_fit import ClassifierSummary as ClassifierSummary
    from tempograph.training.config import Config as Config
    from tempograph.training.fit_record import FitRecord as FitRecord
    from tempograph.training.fit_record import ModelChoice as ModelChoice
    from tempograph.training.fit_record import SearchPlan as SearchPlan
    from tempograph.training.occurrence_fit import OccurrenceSummary as OccurrenceSummary
    from tempograph.training.run_evaluation import evaluate as evaluate
    from tempograph.training.run_results import AnswerBasis as AnswerBasis
    from tempograph.training.run_results import GateSummary as GateSummary
    from tempograph.training.run_results import RunResults as RunResults
    from tempograph.training.run_results import UpdateSummary as UpdateSummary
    from tempograph.training.run_update import update as update
    from tempograph.training.runs import Run as Run
    from tempograph.training.search_record import SearchRecord as SearchRecord
    from tempograph.training.search_record import Trial as Trial
    from tempograph.training.search_record import TrialRound as TrialRound
    from tempograph.training.trainer import train as train
    from tempograph.training.update_result import UpdateResult as UpdateResult

_EXPORTS = {
    "client.async_client": ("AsyncClient",),
    "client.sync_client": ("Client",),
    "data.added_facts": ("AddedFacts",),
    "data.arrow_tables": ("ArrowStream",),
    "data.catalog": ("load_dataset",),
    "data.graph": ("TemporalGraph",),
    "data.importers.column_guessing": ("TableColumns",),
    "data.importers.importer": ("ImportResult",),
    "data.importers.options": ("ImportOptions",),
    "data.name_index": ("NameIndex", "NameMatch"),
    "data.result_table": ("ResultTable",),
    "data.spans": ("Spans",),
    "data.split_records": ("SplitRecord",),
    "data.timeline": ("Queries", "Timeline"),
    "errors": (
        *("ConfigError", "DataError", "QueryError", "RunError"),
        *("ServiceError", "StorageError", "TempographError", "TempographWarning"),
    ),
    "evaluation.audit_checks": ("AuditCheck", "AuditSummary"),
    "evaluation.calibration": ("Calibration",),
    "evaluation.evaluations": (
        *("Evaluation", "EvaluationSummary"),
        *("QuestionEvaluation", "QuestionSummary"),
    ),
    "evaluation.interval_choice_fit": ("ChooserSummary",),
    "evaluation.interval_evaluation": ("IntervalEvaluation", "IntervalFigures", "IntervalSummary"),
    "evaluation.interval_figures": ("FactFigures",),
    "evaluation.interval_overlap": ("Intervals",),
    "evaluation.probabilities": ("Confidence",),
    "evaluation.ranking": ("Ranks", "StepMeans", "StepRanks"),
    "evaluation.reliability": ("ReliabilityRow",),
    "experiments.autofit": ("fit", "resume"),
    "experiments.comparison": ("Comparison", "ComparisonRow", "compare"),
    "experiments.fit_result": ("FitResult",),
    "experiments.paper.reproduction": ("Reproduction", "reproduce"),
    "experiments.run_audit": ("audit",),
    "experiments.slurm": ("SlurmArray",),
    "experiments.specs": ("RunSpec",),
    "experiments.status": ("RunStatus",),
    "models.base": ("CrossFitted", "Evidence", "Model"),
    "models.registry": ("ModelKind",),
    "prediction.answer": ("Answer", "EvidenceFact"),
    "prediction.answers": ("Completion",),
    "prediction.backtest_result": ("Backtest", "BacktestStep", "BacktestSummary"),
    "prediction.backtesting": ("backtest",),
    "prediction.forecast": ("Forecast", "ForecastFact"),
    "prediction.predictor": ("Predictor",),
    "report.text_table": ("TextTable",),
    "report.trust_examples": ("ExampleAnswer",),
    "report.trust_figures": ("GroupFigures", "QuestionFigures", "TrustFigures"),
    "report.trust_report": ("TrustReport",),
    "training.classifier_fit": ("ClassifierSummary",),
    "training.config": ("Config",),
    "training.fit_record": ("FitRecord", "ModelChoice", "SearchPlan"),
    "training.occurrence_fit": ("OccurrenceSummary",),
    "training.run_evaluation": ("evaluate",),
    "training.run_results": ("AnswerBasis", "GateSummary", "RunResults", "UpdateSummary"),
    "training.run_update": ("update",),
    "training.runs": ("Run",),
    "training.search_record": ("SearchRecord", "Trial", "TrialRound"),
    "training.trainer": ("train",),
    "training.update_result": ("UpdateResult",),
}
_HOMES = {name: f"tempograph.{module}" for module, names in _EXPORTS.items() for name in names}

__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> Any:
    """Import on first use: `tempograph --help` must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tempograph' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
