"""A payload in complete runs: time, bytes and limits by hand, what the log says of it, and what stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from short_runs import run, same

from fedmule.simulator.cli import main
from fedmule.simulator.runs.progress import gigaflops, summary_text
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]

PAYLOAD = {"payload_bytes": 250_000, "payload_flops_per_sample": 3e6}
RADIO = {"kind": "disc", "range_m": 80.0, "rate_mbps": 2.0, "latency_s": 0.25, "setup_s": 1.5}


def still(small: Small, stop: dict[str, Any] | None = None, in_passing: bool = False, **learning: Any) -> Scenario:
    """Clients that stand still; unless served in passing, one at a time, so that every exchange takes the same time."""
    keys = {"active": "visited", "batch_size": 20, "local_steps": 10, "open_at": 2.0, **learning}
    clients = {"mobility": "static", "compute_flops_per_s": 5e8, "report_error_m": 0.0}
    vehicle = {"in_passing": in_passing}
    return small(clients=clients, vehicle=vehicle, radio=RADIO, learning=keys, stop=stop or {"visits": 20})


@pytest.mark.parametrize(
    ("algorithm", "gradients"), [("rwsadmm", 10), ("fedavg", 10), ("ditto", 20), ("walkman", 1), ("local", 10)]
)
def test_time_and_bytes_by_hand(small: Small, tmp_path: Path, algorithm: str, gradients: int) -> None:
    contacts = run(still(small, algorithm=algorithm, **PAYLOAD), tmp_path / "a").contacts
    one_way_s, compute_s = 8 * 250_000 / 2e6, gradients * 20 * 3e6 / 5e8
    assert contacts["compute_s"].to_numpy() == pytest.approx(compute_s)
    assert contacts["airtime_s"].to_numpy() == pytest.approx(2 * one_way_s)
    assert contacts["contact_s"].to_numpy() == pytest.approx(1.5 + 2 * (one_way_s + 0.25) + compute_s)
    charged = 0 if algorithm == "local" else 250_000
    assert set(contacts["bytes_down"]) == set(contacts["bytes_up"]) == {charged}
    assert set(contacts["payload_bytes"]) == {250_000}


def test_by_default_the_payload_is_the_trained_model(small: Small, tmp_path: Path) -> None:
    """60 features and a constant, 10 classes: 610 numbers; a gradient over 20 samples, and 6 FLOPs per number."""
    plain = run(still(small), tmp_path / "plain")
    flops = 10 * (4 * 20 * 60 * 10 + 6 * 20 * 10 + 6 * 610)
    assert set(plain.contacts["compute_s"]) == {flops / 5e8}
    assert set(plain.contacts["bytes_down"]) == set(plain.contacts["payload_bytes"]) == {4 * 610}
    keys = ("payload_bytes", "payload_flops_per_sample", "trained_bytes")
    assert [plain.summary[key] for key in keys] == [4 * 610, None, 4 * 610]
    named = run(still(small, payload_bytes=4 * 610), tmp_path / "named")
    for table in ("contacts", "clients", "track", "graph"):
        same(getattr(plain, table), getattr(named, table))


def test_training_is_as_without_it_where_contacts_are(small: Small, tmp_path: Path) -> None:
    plain, heavy = run(still(small), tmp_path / "a"), run(still(small, **PAYLOAD), tmp_path / "b")
    learnt = ["visit", "client", "train_loss", "personal_test_acc_mean", "token_step_norm", "gradient_steps"]
    same(plain.contacts[learnt], heavy.contacts[learnt])
    assert heavy.summary["sim_time_s"] > plain.summary["sim_time_s"] + 20 * 2


@pytest.mark.parametrize("in_passing", [False, True])
def test_bytes_end_a_run(small: Small, tmp_path: Path, in_passing: bool) -> None:
    """Contacts of both kinds count: each takes half a megabyte."""
    found = run(still(small, {"total_bytes": 3_000_000}, in_passing, **PAYLOAD), tmp_path / "a")
    assert (found.summary["stopped_by"], found.summary["contacts"]) == ("total_bytes", 6)
    assert (found.contacts["bytes_down"] + found.contacts["bytes_up"] == 500_000).all()
    assert found.contacts["in_passing"].any() == in_passing


def test_the_summary_says_what_was_trained(small: Small, tmp_path: Path) -> None:
    def text(name: str, **payload: Any) -> str:
        return summary_text(run_scenario(still(small, **payload), str(tmp_path / name)), "folder")

    assert "payload" not in text("plain")
    assert "  payload  0.2 MB and 3 MFLOP a sample; a model of 2.4 kB stood in for it\n" in text("both", **PAYLOAD)
    assert "  payload  14.0 MB; a model of 2.4 kB stood in for it\n" in text("bytes", payload_bytes=14_000_000)


@pytest.mark.parametrize(
    ("flops", "text"), [(1.8e9, "1.8 GFLOP"), (3e8, "0.3 GFLOP"), (2.5e6, "2.5 MFLOP"), (120.0, "0.12 kFLOP")]
)
def test_flops_in_words(flops: float, text: str) -> None:
    assert gigaflops(flops) == text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("payload_bytes=0", "learning.payload_bytes = 0: must be at least 1"),
        ("payload_bytes=-14", "learning.payload_bytes = -14: must be at least 1"),
        ("payload_bytes=1e7", "learning.payload_bytes = 10000000.0: must be a whole number"),
        ("payload_bytes=10000000000000000", "learning.payload_bytes = 10000000000000000: must be at most 1e+15"),
        ("payload_flops_per_sample=0", "learning.payload_flops_per_sample = 0: must be greater than 0"),
        ("payload_flops_per_sample=-1.5", "learning.payload_flops_per_sample = -1.5: must be greater than 0"),
        ("payload_flops=1e9", "learning.payload_flops = 1000000000.0: unknown key; did you mean payload"),
    ],
)
def test_what_is_no_payload(capsys: pytest.CaptureFixture[str], given: str, message: str) -> None:
    assert main(["run", "smoke", "--set", f"learning.{given}"]) == 2
    assert f"--set: {message}" in capsys.readouterr().err
