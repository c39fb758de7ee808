"""Trackers that follow a run besides its folder: TensorBoard and MLflow."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmule.simulator.errors import UserError

if TYPE_CHECKING:
    from fedmule.simulator.runs.columns import ContactRow, Summary
    from fedmule.simulator.scenario import Scenario

NEEDS = {"tensorboard": "tensorboard", "mlflow": "mlflow"}  # the package of each, which is also the name of its extra
NO_CURVES = ("contact", "visit", "client", "vehicle", "host_time_s", "in_passing", "payload_bytes")
EXPERIMENT = "fedmule"
PARAMETERS_AT_ONCE, LONGEST_PARAMETER = 100, 500  # limits of MLflow


class Tracker:
    """Follows the contacts of a run, and its end."""

    def contact(self, row: ContactRow) -> None:
        """Enter a contact."""

    def close(self, summary: Summary) -> None:
        """Enter how the run ended."""

    def release(self) -> None:
        """Stop, whatever has happened."""


class TensorBoard(Tracker):
    """A folder `tensorboard` in the run folder, with simulated time for TensorBoard's wall time."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        from torch.utils.tensorboard import SummaryWriter

        from fedmule.simulator.scenario.load import to_toml

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))
        self._writer.add_text("scenario", f"```toml\n{to_toml(scenario)}\n```", walltime=0.0)

    def contact(self, row: ContactRow) -> None:
        for name, value in _numbers(asdict(row)):
            self._writer.add_scalar(name, value, row.contact, walltime=row.sim_time_s)

    def close(self, summary: Summary) -> None:
        for name, value in _numbers(dict(summary)):
            self._writer.add_scalar(f"summary/{name}", value, summary["contacts"], walltime=summary["sim_time_s"])

    def release(self) -> None:
        self._writer.close()


class MLflow(Tracker):
    """A run of MLflow in the experiment `fedmule`, where MLFLOW_TRACKING_URI says."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        import mlflow

        self._mlflow: Any = mlflow
        self._status = "FAILED"
        mlflow.set_experiment(EXPERIMENT)
        mlflow.start_run(run_name=folder.name, tags={"folder": str(folder.resolve())})
        values = [(key, str(value)[:LONGEST_PARAMETER]) for key, value in _flat(scenario.model_dump(mode="json"))]
        for first in range(0, len(values), PARAMETERS_AT_ONCE):
            mlflow.log_params(dict(values[first : first + PARAMETERS_AT_ONCE]))

    def contact(self, row: ContactRow) -> None:
        self._mlflow.log_metrics(dict(_numbers(asdict(row))), step=row.contact)

    def close(self, summary: Summary) -> None:
        self._mlflow.log_metrics({f"summary/{name}": value for name, value in _numbers(dict(summary))})
        if summary["verdict"]:
            self._mlflow.set_tag("verdict", summary["verdict"])
        self._status = "FINISHED" if summary["finished"] else "KILLED"

    def release(self) -> None:
        self._mlflow.end_run(self._status)


def require(name: str) -> None:
    """Raise a UserError unless the package of a tracker is installed."""
    try:
        importlib.import_module(NEEDS[name])
    except ImportError:
        raise UserError(f"--log-to {name}: needs another package: pip install 'fedmule[{name}]'") from None


def tracker(name: str, folder: Path, scenario: Scenario) -> Tracker:
    """Start a tracker; raise a UserError where it cannot be, such as for want of a server."""
    try:
        return {"tensorboard": TensorBoard, "mlflow": MLflow}[name](folder, scenario)
    except Exception as error:  # trackers raise many types
        if not any(folder.iterdir()):  # of a run that has not begun
            folder.rmdir()
        reason = str(error).strip().splitlines()
        hint = "; MLFLOW_TRACKING_URI names a server, such as http://localhost:5000" * (name == "mlflow")
        raise UserError(f"--log-to {name}: cannot be started: {reason[0] if reason else repr(error)}{hint}") from None


def _numbers(values: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The values that are numbers and make sense as curves."""
    for name, value in values.items():
        if name not in NO_CURVES and isinstance(value, int | float):
            yield name, float(value)


def _flat(table: dict[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of a scenario by their dotted names."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value
