"""`fedmule trace`, `fedmule contacts` and runs whose clients follow a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedmule.analysis import load_run
from fedmule.analysis.plots import draw_run
from fedmule.mobility.traces.formats import read_trace
from fedmule.simulator.cli import main

CSV = "node,t,x,y\n0,0,0,0\n0,100,100,0\n1,0,100,0\n1,100,0,0\n2,40,50,90\n2,60,,\n"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("walk.csv").write_text(CSV)


def test_the_trace_command_describes_and_draws_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "walk.csv"]) == 0
    printed = capsys.readouterr().out
    assert "walk.csv: 3 nodes, 6 waypoints" in printed
    assert "x 0.0 to 100.0 m, y 0.0 to 90.0 m" in printed
    assert "0:01:40, from 0 to 100 s" in printed
    assert "mean 1.00 m/s while moving" in printed
    assert "nodes come and go: 2.2 are present on average" in printed
    assert Path("walk-trace.png").stat().st_size > 10_000


def test_trace_converts_by_the_suffix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "walk.csv", "--out", "walk.xml.gz", "--step-s", "5", "--plot", "p.png"]) == 0
    assert "walk.xml.gz, as SUMO FCD" in capsys.readouterr().out
    again = read_trace("walk.xml.gz")
    assert (len(again), again.end_s, again.comes_and_goes) == (3, 100.0, True)
    assert main(["trace", "walk.csv", "--out", "walk.movements"]) == 0
    assert "BonnMotion cannot express that nodes come and go" in capsys.readouterr().err


def test_a_trace_far_from_the_corner_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("far.csv").write_text("node,t,x,y\n0,0,500000,5400000\n0,9,500100,5400100\n")
    assert main(["trace", "far.csv"]) == 0
    assert "far from (0, 0), from (500000, 5400000) on" in capsys.readouterr().err


def test_contacts_are_written_and_summarised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contacts", "walk.csv", "--range-m", "10", "--out", "met.csv", "--plot", "met.png"]) == 0
    assert Path("met.csv").read_text() == "a,b,start,end\n0,1,45.00000000,55.00000000\n"
    printed = capsys.readouterr().out
    assert "1 contacts of 1 pairs of 3 nodes within 10 m" in printed
    assert "contact times        mean 10.0 s" in printed
    assert "inter-contact times  none" in printed
    assert Path("met.png").stat().st_size > 10_000
    assert main(["contacts", "walk.csv", "--range-m", "10", "--until-s", "50", "--out", "met.csv"]) == 0
    assert Path("met.csv").read_text().endswith("0,1,45.00000000,50.00000000\n")
    assert main(["contacts", "walk.csv", "--range-m", "1", "--until-s", "5"]) == 0
    assert "0 contacts of 0 pairs" in capsys.readouterr().out


def test_errors_in_a_trace_are_reported_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.csv").write_text("node,t,x,y\n0,0,1,1\n0,1,?,1\n")
    for command in (["trace", "bad.csv"], ["contacts", "bad.csv", "--range-m", "10"]):
        assert main(command) == 2
        assert capsys.readouterr().err == "bad.csv, line 3: x must be a number: ?\n"
    assert main(["trace", "none.csv"]) == 2
    assert main(["trace", "walk.csv", "--out", "walk.doc"]) == 2
    assert main(["contacts", "walk.csv", "--range-m", "10", "--out", "no/such/folder.csv"]) == 2
    with pytest.raises(SystemExit) as wrong:
        main(["contacts", "walk.csv", "--range-m", "-1"])
    assert wrong.value.code == 2


SCENARIO = """
terrain = { size_m = [400, 400] }
clients = { count = 4, mobility = { kind = "trace", path = "moves.csv" } }
radio = { kind = "disc", range_m = 60, setup_s = 10 }
learning = { dataset = { samples = [20, 40] } }
"""


def write_scenario(rows: list[tuple[object, ...]], stop: str) -> None:
    text = "\n".join(",".join(map(str, row)) for row in [("node", "t", "x", "y"), *rows])
    Path("moves.csv").write_text(text + "\n")
    Path("moves.toml").write_text(f"{SCENARIO}\n[stop]\n{stop}\n")


def test_clients_take_part_only_while_they_are_in_the_trace() -> None:
    write_scenario(
        [
            ("a", 0, 50, 50),
            ("a", 600, 80, 50),
            ("b", 0, 70, 50),
            ("b", 200, "", ""),
            ("c", 300, 60, 70),
            ("c", 500, 60, 70),
            ("c", 500, "", ""),
            ("d", 400, 90, 60),
            ("d", 700, 90, 60),
            ("d", 700, "", ""),
        ],
        "sim_time_s = 900",
    )
    assert main(["run", "moves.toml", "--quiet", "--out", "run"]) == 0
    run = load_run("run")
    clients = run.track[run.track["node"] == "client"]
    for client, comes, goes in ((1, 0.0, 200.0), (2, 300.0, 500.0), (3, 400.0, 700.0)):
        rows = clients[clients["id"] == client]
        here = rows["x_m"].notna()
        assert (here == rows["y_m"].notna()).all()
        assert (rows["sim_time_s"][here].min(), rows["sim_time_s"][here].max()) == (comes, goes)
        assert rows["x_m"][here].between(0, 400).all()
        assert not here.iloc[-1]  # gone at the end
        assert here.iloc[0] == (comes == 0)
    figure = draw_run(run)
    drawn = {a.get_label(): a.get_offsets().data for a in figure.axes[0].collections if a.get_label() != "contacts"}
    assert len(drawn["clients at the end"][~np.isnan(drawn["clients at the end"]).any(axis=1)]) == 1
    contacts = run.contacts
    ends_s = contacts["sim_time_s"]
    arrived_s = ends_s - contacts["contact_s"]
    there = {0: (0, 900), 1: (0, 200), 2: (300, 500), 3: (400, 700)}
    assert set(contacts["client"]) == set(there)
    for client, (comes, goes) in there.items():
        visits = contacts["client"] == client
        assert arrived_s[visits].between(comes, goes).all(), client
        got_through = contacts["delivered_ids"].map(lambda ids, client=client: client in ids)
        assert got_through.any(), client
        assert (arrived_s[got_through] >= comes).all(), client
        assert (ends_s[got_through] <= goes).all(), client
    late = contacts[arrived_s > 700]
    assert len(late) > 3
    assert (late["neighbours"] == 1).all()


def test_the_vehicle_waits_while_nobody_is_there_and_ends_when_nobody_will_come() -> None:
    rows = [(n, t, *p) for n in "abcd" for t, p in ((0, ("", "")), (100, (40, 40)), (300, ("", "")))]
    write_scenario(rows, "visits = 10000")
    assert main(["run", "moves.toml", "--quiet", "--out", "run"]) == 0
    run = load_run("run")
    assert run.summary["stopped_by"] == "nobody_reached"
    assert (run.contacts["sim_time_s"] - run.contacts["contact_s"]).min() >= 100
    assert run.summary["sim_time_s"] >= 300
    assert run.summary["visits"] > 0


def test_a_trace_that_is_missing_or_does_not_fit_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write_scenario([("a", 0, 50, 50)], "visits = 5")
    assert main(["run", "moves.toml"]) == 2
    assert "moves.csv: has 1 nodes, fewer than the 4 clients" in capsys.readouterr().err
    Path("moves.csv").unlink()
    assert main(["run", "moves.toml"]) == 2
    assert "no such file" in capsys.readouterr().err
