"""Nothing is written outside the folder it belongs to, whatever names and links say."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedmule.analysis import load_study
from fedmule.learning.files import replacing
from fedmule.simulator.cli import main
from fedmule.simulator.errors import UserError
from fedmule.simulator.runs.folder import write_text

ONE_VISIT = ["--set", "stop.visits=1"]


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with another beside it that nobody may touch."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "theirs.txt").write_text("theirs")
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    return tmp_path / "desk"


def untouched(desk: Path) -> bool:
    beside = sorted(path.name for path in desk.parent.iterdir())
    return beside == ["desk", "elsewhere"] and [p.name for p in (desk.parent / "elsewhere").iterdir()] == ["theirs.txt"]


@pytest.mark.parametrize("name", ["../../elsewhere/x", "/../elsewhere", "..", "a/../../../b"])
def test_the_name_of_a_study_leads_nowhere(desk: Path, name: str) -> None:
    (desk / "s.toml").write_text(f'name = "{name}"\nscenarios = ["smoke"]\nvary = {{ "stop.visits" = [1] }}\n')
    assert main(["study", "s.toml", "--seeds", "1", "--quiet", "--jobs", "1"]) == 0
    assert untouched(desk)
    assert len(list((desk / "studies").iterdir())) == 1


@pytest.mark.parametrize("report", [[], ["--report"]])
def test_the_name_of_an_experiment_leads_nowhere(desk: Path, report: list[str]) -> None:
    (desk / "e.toml").write_text(
        'title = "t"\nname = "../../elsewhere/e"\nseeds = 1\n'
        'rows = [{ cell = "../../c", scenario = "smoke" }]\n'
        'columns = [{ name = "../../d", set = { "stop.visits" = 1 } }]\n'
    )
    main(["paper", "e.toml", "--jobs", "1", *report])
    assert untouched(desk)


def test_the_name_of_a_run_leads_nowhere(desk: Path) -> None:
    (desk / "r.toml").write_text('name = "../../elsewhere/r"\n[stop]\nvisits = 1\n')
    assert main(["run", "r.toml", "--quiet"]) == 0
    assert untouched(desk)


def test_links_are_replaced_not_followed(desk: Path) -> None:
    """Under the name itself, and under the one that files had while they were written."""
    theirs = desk.parent / "elsewhere" / "theirs.txt"
    for name in ("page.html", "page.html.partial", ".page.html.partial"):
        (desk / name).symlink_to(theirs)
    write_text(desk / "page.html", "mine")
    assert theirs.read_text() == "theirs"
    assert (desk / "page.html").read_text() == "mine"
    assert not (desk / "page.html").is_symlink()


def test_a_file_that_cannot_be_written_stays_as_it_was(desk: Path) -> None:
    (desk / "table").write_text("old")

    def write() -> None:
        with replacing(desk / "table") as file:
            file.write(b"half of the new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert [path.name for path in desk.iterdir()] == ["table"]
    assert (desk / "table").read_text() == "old"


@pytest.mark.parametrize("run", ["../other", "/tmp/other", "runs/../../other"])
def test_an_index_that_names_runs_elsewhere_is_refused(desk: Path, run: str) -> None:
    assert main(["study", "smoke", "--vary", "stop.visits=1,2", "--seeds", "1", "--quiet", "--jobs", "1"]) == 0
    index = pd.read_parquet("studies/smoke/index.parquet")
    index.loc[1, "run"] = run
    index.to_parquet("studies/smoke/index.parquet")
    with pytest.raises(UserError, match=r"index\.parquet: names a run that is not in the study's folder"):
        load_study("studies/smoke")
