"""Runs followed by TensorBoard and MLflow."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from fedmule.analysis import load_run
from fedmule.simulator.cli import main

SHORT = ["run", "smoke", "--quiet", "--set", "stop.visits=9", "--set", "learning.evaluate_every=4", "--out", "run"]


@pytest.fixture(autouse=True)
def _desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/tracked")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


def test_tensorboard_has_the_curves_over_simulated_time() -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert main([*SHORT, "--log-to", "tensorboard"]) == 0
    run = load_run("run")
    events = EventAccumulator("run/tensorboard")
    events.Reload()
    for name in ("personal_test_acc_mean", "token_test_acc", "bytes_down", "delivered"):
        known = run.contacts.dropna(subset=[name])
        found = events.Scalars(name)
        assert [event.step for event in found] == list(known["contact"])
        assert [event.value for event in found] == pytest.approx(list(known[name]), rel=1e-6)
        assert [event.wall_time for event in found] == pytest.approx(list(known["sim_time_s"]))
    (gain,) = events.Scalars("summary/gain_over_alone")
    assert gain.value == pytest.approx(run.summary["gain_over_alone"], abs=1e-6)


def test_mlflow_has_parameters_curves_and_the_verdict() -> None:
    from mlflow.tracking import MlflowClient

    assert main([*SHORT, "--log-to", "mlflow"]) == 0
    run, client = load_run("run"), MlflowClient()
    experiment = client.get_experiment_by_name("fedmule")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.tags["verdict"] == run.summary["verdict"]
    assert found.data.params["vehicle.speed_mps"] == str(run.scenario["vehicle"]["speed_mps"])
    assert found.data.metrics["summary/bytes_up"] == run.summary["bytes_up"]
    curve = client.get_metric_history(found.info.run_id, "token_test_acc")
    known = run.contacts.dropna(subset=["token_test_acc"])
    assert [(point.step, point.value) for point in curve] == list(
        known[["contact", "token_test_acc"]].itertuples(index=False, name=None)
    )


def test_an_interrupted_run_is_ended_in_the_tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracking import MlflowClient

    from fedmule.simulator.runs.trackers import MLflow

    whole = MLflow.contact

    def interrupted(self: MLflow, row: object) -> None:
        whole(self, row)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(MLflow, "contact", interrupted)
    assert main([*SHORT, "--log-to", "mlflow"]) == 130
    client = MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("fedmule").experiment_id])
    assert found.info.status == "KILLED"


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_package_that_is_not_there_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    assert main([*SHORT, "--log-to", name]) == 2
    assert f"pip install 'fedmule[{name}]'" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_server_that_cannot_be_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://at-all")
    assert main([*SHORT, "--log-to", "mlflow"]) == 2
    assert "--log-to mlflow: cannot be started" in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_run_is_the_same_with_a_tracker() -> None:
    assert main([*SHORT, "--log-to", "tensorboard"]) == 0
    assert main([*SHORT[:-1], "plain"]) == 0
    a, b = (load_run(name).contacts.drop(columns="host_time_s") for name in ("run", "plain"))
    assert a.equals(b)
