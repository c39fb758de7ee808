"""The benchmarks run, and what they are there to show holds at small sizes with a wide margin for noise."""

from __future__ import annotations

import time
from pathlib import Path

import alone_share
import fleet_cost
import pytest
import replay_page
import report_cost
import roofline
import route_cost
import study_loading
import torch
import town_cost
import travel_cost
import visit_cost
import walk_table
import walks
import world_share
from browser import chromium_path
from contact_cost import compare
from hot_paths import main
from trace_contacts import times_faster

from fedmule.analysis import load_run, load_study
from fedmule.learning.models.logistic import MLR
from fedmule.simulator.studies.batch import run_plan
from fedmule.simulator.studies.plan import StudyFile, plan_study
from fedmule.simulator.studies.statistics import interval


def test_a_contact_costs_the_same_with_more_clients() -> None:
    (_, _, _, first), (_, cost_ms, _, ratio) = compare([100, 3000], "static", contacts=20, rounds=5)
    assert first == 1.0
    assert cost_ms > 0
    assert ratio < 2.0


def test_many_vehicles_cost_little_more_per_visit_than_one() -> None:
    assert fleet_cost.compare([1, 50], 60.0, visits=150, rounds=3)[1] < 2.0  # 1.3 times as measured


def test_staggered_reports_cost_little_more_than_reports_at_once() -> None:
    at_once, staggered, late = report_cost.compare(looks=60).values()
    assert staggered < 3 * at_once  # 1.4 times as measured
    assert late < 4 * at_once  # 1.7 times


ROOT = Path(__file__).parents[2]

PROMISED = {"MLR": 12.0, "MLP": 3.5, "CNN": 1.3}


def test_hot_paths_beat_plain_ones() -> None:
    for name, times in main(rounds=3).items():
        beside = {"with a prior": 1 / 1.15, "handed on": 0.6}  # whole updates, to those without
        promised = next((least for part, least in beside.items() if part in name), PROMISED.get(name[:3], 4.0))
        assert times > 0.75 * promised, name


def test_contacts_of_a_trace_are_found_faster_than_by_a_plain_search() -> None:
    ratio, found, plain = times_faster(40)
    assert len(found) == plain
    assert ratio > 20


def test_a_study_of_a_thousand_runs_loads_in_seconds(tmp_path: Path) -> None:
    study_loading.make_study(tmp_path, 1000, visits=100)
    took = study_loading.seconds(tmp_path)
    assert took.pop("index") < 1.0  # CPU seconds, as below
    assert max(took.values()) < 20.0  # eight times as measured
    table = load_study(tmp_path).contacts(study_loading.COLUMNS)
    first = load_run(tmp_path / "runs" / "0").summary
    assert first["visits"] == 100 < first["contacts"]  # some in passing
    assert len(table) == 1000 * first["contacts"]
    assert (table.groupby("run")["visit"].max() == 100).all()
    assert list(table.columns) == [*study_loading.COLUMNS, "run", "vehicle.speed_mps", "seed"]
    assert table.groupby("vehicle.speed_mps")["seed"].nunique().tolist() == [100] * 10


def test_a_thousand_clients_move_smoothly_in_a_page_of_less_than_10_mb() -> None:
    if chromium_path() is None:
        pytest.skip("no Chromium on the PATH")
    pytest.importorskip("playwright", reason="Playwright is not installed")
    found = replay_page.measure(replay_page.made_up_run(1000, 2000, together=True), play_s=2)
    assert found.size_mb < 10
    assert found.draw_ms < 33  # our share of a frame: how often the browser gets to run is the machine's affair


def test_the_parts_of_a_run_make_up_the_whole() -> None:
    began_s = time.process_time()
    run = world_share.measure("smoke", ("stop.visits=100",))
    took_s = time.process_time() - began_s
    assert run.visits == 100
    assert run.events >= 200
    assert 0.3 * took_s < run.total_s <= took_s
    assert all(run.spent_s[part] > 0 for part in world_share.PARTS)
    assert "| `smoke` | 100 |" in world_share.table({"smoke": run})


@pytest.mark.parametrize("world", ["warzone", "earthquake"])
def test_fastest_ways_cost_about_as_much_as_the_shortest(world: str) -> None:
    _, times, share = route_cost.compare(world, count=40, rounds=3)
    assert times < 4.0  # measured: 0.7 and 1.5
    assert share < 1.0


def test_a_tour_visits_everyone_in_as_many_visits_and_drives_less_than_a_random_walk() -> None:
    visits, _, seconds, _ = walks.measure(walks.scenario("static", "tour", 0, 60))
    assert visits == 40
    assert seconds < walks.measure(walks.scenario("static", "degree", 0, 60))[2]
    assert walks.measure(walks.scenario("static", "tour", 0, 60, in_passing=True))[0] == 40  # others do not count
    assert walks.measure(walks.scenario("warzone", "tour", 0, 45))[0] == 40


def test_bounds_of_travel_times_cost_next_to_nothing_and_are_bounds() -> None:
    cost = travel_cost.measure("warzone", 20)
    assert cost.bound_us < 100 * cost.way_ms  # for all clients together a tenth of one way; 0.4 % as measured
    assert cost.detour > 1.1
    assert travel_cost.measure("underwater", 20).detour == pytest.approx(1.0, abs=0.1)


def test_the_table_of_walks(tmp_path: Path) -> None:
    """Two walks, two seeds: the scenario's own comes first, and differences are paired by seed."""
    changes = {"vary": {"vehicle.walk": ("tour", "degree")}, "set": {"stop.visits": 10}}
    study = StudyFile(name="walks", scenarios=("smoke",), seeds=2, **changes)
    run_plan(plan_study(study), tmp_path / "study", jobs=1, quiet=True)
    index = load_study(tmp_path / "study").done.assign(scenario="smoke")
    own, other = walk_table.lines(index)
    assert own.startswith("| `smoke` | `degree` |")
    assert own.endswith("| – |")
    values = index.pivot(index="seed", columns="vehicle.walk", values="personal_test_acc_mean")
    mean, width = interval((100 * (values["tour"] - values["degree"])).tolist())
    assert f"{mean:+.1f} ± {width:.1f}" in other


def test_training_alone_takes_about_a_tenth_of_a_run() -> None:
    alone_share.measure("smoke")
    found = [alone_share.measure("smoke") for _ in range(3)]
    assert found[0].sample == found[0].clients == 12
    assert len({run.gradient_steps for run in found}) == 1
    assert min(run.share for run in found) < 0.2  # 8 % as measured


def test_the_cost_of_a_visit_is_compared_with_another_checkout(tmp_path: Path) -> None:
    """The same program under another name: as many visits, and about the same cost."""
    programs = [visit_cost.Program(ROOT, tmp_path / name) for name in ("own", "other")]
    found = [program.ask(where="fedmule.radio.link") for program in programs]
    assert found == [str(tmp_path / name / "fedmule" / "radio" / "link.py") for name in ("own", "other")]
    cost = visit_cost.measure(programs, "warzone", rounds=1, overrides=("stop.visits=6",))
    assert cost.visits == 6 < cost.contacts
    assert all(0.2 < own / other < 5 for own, other in (cost.visit_ms, cost.contact_ms))
    assert "| `warzone` | 6 |" in visit_cost.table({"warzone": cost})
    for program in programs:
        program.end()


def test_compiled_training_comes_near_the_speed_of_a_product_of_matrices() -> None:
    """About as fast as measured, 1.1 times; a plain loop of PyTorch reaches a tenth."""
    torch.set_num_threads(1)
    ratios = [roofline.training_gflops(MLR(784, 10)) / roofline.matrix_gflops(512) for _ in range(3)]
    assert max(ratios) > 0.4


def test_routes_and_contacts_in_a_town_cost_little() -> None:
    town_cost.measure(4, [50.0], 2, 1)
    cost = town_cost.measure(50, [180.0, 950.0], routes=5, contacts=10)
    assert cost.build_s < 1.5  # a tenth as measured
    assert min(cost.route_ms[180.0]) < 10
    assert min(cost.route_ms[950.0]) < 60
    assert 950 <= cost.longest_m[950.0] < 1000
    among_near, among_all = cost.contact_ms
    assert among_all < 2 * among_near  # 1.0 times as measured
    assert "| a route of 180 m, ms" in town_cost.table(cost)
