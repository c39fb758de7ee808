"""Scenarios with groups of clients: what is wrong with them is located, and they load again as they were written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from short_runs import same

from fedmule import load_run
from fedmule.analysis.loading import mobility_tables
from fedmule.simulator.cli import main
from fedmule.simulator.errors import ScenarioError
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.scenario.rules import broken_rules
from fedmule.simulator.streams import Streams
from fedmule.simulator.world import build_world

Small = Callable[..., Scenario]

TINY = """
[terrain]
size_m = [200, 200]
[[clients.groups]]
count = 3
mobility = "static"
[[clients.groups]]
count = 2
mobility = "patrol"
[learning]
dataset = { kind = "synthetic", samples = [20, 40] }
[stop]
visits = 4
"""
POSTS = {"name": "posts", "count": 4, "mobility": "static"}
PATROL = {"count": 2, "mobility": "patrol"}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["run", "tiny.toml", "--quiet", "--out", "refused", *arguments]) == 2
    return capsys.readouterr().err


def with_groups(small: Small, *groups: dict[str, Any], **changes: Any) -> Scenario:
    clients = {"count": sum(group["count"] for group in groups), "groups": list(groups), **changes.pop("clients", {})}
    return small(clients=clients, **changes)


def test_a_resolved_scenario_loads_again(desk: Path) -> None:
    scenario = load_scenario("tiny.toml", {"clients.groups.1.site": 0, "clients.groups.0.radio_gain_db": -2.5})
    assert scenario.clients.count == 5
    assert main(["run", "tiny.toml", "--quiet", "--out", "run", "--set", "clients.groups.1.site=0"]) == 0
    assert main(["run", "run", "--quiet", "--out", "again"]) == 0
    assert (desk / "run/scenario.toml").read_text() == (desk / "again/scenario.toml").read_text()
    first, again = load_run("run"), load_run("again")
    same(first.contacts, again.contacts)
    assert first.scenario["clients"]["count"] == 5


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("clients.count=6", "--set: clients.count = 6: must be the sum of the groups, 5, or be left out"),
        ("clients.groups.0.count=0", "--set: clients.groups[0].count = 0: must be at least 1"),
        ("clients.groups=[]", "--set: clients.groups = []: must have at least one group, or be left out"),
        ("clients.groups=3", "--set: clients.groups = 3: must be a list in square brackets"),
        ('clients.groups=[{name="a"}]', "--set: clients.groups[0].count: is missing, and has no default"),
        ("clients.groups.5.count=2", "--set clients.groups.5.count: 5 is not a key there"),
        ("clients.groups.1.mobilty=static", '[1].mobilty = "static": unknown key; did you mean mobility?'),
        ("clients.groups.1.mobility=statc", '[1].mobility.kind = "statc": must be one of static, '),
        ("clients.groups.1.mobility.speed=[1,2]", "[1].mobility.speed = [1, 2]: unknown key; did you mean speed_mps?"),
        (
            "clients.groups.1.mobility=redrawn",
            '--set: clients.groups[1].mobility.kind = "redrawn": cannot be that of a group: it redraws the positions',
        ),
        (
            "clients.groups.0.mobility={kind='static', positions=[[1,1]]}",
            'clients.groups[0].mobility.positions = "1 positions": must have one position for each of the 3 clients',
        ),
        ("clients.groups.0.mobility={kind='herd', herds=4}", "[0].mobility.herds = 4: must be at most the number of "),
        ("clients.groups.1.mobility.speed_mps=[2,1]", "[1].mobility.speed_mps = [2.0, 1.0]: must be [lowest, highest]"),
        ("clients.groups.0.site=1", "clients.groups[0].site = 1: must be less than 1, the number of sites given"),
        ("clients.groups.0.site=-1", "clients.groups[0].site = -1: must be at least 0"),
        ("clients.groups.0.name='1'", 'clients.groups[0].name = "1": must differ from the names and numbers of other'),
        ("clients.groups.0.radio_gain_db=3", "[0].radio_gain_db = 3.0: must be 0 or less: a link is as good as its "),
        ("clients.groups.0.compute_flops_per_s=0", "[0].compute_flops_per_s = 0: must be greater than 0"),
        ("clients.late=5", "clients.late = 5: must be less than the number of clients, 5"),
    ],
)
def test_what_is_wrong_is_located(desk: Path, capsys: pytest.CaptureFixture[str], keys: str, message: str) -> None:
    assert message in refused(capsys, "--set", keys)


def test_a_disc_cannot_be_weaker(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "--set", "radio=disc", "--set", "clients.groups.1.radio_gain_db=-3")
    assert 'clients.groups[1].radio_gain_db = -3.0: must be 0 for radio = "disc", which has no link budget' in message


def test_the_movement_of_all_is_checked_for_the_groups_that_use_it(small: Small) -> None:
    herds = {"mobility": {"kind": "herd", "herds": 4}}
    assert not broken_rules(with_groups(small, POSTS, PATROL, clients={"mobility": {"kind": "herd", "herds": 40}}))
    (problem,) = broken_rules(with_groups(small, {"count": 3}, {"count": 5}, POSTS, clients=herds))
    assert (problem.key, problem.value) == ("clients.mobility.herds", 4)
    expected = "must be at most the number of clients, 3 (clients.groups[0] has no mobility of its own)"
    assert problem.message == expected


def test_squads_that_regroup_at_different_times_are_refused_where_data_follow(small: Small) -> None:
    squads = {"kind": "squads", "squads": 2}
    groups = [{"count": 4, "mobility": {**squads, "regroup_at_s": at_s}} for at_s in (40.0, 60.0)]
    build_world(with_groups(small, *groups), Streams(0), {})
    with pytest.raises(
        ScenarioError, match=r"clients.groups\[1\].mobility.regroup_at_s = 60.0: must be that of clients"
    ):
        build_world(with_groups(small, *groups, learning={"shift": "permuted"}), Streams(0), {})


def test_the_reference_explains_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--explain"]) == 0
    text = capsys.readouterr().out
    section = text[text.index("\n[clients.groups]\n") + 1 :].split("\n\n")[0]
    assert [line.split()[0] for line in section.splitlines()[1:]] == [
        *("count", "name", "mobility", "compute_flops_per_s", "site", "radio_gain_db"),
    ]  # fmt: skip


# --- the example of docs/mobility.md ----------------------------------------------------------------------------


PAGE = (Path(__file__).parents[2] / "docs" / "mobility.md").read_text(encoding="utf-8")


def test_the_ward_of_the_page(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "[[clients.groups]]" in text]
    (code,) = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "runs/ward" in text]
    (desk / "ward.toml").write_text(example)
    assert main(["run", "ward.toml", "--quiet", "--set", "learning.evaluate_every=60"]) == 0
    exec(compile(code, "mobility.md", "exec"), {})
    assert {"nurses", "beds"} <= set(capsys.readouterr().out.split())
    world = build_world(load_scenario("ward.toml"), Streams(0), {})
    reach = [world.radio.ladder(loss).distances_m[-1] for loss in world.hearing.extra_loss_db[[0, 4]]]
    assert reach == pytest.approx([30.0, 9.5], abs=0.05)
    contacts = load_run("runs/ward").contacts
    beds = [(ids > 3).any() for ids in contacts["active_ids"]]
    both = [(bed, s) for bed, s in zip(beds, contacts["compute_s"], strict=True) if s > 0]
    took = {bed: max(s for other, s in both if other == bed) for bed, _ in both}  # who is alone does not compute
    assert took[True] == pytest.approx(0.026, abs=0.0005)
    assert took.get(False, 0.0005) == pytest.approx(0.0005, abs=0.0001)
    assert set(mobility_tables(load_run("runs/ward").scenario)) == {"nurses", "beds"}
    assert main(["report", "runs/ward"]) == 0
    assert main(["replay", "runs/ward"]) == 0
    assert "nurses: waypoint, beds: static" in (desk / "runs/ward/replay.html").read_text()
