"""Public data sets and data files in scenarios, in checks, and in the identity of runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedmule.learning.data import cache
from fedmule.learning.data.smartwatch import Recording, windows
from fedmule.simulator.build import build_data
from fedmule.simulator.cli import main
from fedmule.simulator.runs.identity import digest_of_file, identity_of
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.streams import Streams


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDMULE_DATA", str(tmp_path / "cache"))
    return tmp_path


def watch_in_cache() -> None:
    generator = np.random.default_rng(0)
    arms = [Recording(generator.normal(size=(400, 6)), i % 7, i // 7) for i in range(140)]
    cache.store("watch", **windows(arms))


CHEAP = ["--set", "stop.visits=2", "--set", "learning.alone=false", "--quiet"]


@pytest.mark.parametrize(
    "keys",
    [
        ["learning.dataset=digits"],
        ["learning.dataset=digits", "learning.shift=rotated", "learning.partition=dirichlet"],
        ["learning.dataset=sonar", "learning.partition=iid"],
        ["learning.dataset=watch", "clients.count=20"],
        ["learning.dataset={ kind = 'watch', blocks = 2 }", "learning.validation_share=0.2"],
        ["learning.dataset=watch", "clients.count=24", "learning.partition=iid"],
    ],
)
def test_runs_with_public_data(keys: list[str]) -> None:
    watch_in_cache()
    assert main(["run", "smoke", *CHEAP, *(part for key in keys for part in ("--set", key))]) == 0


def test_more_clients_than_arms_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smoke", "--set", "learning.dataset=watch", "--set", "clients.count=21"]) == 2
    said = capsys.readouterr().err
    assert 'clients.count = 21: must be at most 20, the number of arms in learning.dataset = "watch"' in said
    assert main(["check", "smoke", "--set", "learning.dataset=watch"]) == 0


def test_recordings_cannot_be_divided_among_the_clients_of_a_site(capsys: pytest.CaptureFixture[str]) -> None:
    watch_in_cache()
    keys = ["learning.dataset=watch", "learning.partition=iid", "learning.partition_over=sites"]
    assert main(["run", "smoke", *CHEAP, *(part for key in keys for part in ("--set", key))]) == 2
    said = capsys.readouterr().err
    assert 'smoke: learning.partition = "iid": clients ' in said
    assert "would share a recording" in said


def test_data_in_the_box_are_files_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    files = identity_of(load_scenario("smoke", ["learning.dataset=sonar"])).files
    assert set(files) == {"sonar", "sonar.card.toml"}
    assert all(files.values())
    assert identity_of(load_scenario("smoke", ["learning.dataset=watch"])).files == {"watch": None}
    watch_in_cache()
    kept = {"watch": digest_of_file(cache.cached("watch"))}
    assert identity_of(load_scenario("smoke", ["learning.dataset=watch"])).files == kept


def test_the_card_of_a_file_is_a_file_of_a_run(desk: Path) -> None:
    data = desk / "mine.csv"
    data.write_text("x,label\n1,0\n")
    scenario = load_scenario("smoke", {"learning.dataset": {"kind": "file", "path": str(data)}})
    assert set(identity_of(scenario).files) == {str(data)}
    (desk / "mine.card.toml").write_text('label = "label"')
    assert set(identity_of(scenario).files) == {str(data), str(desk / "mine.card.toml")}


# --- files that differ from their cards ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["check"], ["run", "--quiet"]])
def test_other_columns_than_the_card_says_are_located(
    desk: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (desk / "readings.csv").write_text("x,z,kind\n1,2,0\n3,4,1\n")
    (desk / "readings.card.toml").write_text('features = ["x", "y"]\nlabel = "kind"\n')
    (desk / "mine.toml").write_text('[learning]\ndataset = { kind = "file", path = "readings.csv" }\n')
    assert main([*command, "mine.toml"]) == 2
    said = capsys.readouterr().err
    place = (
        f'mine{".toml" if command == ["check"] else ""}: learning.dataset = "file": {desk / "readings.csv"}: has other '
    )
    assert said == place + "columns than readings.card.toml says: there is no 'y'; 'z' is not on the card\n"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('path = "nothing.csv"', "nothing.csv: no such file"),
        ('path = "readings.csv", label = "sort"', "has no column 'sort'; it has x, y, kind"),
        ('path = "arrays.npz"', "has no array 'features'; it has label"),
    ],
)
@pytest.mark.parametrize("command", [["check"], ["run", "--quiet"]])
def test_files_without_a_card_are_opened(
    desk: Path, capsys: pytest.CaptureFixture[str], command: list[str], keys: str, said: str
) -> None:
    (desk / "readings.csv").write_text("x,y,kind\n1,2,0\n3,4,1\n")
    np.savez(desk / "arrays.npz", label=np.array([0, 1]))
    (desk / "mine.toml").write_text(f'[learning]\ndataset = {{ kind = "file", {keys} }}\n')
    assert main([*command, "mine.toml"]) == 2
    assert said in capsys.readouterr().err


def test_a_wrong_card_is_located(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "readings.csv").write_text("x,label\n1,0\n")
    (desk / "readings.card.toml").write_text("feature = 3\nsamples = -1\n")
    assert main(["check", "smoke", "--set", f'learning.dataset={{ kind = "file", path = "{desk}/readings.csv" }}']) == 2
    said = capsys.readouterr().err
    assert "readings.card.toml: feature: unknown key, did you mean features?; samples = -1: must be" in said


def test_a_file_with_recordings_is_split_by_them(desk: Path) -> None:
    lines = [f"{row},{row // 5 % 2},{row // 5},{row // 40}" for row in range(160)]
    (desk / "walks.csv").write_text("x,label,recording,client\n" + "\n".join(lines) + "\n")
    keys = {"learning.dataset": {"kind": "file", "path": str(desk / "walks.csv")}, "clients.count": 4}
    data = build_data(load_scenario("smoke", keys), Streams(0), {})
    for client in range(4):
        rows = data.features[data.first[client] : data.first[client + 1], 0].numpy() // 5
        train, test = np.split(rows, [data.train_count[client]])
        assert not set(train.tolist()) & set(test.tolist())
        assert (len(train), len(test)) == (30, 10)


# --- fedmule data -------------------------------------------------------------------------------------------------


def test_data_lists_the_sets_and_prints_cards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 0
    assert "in the box" in capsys.readouterr().out
    assert main(["data", "digits"]) == 0
    said = capsys.readouterr().out
    assert "  licence   CC BY 4.0\n" in said
    assert "  features  64 (1 × 8 × 8)\n" in said
    assert "digits: in the box, nothing to fetch\n" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sonar", "--from", "."], "sonar is in the box"),
        (["watch", "--from", "."], "holds no watch_dataset.npy"),
        (["--partition", "iid"], "NAME the data set"),
        (["--from", "."], "NAME the data set"),
    ],
)
def test_wrong_uses_of_data_are_explained(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["data", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_partitions_of_public_data_are_drawn(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watch_in_cache()
    assert main(["data", "watch", "--partition", "column"]) == 0
    assert "20 clients with 49 to 49 samples and 7 to 7 labels each" in capsys.readouterr().out
    assert (desk / "watch-labels.png").exists()
    assert main(["data", "watch", "--partition", "column", "--clients", "21"]) == 2
    assert 'data: learning.partition = "column": the data belong to 20 clients' in capsys.readouterr().err
