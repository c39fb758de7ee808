"""`fedmule report`: its figures, and what it lists as missing, for all sorts of runs and studies."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from browser import OpenTab

import fedmule
from fedmule.analysis import load_study
from fedmule.analysis.report import content_of, write_report
from fedmule.simulator.cli import main
from fedmule.simulator.runs.columns import QUANTITIES
from fedmule.simulator.runs.progress import clock, megabytes
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.runs.tables import TableWriter, read_table
from fedmule.simulator.scenario import Scenario

Small = Callable[..., Scenario]
ALL = ["map", "accuracy", "convergence", "graph", "visits", "ages", "theory"]


def drawn(folder: Path) -> list[str]:
    return [item.name for item in content_of(folder).items]


def missing(folder: Path) -> str:
    return "\n".join(content_of(folder).missing)


def test_a_run_gets_all_figures_and_two_pages(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_scenario(small(name="a<script>alert(1)</script> | $x$ `b`"), str(tmp_path / "run"))
    assert main(["report", str(tmp_path / "run"), "--formats", "svg"]) == 0
    figures = tmp_path / "run" / "figures"
    assert f"open {figures / 'report.html'}" in capsys.readouterr().out
    assert {file.name for file in figures.iterdir()} == {
        *(f"{name}.{kind}" for name in ALL for kind in ("png", "svg")), "report.md", "report.html",
    }  # fmt: skip
    page, text = (figures / "report.html").read_text(), (figures / "report.md").read_text()
    assert page.count("<script") == 1  # ours
    assert "a&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "default-src 'none'; script-src 'sha256-" in page
    assert "<script" not in text
    assert page.count("data:image/png;base64,") == len(ALL)
    assert not re.search(r'(src|href)="(?!data:)', page)  # self-contained
    assert re.findall(r"\]\(([^)]+)\)", text) == [f"{name}.png" for name in ALL]
    verdict, learnt, sure, ended = text.split("\n\n")[1:5]  # the first lines, below the title
    assert verdict.startswith("Carrying a model: ")
    assert learnt.startswith("Personal models are right on ")
    assert "20 visits in " in learnt
    assert sure.startswith("This is one run with one seed")
    assert ended.startswith("It ended because ")
    assert "| visits | 20 |" in text


def test_facts_count_visits_contacts_and_bytes(small: Small, tmp_path: Path) -> None:
    """Several evaluations fall on the same visit where contacts in passing lie between visits."""
    scenario = small(clients={"count": 9}, learning={"alone": 4, "evaluate_every": 1})
    run_scenario(scenario, str(tmp_path / "run"))
    run = fedmule.load_run(tmp_path / "run")
    facts = dict(content_of(tmp_path / "run").summary)
    passing = int(run.contacts["in_passing"].sum())
    assert passing > 0
    assert (facts["visits"], facts["contacts in passing"]) == ("20", str(passing))
    assert run.summary["contacts"] == 20 + passing
    assert facts["simulated time"] == clock(run.summary["sim_time_s"])
    (alone,) = (value for value in facts.values() if "in a sample of" in value)
    assert alone.endswith("in a sample of 4 of 9 clients")
    sent = run.summary["bytes_down"] + run.summary["bytes_up"]
    assert facts[QUANTITIES["bytes"].words].startswith(f"{megabytes(sent)} in ")


def begin(manifest: Path, target: Path) -> None:
    """Write the manifest of a run as it was before the run ended."""
    content = json.loads(manifest.read_text())
    ended = {"finished": False, "stopped_by": None, "digests": None}
    target.write_text(json.dumps({**content, **ended}))


def test_a_run_that_was_killed(small: Small, tmp_path: Path) -> None:
    """The folder of a run under way: streams, no summary."""
    run_scenario(small(), str(tmp_path / "complete"))
    cut = tmp_path / "cut"
    cut.mkdir()
    shutil.copy(tmp_path / "complete" / "scenario.toml", cut)
    begin(tmp_path / "complete" / "manifest.json", cut / "manifest.json")
    for name in ("contacts", "clients", "track", "graph"):
        table = read_table(tmp_path / "complete", name)
        writer = TableWriter(cut, name)
        writer.append({column: table[column].to_pylist() for column in table.column_names})
        writer.flush()
        stream = cut / f"{name}.arrows"
        stream.write_bytes(stream.read_bytes() + b"\xff\xff\xff\xff\x40")  # the beginning of a batch
    assert drawn(cut) == ALL
    first, *_, last = content_of(cut).findings
    assert first.endswith(" points against training alone so far.")
    assert last.startswith("It has not ended")
    write_report(cut, formats=())
    assert ["visits", "20"] in content_of(cut).summary


def test_a_run_that_just_began(small: Small, tmp_path: Path) -> None:
    run_scenario(small(), str(tmp_path / "run"))
    for file in (tmp_path / "run").glob("*.parquet"):
        file.unlink()
    begin(tmp_path / "run" / "manifest.json", tmp_path / "run" / "manifest.json")
    assert drawn(tmp_path / "run") == ["map"]
    assert "no client has been visited" in missing(tmp_path / "run")
    assert content_of(tmp_path / "run").findings[0] == "Nothing was learnt from others: no client has been visited."
    write_report(tmp_path / "run", formats=())


def test_a_run_that_reaches_nobody(small: Small, tmp_path: Path) -> None:
    far = {
        "clients": {"count": 1, "mobility": {"kind": "static", "positions": [[250, 150]]}},
        "stop": {"sim_time_s": 1.0},
    }
    run_scenario(small(**far), str(tmp_path / "run"))
    assert drawn(tmp_path / "run") == ["map"]
    assert ["visits", "0"] in content_of(tmp_path / "run").summary
    write_report(tmp_path / "run", formats=())


def test_an_ideal_server_has_no_map(small: Small, tmp_path: Path) -> None:
    learning = {"server": "star", "active": 4, "algorithm": "fedavg"}
    run_scenario(small(learning=learning), str(tmp_path / "run"))
    assert drawn(tmp_path / "run") == ["accuracy"]
    assert "nothing drives" in missing(tmp_path / "run")
    assert "fedavg logs no constraint" in missing(tmp_path / "run")
    write_report(tmp_path / "run", formats=())


def test_what_was_not_logged_is_listed(small: Small, tmp_path: Path) -> None:
    run_scenario(small(log={"track": False, "graph_every": 0}), str(tmp_path / "run"))
    assert drawn(tmp_path / "run") == ["map", "accuracy", "convergence", "visits", "ages"]
    assert "no track was logged" in missing(tmp_path / "run")
    assert "no graph was logged" in missing(tmp_path / "run")
    write_report(tmp_path / "run", formats=())


def test_a_run_in_which_nothing_got_through_says_so(small: Small, tmp_path: Path) -> None:
    run_scenario(small(learning={"payload_bytes": 10**12}, stop={"visits": 3}), str(tmp_path / "run"))
    found = content_of(tmp_path / "run").findings
    assert found[0] == "No exchange got through: whatever was learnt, clients learnt alone."
    assert re.search(r"; 3 visits in .*; 0 of \d+ exchanges got through\.$", found[2])
    write_report(tmp_path / "run", formats=())


def test_a_run_that_diverged_says_so_first(small: Small, tmp_path: Path) -> None:
    run_scenario(small(learning={"step_size": 1e38}), str(tmp_path / "run"))
    found = content_of(tmp_path / "run").findings
    assert found[0].startswith("It ended because the models diverged")
    assert sum(sentence.startswith("It ended") for sentence in found) == 1
    write_report(tmp_path / "run", formats=())


def test_the_page_of_a_report_shows_its_text_as_text(studies: Path, tmp_path: Path, open_tab: OpenTab) -> None:
    hostile = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    folder = tmp_path / "hostile"
    shutil.copytree(studies / "three", folder)
    toml = (folder / "study.toml").read_text().replace('title = ""', f'title = "{hostile}"')
    (folder / "study.toml").write_text(toml.replace('"lazy"', json.dumps(hostile)))
    index = pd.read_parquet(folder / "index.parquet").replace({"vehicle.walk": {"lazy": hostile}})
    index.loc[0, ["status", "error"]] = ["failed", hostile]
    index.to_parquet(folder / "index.parquet")
    tab = open_tab(write_report(folder, formats=()) / "report.html", 390, 844, is_mobile=True, color_scheme="dark")
    assert tab.page.inner_text("h1") == f"Study {hostile}"
    assert hostile[:20] in tab.page.inner_text("td:has-text('window.hacked') >> nth=0")
    assert tab.js("window.hacked") is None
    assert tab.js("document.scrollingElement.scrollWidth") <= 390
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = tab.js(ground)
    tab.page.click("#theme")
    assert tab.js(ground) != dark
    assert tab.js("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert tab.complaints == []
    assert all(url.startswith(("file:", "data:")) for url in tab.requests)


# --- studies --------------------------------------------------------------------------------------------------

TINY = {
    "clients": {"count": 4, "mobility": "static"},
    "learning.dataset": {"kind": "synthetic", "samples": [20, 40]},
    "learning.evaluate_every": 2,
    "stop.visits": 6,
    "log.track": False,
}


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Studies over three parameters and over algorithms."""
    folder = tmp_path_factory.mktemp("studies")
    three = {"vehicle.speed_mps": [5, 10], "vehicle.jump": [0.1, 0.5], "vehicle.walk": ["degree", "lazy"]}
    fedmule.study("smoke", three, seeds=2, set=TINY, out=folder / "three", jobs=1)
    fedmule.compare("smoke", ["fedavg"], seeds=2, set=TINY, out=folder / "algorithms", jobs=1)
    return folder


def part(studies: Path, to: Path, keep: Callable[[pd.DataFrame], pd.Series]) -> Path:
    """A copy of a study with only some rows of its index."""
    shutil.copytree(studies / "three", to)
    index = pd.read_parquet(to / "index.parquet")
    index[keep(index)].to_parquet(to / "index.parquet")
    return to


def test_three_parameters_are_heat_maps_with_panels(studies: Path) -> None:
    content = content_of(studies / "three")
    heats = [
        f"heat-{name}"
        for name in ("gain_over_alone", "personal_test_acc_mean", "token_test_acc", "sim_time_s", "bytes")
    ]
    costs = [f"accuracy-{name}" for name in ("sim_time_s", "host_time_s", "visits", "bytes")]
    assert [item.name for item in content.items] == heats + costs
    assert len(content.items[0].draw().axes) == 4  # two panels, a colour bar each
    target = write_report(studies / "three", formats=())
    assert (target / "report.html").stat().st_size > 100_000
    assert len(content.summary) == 1 + 8
    assert content.summary[0][:3] == ["vehicle speed, m/s", "vehicle jump", "vehicle walk"]
    assert content.findings[0].startswith("The gain over training alone is largest at vehicle speed ")
    assert content.findings[-1].startswith("With 2 seeds only large differences show")
    assert (target / "report.md").read_text().split("\n\n")[1:5] == content.findings[:4]


def test_one_parameter_and_none(studies: Path, tmp_path: Path) -> None:
    one = part(studies, tmp_path / "one", lambda i: (i["vehicle.jump"] == 0.1) & (i["vehicle.walk"] == "lazy"))
    assert drawn(one) == ["effect", "accuracy"]
    write_report(one, formats=())
    none = part(
        studies,
        tmp_path / "none",
        lambda i: (i["vehicle.jump"] == 0.1) & (i["vehicle.walk"] == "lazy") & (i["vehicle.speed_mps"] == 5),
    )
    assert drawn(none) == ["accuracy"]
    write_report(none, formats=())
    single = part(studies, tmp_path / "single", lambda i: i["replication"] == 0)
    assert "there is only one seed" in missing(single)
    write_report(single, formats=())


def test_figures_leave_out_values_without_a_run_that_is_done(studies: Path, tmp_path: Path) -> None:
    folder = tmp_path / "begun"
    shutil.copytree(studies / "three", folder)
    index = pd.read_parquet(folder / "index.parquet")
    index.loc[(index["vehicle.jump"] == 0.5) | (index["vehicle.walk"] == "lazy"), "status"] = "missing"
    index.to_parquet(folder / "index.parquet")
    assert drawn(folder) == ["effect", "accuracy"]
    assert "12 of 16 runs have not been made yet" in missing(folder)
    assert content_of(folder).findings[-1] == "12 of 16 runs are not in these figures: 12 missing."
    write_report(folder, formats=())


def test_algorithms_are_compared(studies: Path) -> None:
    assert drawn(studies / "algorithms") == ["comparison", "effect", "accuracy"]
    assert "With 2 seeds only large differences show" in content_of(studies / "algorithms").findings[1]
    write_report(studies / "algorithms", formats=())


def test_points_that_failed_are_listed(studies: Path, tmp_path: Path) -> None:
    folder = tmp_path / "failed"
    shutil.copytree(studies / "three", folder)
    index = pd.read_parquet(folder / "index.parquet")
    index.loc[:1, ["status", "error"]] = ["failed", "<b>out of memory</b>"]
    index.loc[2, "status"] = "missing"
    index.to_parquet(folder / "index.parquet")
    content = content_of(folder)
    assert content.tables["Failures"] == [["runs", "why"], ["2", "<b>out of memory</b>"]]
    assert "2 of 16 runs failed" in missing(folder)
    assert "1 of 16 runs have not been made yet" in missing(folder)
    page = (write_report(folder, formats=()) / "report.html").read_text()
    assert "&lt;b&gt;out of memory&lt;/b&gt;" in page
    index["status"] = "failed"
    keys = ["run", "scenario", "seed", "replication", *load_study(folder).parameters, "status", "error"]
    index[keys].to_parquet(folder / "index.parquet")  # the index of a study without a finished run
    assert drawn(folder) == []
    assert "no run is done" in missing(folder)
    write_report(folder, formats=())


# --- errors ---------------------------------------------------------------------------------------------------


def test_a_folder_that_is_neither_run_nor_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "is neither a run folder (it has no manifest.json) nor a study's" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    (tmp_path / "manifest.json").write_text("{")
    (tmp_path / "scenario.toml").write_text("")
    assert main(["report", str(tmp_path)]) == 2
    assert "cannot be read, a file is damaged: Expecting property name" in capsys.readouterr().err


def test_invalid_formats_and_output_folders(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_scenario(small(stop={"visits": 2}), str(tmp_path / "run"))
    assert main(["report", str(tmp_path / "run"), "--formats", "gif"]) == 2
    assert "--formats gif: must be one of png, pdf, svg" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "file")]) == 2
    assert "is a file; choose a folder with --out" in capsys.readouterr().err
