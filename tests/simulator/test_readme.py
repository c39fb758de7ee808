"""What the README and the pages to begin with show runs as printed there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedmule.analysis import load_run, load_study
from fedmule.simulator.cli import _parser, main
from fedmule.simulator.studies.experiment import load_experiment, plan_experiment

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("planning", "networks", "run")}
PAGES["extending"] = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
README = PAGES["README"] = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str, containing: str) -> str:
    """The one fenced block of a language that contains a text."""
    blocks = [text for page in PAGES.values() for text in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)]
    (found,) = [text for text in blocks if containing in text]
    return found


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("my_parts", None)


def run_commands(text: str) -> None:
    for line in text.strip().splitlines():
        program, *arguments = line.split()
        assert program == "fedmule"
        assert main(arguments) == 0, line


def test_first_own_scenario(desk: Path) -> None:
    (desk / "valley.toml").write_text(block("toml", "lake"))
    run_commands(block("sh", "fedmule check valley.toml"))
    slow, fast = load_run("runs/valley"), load_run("runs/valley-2")
    assert slow.summary["sim_time_s"] == 3600
    assert (fast.scenario["vehicle"]["speed_mps"], fast.scenario["seed"]) == (12, 1)


def test_first_own_study(desk: Path) -> None:
    (desk / "valley.toml").write_text(block("toml", "lake"))
    commands = block("sh", "fedmule study valley.toml")
    assert "--seeds 3\n" in commands
    run_commands(commands.replace("--seeds 3", "--seeds 1 --set stop.visits=3"))
    study = load_study("studies/valley")
    assert len(study.done) == 9
    assert (desk / "studies" / "valley" / "figures" / "report.html").exists()
    assert (desk / "studies" / "valley" / "replay.html").exists()


def test_radios(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "radio.toml").write_text(block("toml", 'kind = "zigbee"'))
    assert main(["check", "radio.toml"]) == 0
    run_commands(block("sh", "fedmule link"))
    printed = capsys.readouterr().out
    shown = re.findall(r"^\S+ +\S+ +\S+ +\S+ +O-QPSK.*$", PAGES["networks"], re.MULTILINE)
    assert len(shown) == 3
    assert all(line in printed for line in shown)
    assert (desk / "ble.csv").exists()
    assert (desk / "ble.png").exists()


def test_own_parts(desk: Path) -> None:
    parts = [block("python", name) for name in ("class Ring", "class SlowServer", "class SmallNet", "def circles")]
    assert all(len(part.splitlines()) < 20 for part in parts[1:])
    (desk / "my_parts.py").write_text("\n\n".join(parts))
    (desk / "mine.toml").write_text(block("toml", "my_parts:Ring"))
    run_commands(block("sh", "mine.toml"))
    run = load_run("runs/mine")
    assert len(run.visits) == 50
    clients = run.track[run.track["node"] == "client"].groupby("id").first()[["x_m", "y_m"]].to_numpy()
    vehicle = run.contacts[["vehicle_x_m", "vehicle_y_m"]].to_numpy()
    distances_m = np.hypot(*(vehicle[:, None] - clients).transpose(2, 0, 1))
    assert list(run.contacts["neighbours"]) == list((distances_m <= 90).sum(1))
    assert run.contacts["neighbours"].max() == 4  # 62 m apart, and the vehicle passes between them
    parameters = (2 + 1) * 16 + 2 * 16 + (16 + 1) * 2  # of SmallNet, for points and two circles
    assert set(run.contacts["bytes_down"]) == {4 * parameters}
    assert (run.clients["test_samples"] == 10).all()
    assert run.summary["personal_test_acc_mean"] > run.summary["start_personal_test_acc_mean"] + 0.1


def test_data_of_your_own(desk: Path) -> None:
    generator = np.random.default_rng(0)
    collar, x = np.repeat(["a", "b", "c"], 30), generator.normal(size=(90, 2))
    table = pd.DataFrame({"collar": collar, "heat": x[:, 0], "noise": x[:, 1], "species": x[:, 0] > 0})
    table.to_csv("readings.csv", index=False)
    (desk / "own.toml").write_text(block("toml", "readings.csv") + "\n[clients]\ncount = 3\nmobility = 'static'\n")
    assert main(["run", "own.toml", "--quiet", "--set", "learning.step_size=0.5", "--set", "stop.visits=60"]) == 0
    assert load_run("runs/own").summary["personal_test_acc_mean"] > 0.8


def test_a_comparison_of_your_own(desk: Path) -> None:
    (desk / "speed.toml").write_text(block("toml", "How fast must it drive?"))
    points = plan_experiment(load_experiment("speed.toml")).points
    assert [point.parameters["column"] for point in points] == ["walking"] * 5 + ["driving"] * 5
    assert points[0].scenario.vehicle.speed_mps == 1.5
    assert {(point.scenario.stop.visits, point.scenario.stop.sim_time_s) for point in points} == {(None, 3600)}


def test_reading_results(desk: Path) -> None:
    assert main(["run", "warzone", "--set", "stop.visits=10", "--quiet"]) == 0
    exec(compile(block("python", "draw_run"), "run.md", "exec"), {})
    assert (desk / "warzone.png").exists()


def test_using_what_a_run_has_learnt(desk: Path) -> None:
    assert main(["run", "warzone", "--set", "stop.visits=10", "--quiet"]) == 0
    pixels = pd.DataFrame(
        np.zeros((3, 64)), columns=[f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
    )
    pixels.to_csv("samples.csv", index=False)
    run_commands(block("sh", "fedmule predict"))
    assert len(pd.read_csv("samples-predicted.csv")) == 3
    given = {"samples": torch.zeros(3, 64)}
    exec(compile(block("python", "client=3"), "run.md", "exec"), given)
    assert given["scores"].shape == (3, 10)


def test_the_first_run_prints_what_the_readme_shows(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every word, and numbers within a twentieth: another kind of CPU may round differently."""
    (command,) = re.findall(r"&& \.venv/bin/fedmule (run \S+)\n", README)
    run, scenario = command.split()
    assert main([run, str(ROOT / scenario)]) == 0
    number = re.compile(r"\d+(?:\.\d+)?")
    shown, printed = (re.sub(r"\([\d.]+ s here\)", "", text) for text in (block("text", ""), capsys.readouterr().out))
    assert number.sub("#", shown) == number.sub("#", printed)
    numbers = [[float(found) for found in number.findall(text)] for text in (clocks(shown), clocks(printed))]
    np.testing.assert_allclose(*numbers, rtol=0.05, atol=1.0)


def clocks(text: str) -> str:
    """A text whose times of day are in minutes."""
    return re.sub(r"(\d+):(\d\d):(\d\d)", lambda t: f"{60 * int(t[1]) + int(t[2]) + int(t[3]) / 60:.2f}", text)


def test_pictures_and_links_exist() -> None:
    for name, page in PAGES.items():
        folder = ROOT if name == "README" else ROOT / "docs"
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page):
            assert (folder / target).exists(), f"{name}: {target}"


def test_the_readme_is_a_page() -> None:
    assert len(README.encode()) < 8_000


def test_the_three_commands_parse() -> None:
    for line in block("sh", "fedmule find warzone").strip().splitlines():
        program, *words = line.split()
        assert program == "fedmule"
        _parser()[0].parse_args(words)
