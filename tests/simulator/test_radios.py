"""Every radio in a small scenario, and the command that prints its budget."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmule.analysis import Run, load_run
from fedmule.simulator.cli import main
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.scenario.messages import kinds_of
from fedmule.simulator.scenario.radio import ZigbeeRadio
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import build_radio

Small = Callable[..., Scenario]
KINDS = sorted(kinds_of(Scenario, "radio"))
PROPAGATIONS = kinds_of(ZigbeeRadio, "propagation")
ONE_METRE_DB = 20 * np.log10(4 * np.pi * 2.4e9 / 299_792_458)  # of free space at 2.4 GHz


def run(scenario: Scenario, folder: Path) -> Run:
    run_scenario(scenario, str(folder), quiet=True)
    return load_run(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_every_radio_runs(small: Small, tmp_path: Path, kind: str) -> None:
    together = {"kind": "rwsadmm", "try_at": 0.0}  # who trains alone sends nothing
    scenario = small(radio=kind, learning={"algorithm": together}, stop={"visits": 6})
    result = run(scenario, tmp_path / "run")
    contacts = result.contacts
    assert len(result.visits) == 6
    assert contacts["delivered"].sum() > 0
    assert (contacts["airtime_s"][contacts["delivered"] > 0] > 0).all()


def test_slower_radios_take_longer(small: Small, tmp_path: Path) -> None:
    on_air = {}
    for kind in ("wifi_direct", "ble", "zigbee", "acoustic"):
        scenario = small(radio={"kind": kind, "range_m": 500.0}, clients={"mobility": "static"}, stop={"visits": 4})
        on_air[kind] = run(scenario, tmp_path / kind).contacts["airtime_s"].sum()
    assert list(on_air.values()) == sorted(on_air.values())
    assert on_air["acoustic"] > 10 * on_air["zigbee"]


@pytest.mark.parametrize("model", sorted(PROPAGATIONS))
def test_every_propagation_model_runs(small: Small, tmp_path: Path, model: str) -> None:
    radio = {"kind": "zigbee", "range_m": 60.0, "propagation": model, "shadowing": {"db": 4.0, "distance_m": 15.0}}
    result = run(small(radio=radio, stop={"visits": 3}), tmp_path / "run")
    assert result.contacts["delivered"].sum() > 0
    kept = result.scenario["radio"]["propagation"]
    assert (kept if isinstance(kept, str) else kept["kind"]) == model


def test_shadowing_depends_on_the_seed_alone(small: Small) -> None:
    positions = np.random.default_rng(0).uniform(0, 300, (40, 2))
    radios = [
        build_radio(small(seed=seed, radio={"kind": kind, "shadowing": {}}), Streams(seed), {})
        for seed, kind in ((0, "ble"), (0, "zigbee"), (1, "zigbee"))
    ]
    same, too, other = (radio.shadow_db(positions[0], positions) for radio in radios)
    assert np.array_equal(same, too)
    assert not np.array_equal(same, other)


def test_models_take_the_radios_carrier(small: Small) -> None:
    def loss(**radio: Any) -> float:
        found = build_radio(small(radio={"propagation": "friis", **radio}), Streams(0), {})
        return float(found.budget(np.array([10.0])).path_loss_db[0])

    def free_space(hz: float) -> float:
        return float(20 * np.log10(4 * np.pi * 10 * hz / 299_792_458))

    assert loss(kind="zigbee") == pytest.approx(free_space(2.4e9))
    assert loss(kind="lora") == pytest.approx(free_space(868e6))
    assert loss(kind="wifi_direct", standard="ac") == pytest.approx(free_space(5.18e9))
    assert loss(kind="lora", propagation={"kind": "friis", "frequency_mhz": 433.0}) == pytest.approx(free_space(433e6))


def test_short_keys_of_wifi_stand_for_a_model(small: Small, tmp_path: Path) -> None:
    short = {"kind": "wifi_direct", "exponent": 2.2, "reference_loss_db": 41.0}
    complete = {"kind": "wifi_direct", "propagation": {"exponent": 2.2, "reference_loss_db": 41.0}}
    losses = [
        build_radio(small(radio=radio), Streams(0), {}).budget(np.array([3.0, 70.0])).path_loss_db
        for radio in (short, complete)
    ]
    assert losses[0].tolist() == losses[1].tolist()
    assert losses[0] == pytest.approx(41 + 22 * np.log10([3.0, 70.0]))
    run(small(radio=complete, stop={"visits": 1}), tmp_path / "run")
    assert load_scenario(str(tmp_path / "run" / "scenario.toml")).radio == small(radio=complete).radio


def test_a_model_keeps_what_is_usual_for_the_radio(small: Small) -> None:
    scenario = small(radio={"kind": "lora", "propagation": {"exponent": 3.0}})
    radio: Any = scenario.radio
    assert (radio.propagation.exponent, radio.propagation.reference_loss_db) == (3.0, 59.35)
    usual = build_radio(small(radio="lora"), Streams(0), {}).budget(np.array([1000.0]))
    assert usual.path_loss_db[0] == pytest.approx(128.95)


# --- the command -------------------------------------------------------------------------------------------------


def test_link_prints_writes_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "zigbee.csv"
    assert main(["link", "zigbee", "--distances", "10,90,105,400", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    for word in ("path loss, dB", "SNR, dB", "PER", "s for 1 MB", "O-QPSK", "reaches 193"):
        assert word in printed
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["distance_m"]) for row in rows] == [10, 90, 105, 400]
    assert float(rows[0]["path_loss_db"]) == pytest.approx(ONE_METRE_DB + 30, abs=1e-4)
    assert float(rows[0]["received_dbm"]) == pytest.approx(-ONE_METRE_DB - 30, abs=1e-4)
    assert float(rows[0]["seconds_per_mb"]) == pytest.approx(1.927 / 0.03, rel=0.05)
    assert (rows[3]["mode"], rows[3]["seconds_per_mb"], float(rows[3]["goodput_bps"])) == ("", "", 0)
    assert (tmp_path / "zigbee.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", KINDS)
def test_link_knows_every_radio(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["link", kind, "--set", "range_m=70", "--plot", str(tmp_path / "it.png")]) == 0
    assert f"{kind} reaches 70 m" in capsys.readouterr().out
    assert (tmp_path / "it.png").stat().st_size > 10_000


def test_link_takes_the_radios_keys(capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--set", "tx_power_dbm=4", "--set", 'phys=["1M"]', "--set", "propagation.exponent=2"]
    assert main(["link", "ble", "--distances", "1,100", *keys]) == 0
    printed = capsys.readouterr().out
    assert "coded" not in printed
    assert f"reaches {10 ** ((4 + 95 - ONE_METRE_DB) / 20):.6g} m" in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["zigbe"], "zigbe: no such radio; must be one of disc, wifi_direct, zigbee, ble, lora, acoustic"),
        (["ble", "--set", "phys=[]"], "radio.phys"),
        (["ble", "--set", 'phys=["3M"]'], "must be '2M', '1M', 'coded_s2' or 'coded_s8'"),
        (["lora", "--set", "spreading_factors=[6]"], "must be at least 7"),
        (["lora", "--set", "duty_cyle=1"], "did you mean duty_cycle?"),
        (["zigbee", "--set", "propagation=fris"], "did you mean friis?"),
        (["zigbee", "--set", "propagation.kind=mine:Own"], "--allow-plugins"),
        (["wifi_direct", "--set", "propagation={kind='nakagami',from_m=[200,80]}"], "must ascend"),
        (["wifi_direct", "--set", "exponent=2", "--set", "propagation=friis"], "leave radio.exponent out"),
        (["wifi_direct", "--set", "reference_loss_db=40", "--set", "propagation.exponent=2"], "radio.propagation = "),
        (["wifi_direct", "--set", "shadowing.db=-1"], "radio.shadowing.db = -1: must be greater than 0"),
    ],
)
def test_link_says_what_is_wrong(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["link", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("distances", ["far", "1,,2", "-1", "nan", "inf", ""])
def test_link_refuses_bad_distances(distances: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["link", "ble", f"--distances={distances}"])
    assert left.value.code == 2
    assert "must be distances in metres" in capsys.readouterr().err


def test_link_does_not_load_torch(tmp_path: Path) -> None:
    code = "import sys; from fedmule.simulator.cli import main; main(['link', 'lora']); exit('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=600, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
