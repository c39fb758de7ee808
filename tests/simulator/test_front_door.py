"""The first commands of a new user: what there is to choose from, a scenario to begin with, help and its examples."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fedmule.simulator.cli import _parser, main
from fedmule.simulator.commands.overview import WHAT
from fedmule.simulator.scenario.load import load_scenario, packaged_scenarios, to_toml

NAMES = _parser()[1]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", NAMES)
def test_every_command_shows_examples_that_parse(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    _, _, examples = capsys.readouterr().out.partition("examples:\n")
    lines = examples.strip().splitlines()
    assert lines
    for line in lines:
        program, *words = shlex.split(line.partition(" > ")[0])
        assert program == "fedmule"
        assert words[0] == command
        _parser()[0].parse_args(words)


def test_an_unknown_command_is_refused_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["chek", "warzone"])
    assert capsys.readouterr().err == "fedmule chek: no such command; did you mean fedmule check?\n"
    with pytest.raises(SystemExit, match="2"):
        main(["qqq"])
    assert "commands: run, list, new," in capsys.readouterr().err


def test_the_list_has_everything_with_a_line_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    everything = capsys.readouterr().out
    for what in WHAT:
        assert main(["list", what]) == 0
        section = capsys.readouterr().out
        assert section in everything
        assert all(re.match(r"  \S+  +\S.*", line) for line in section.splitlines()[1:]), what
    for name in (*packaged_scenarios(), "gain/city", "table1", "sonar", "ditto", "cnn", "lora", "herd", "tour"):
        assert re.search(rf"^  {name} ", everything, re.MULTILINE), name


@pytest.mark.parametrize("source", ["warzone", "blackout", "city", "paper/mnist_mlr"])
def test_a_new_scenario_is_the_one_that_it_was_copied_from(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "mine/town", "--from", source]) == 0
    assert "fedmule run mine/town.toml" in capsys.readouterr().out
    same = load_scenario(source, {"name": "x"})
    mine = load_scenario("mine/town.toml", {"name": "x"})
    here = str(Path("mine").resolve())
    there = str(packaged_scenarios()[source].parent.resolve())
    assert to_toml(mine).replace(here, there) == to_toml(same)
    assert Path("mine/town.toml").read_text().startswith(f"# Begun as a copy of {source}")


def test_a_copy_of_a_copy_brings_its_data_and_their_card() -> None:
    Path("old").mkdir()
    Path("old/data.csv").write_text("client,a,label\n" + "0,1.0,x\n1,2.0,y\n" * 20)
    Path("old/data.card.toml").write_text('title = "mine"\n')
    Path("old/one.toml").write_text('learning = { dataset = { kind = "file", path = "data.csv" } }\n')
    assert main(["new", "two", "--from", "old/one.toml"]) == 0
    assert {path.name for path in Path().iterdir()} == {"old", "two.toml", "data.csv", "data.card.toml"}
    assert main(["new", "three", "--from", "two.toml"]) == 0  # the same data beside it: nothing to copy


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("town.toml").write_text("mine")
    assert main(["new", "town"]) == 2
    assert "town.toml: exists already" in capsys.readouterr().err
    Path("blackout_blocks.geojson").write_text("mine too")
    assert main(["new", "night", "--from", "blackout"]) == 2
    assert not Path("night.toml").exists()
    assert Path("town.toml").read_text() == "mine"
    assert main(["new", "night", "--from", "blackuot"]) == 2
    assert "did you mean blackout?" in capsys.readouterr().err


def test_a_file_outside_the_folder_is_not_copied() -> None:
    Path("secret.csv").write_text("client,a,label\n" + "0,1.0,x\n1,2.0,y\n" * 20)
    Path("old").mkdir()
    Path("old/one.toml").write_text('learning = { dataset = { kind = "file", path = "../secret.csv" } }\n')
    assert main(["new", "new/deep/two", "--from", "old/one.toml"]) == 0
    assert [path.name for path in Path("new").rglob("*") if path.is_file()] == ["two.toml"]


def test_a_table_a_kind_or_a_key_is_explained_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def explained(wanted: str) -> list[str]:
        assert main(["check", "--explain", wanted]) == 0
        return capsys.readouterr().out.splitlines()

    radio = explained("radio")
    assert radio[0].startswith("radio = ")
    assert {'[radio, kind = "ble"]', '[radio, kind = "lora"]'} <= set(radio)
    assert not any(line.startswith("[vehicle") for line in radio)
    assert {line for line in explained("lora") if line.startswith("[")} == {'[radio, kind = "lora"]'}
    assert explained("vehicle.speed_mps")[1].startswith("speed_mps = 10")
    assert len(explained("vehicle.speed_mps")) == 2
    assert explained("smoke") == explained("")  # a scenario
    assert main(["check", "--explain", "radoi"]) == 2
    assert "no table, kind or key" in capsys.readouterr().err


def test_notebooks_are_copied_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notebooks", "mine/books"]) == 0
    source = Path(__file__).parents[2] / "analysis/notebooks"
    copied = {path.name: path.read_bytes() for path in Path("mine/books").iterdir()}
    assert copied == {path.name: path.read_bytes() for path in source.glob("*.ipynb")}
    Path("mine/books/01_first_run.ipynb").write_text("changed")
    assert main(["notebooks", "mine/books"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert Path("mine/books/01_first_run.ipynb").read_text() == "changed"
