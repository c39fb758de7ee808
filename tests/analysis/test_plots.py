"""Figures show what the tables hold."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from fedmule.analysis import Run, Study, load_run
from fedmule.analysis.plots import (
    draw_accuracy,
    draw_ages,
    draw_comparison,
    draw_convergence,
    draw_costs,
    draw_curves,
    draw_effect,
    draw_graph,
    draw_heat,
    draw_map,
    draw_run,
    draw_theory,
    draw_visits,
)
from fedmule.analysis.plots.studies import draw_panels
from fedmule.analysis.plots.style import save
from fedmule.analysis.plots.visits import ages
from fedmule.analysis.plots.words import axis_of, label_of, named, scale_of
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    from small_scenario import SMALL

    folder, found = tmp_path_factory.mktemp("runs"), []
    for seed in range(3):
        run_scenario(Scenario.model_validate({**SMALL, "seed": seed}), str(folder / str(seed)))
        found.append(load_run(folder / str(seed)))
    return found


def study_of(runs: list[Run], folder: Path, **parameters: list[Any]) -> Study:
    """A study of 2 × 2 points × 3 seeds with known results: accuracy = x/10 + y/100 + seed/1000."""
    rows = []
    for x in parameters["x"]:
        for y in parameters["y"]:
            for seed, run in enumerate(runs):
                result = parameters["x"].index(x) / 10 + parameters["y"].index(y) / 100 + seed / 1000
                keys = {"run": str(run.folder), "scenario": "small", "seed": seed, "replication": seed}
                outcome = {**run.summary, "personal_test_acc_mean": result}
                rows.append(
                    {**keys, "vehicle.speed_mps": x, "radio.kind": y, "status": "done", "error": None, **outcome}
                )
    study = {"name": "s", "scenarios": ["small"], "vary": {"vehicle.speed_mps": [], "radio.kind": []}, "zip": []}
    return Study(folder, study, pd.DataFrame(rows))


@pytest.fixture
def study(runs: list[Run], tmp_path: Path) -> Study:
    return study_of(runs, tmp_path, x=[5, 10], y=["disc", "ble"])


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def names(axes: Axes) -> list[str]:
    return [str(label) for label in axes.get_legend_handles_labels()[1]]


# --- runs -----------------------------------------------------------------------------------------------------


def test_accuracy_of_one_run_is_its_log(runs: list[Run]) -> None:
    contacts = runs[0].contacts
    for against, x in {
        "sim_time_s": contacts["sim_time_s"] / 3600,
        "host_time_s": contacts["host_time_s"],
        "visits": contacts["visit"],
        "bytes": (contacts["bytes_down"] + contacts["bytes_up"]).cumsum() / 1e6,
    }.items():
        axes = draw_accuracy(runs[0], against).axes[0]
        personal, token, alone = axes.lines
        assert list(personal.get_xdata()) == pytest.approx(list(x))
        assert list(personal.get_ydata()) == pytest.approx(list(100 * contacts["personal_test_acc_mean"]))
        assert len(np.asarray(token.get_xdata())) == contacts["token_test_acc"].notna().sum()
        assert list(alone.get_ydata()) == pytest.approx(list(100 * contacts["alone_test_acc_mean"].dropna()))
    older = replace(runs[0], contacts=contacts.drop(columns="alone_test_acc_mean"))
    assert len(draw_accuracy(older).axes[0].lines) == 2
    with pytest.raises(ValueError, match="must be one of sim_time_s"):
        draw_accuracy(runs[0], "hours")


def test_accuracy_of_seeds_is_their_mean_with_a_band(runs: list[Run]) -> None:
    axes = draw_accuracy(runs, "visits").axes[0]
    x, y = (np.asarray(values, dtype=float) for values in axes.lines[0].get_data())
    last = [100 * run.contacts["personal_test_acc_mean"].iloc[-1] for run in runs]
    assert (x[-1], y[-1]) == (20, pytest.approx(np.mean(last)))
    band = axes.collections[0].get_paths()[0].get_extents()
    width = 4.302653 * np.std(last, ddof=1) / math.sqrt(3)  # Student's t, two degrees
    assert band.y1 >= min(100.0, np.mean(last) + width) - 1e-6


def test_figures_are_drawn_on_the_given_axes(runs: list[Run]) -> None:
    figure = Figure()
    axes = figure.subplots()
    assert draw_accuracy(runs[0], axes=axes) is figure
    assert draw_map(runs[0]) is not figure
    assert draw_map(runs[0])._repr_png_().startswith(b"\x89PNG")  # a notebook displays it


def labelled(axes: Axes, label: str) -> Any:
    """What is drawn under this name in the legend."""
    (found,) = [drawn for drawn in axes.collections if drawn.get_label() == label]
    return found


def test_the_map_shows_paths_contacts_and_clients(runs: list[Run]) -> None:
    axes = draw_map(runs[0]).axes[0]
    assert names(axes) == ["paths of clients", "path of the vehicle", "contacts", "clients at the end"]
    assert axes.get_xlim() == (0, 300)
    contacts = labelled(axes, "contacts").get_offsets()
    assert np.asarray(contacts) == pytest.approx(runs[0].contacts[["vehicle_x_m", "vehicle_y_m"]].to_numpy())


def test_the_map_of_two_vehicles_has_two_paths(runs: list[Run]) -> None:
    track = runs[0].track
    second = track[track["node"] == "vehicle"].assign(id=1, x_m=lambda rows: rows["x_m"] + 5)
    run = replace(runs[0], track=pd.concat([track, second]))
    assert names(draw_map(run).axes[0])[1:3] == ["vehicle 0", "vehicle 1"]


def test_a_map_without_a_track_has_contacts_only(runs: list[Run]) -> None:
    run = replace(runs[0], track=runs[0].track.iloc[:0])
    assert names(draw_map(run).axes[0]) == ["contacts"]
    assert "vehicle" not in names(draw_graph(run).axes[0])  # positions are a layout, not logged


def test_the_graph_at_a_visit_is_the_logged_one(runs: list[Run]) -> None:
    run = runs[0]
    axes = draw_graph(run, visit=12).axes[0]
    rows = run.graph[run.graph["visit"] == 10]
    edges = rows[rows["a"] != rows["b"]]
    assert f"{len(edges)} links" in names(axes)
    (lines,) = [drawn for drawn in axes.collections if isinstance(drawn, LineCollection)]
    drawn = np.array(lines.get_segments())
    track = run.track[run.track["node"] == "client"]
    now = rows["sim_time_s"].iloc[0]
    for (a, b), segment in zip(edges[["a", "b"]].to_numpy(), drawn, strict=True):
        for client, position in ((a, segment[0]), (b, segment[1])):
            own = track[track["id"] == client]
            assert position[0] == pytest.approx(np.interp(now, own["sim_time_s"], own["x_m"]))
    with pytest.raises(ValueError, match="first contact graph was logged at visit 5"):
        draw_graph(run, visit=2)


def test_visits_and_exchanges_are_counted(runs: list[Run]) -> None:
    axes = draw_visits(runs[0]).axes[0]
    assert runs[0].contacts["in_passing"].any()  # else contacts in passing could be counted as visits
    counts = runs[0].contacts.query("not in_passing")["client"].value_counts()
    assert counts.sum() == 20
    assert [bar.get_height() for bar in axes.patches] == [counts.get(i, 0) for i in range(8)]
    last = runs[0].clients[runs[0].clients["contact"] == len(runs[0].contacts)].set_index("client")
    exchanges = np.asarray(axes.collections[0].get_offsets())[:, 1]
    assert list(exchanges) == list(last["participations"])


def test_visits_are_stacked_by_vehicle(runs: list[Run]) -> None:
    contacts = runs[0].contacts.assign(vehicle=lambda rows: rows["visit"] % 2)
    axes = draw_visits(replace(runs[0], contacts=contacts)).axes[0]
    assert set(names(axes)) == {"exchanges completed", "visits of vehicle 0", "visits of vehicle 1"}
    visits = contacts[~contacts["in_passing"]]
    for bars, own in ((axes.patches[:8], visits[visits["vehicle"] == 0]), (axes.patches[8:], visits)):
        counts = own["client"].value_counts()
        assert [bar.get_y() + bar.get_height() for bar in bars] == [counts.get(i, 0) for i in range(8)]


def test_ages_count_from_the_last_visit_or_exchange(runs: list[Run]) -> None:
    contacts, times = runs[0].contacts, np.array([0.0, 30.0, 77.0, 200.0])
    for client in range(8):
        completed = contacts["delivered_ids"].map(lambda ids, client=client: client in ids)
        visited = (contacts["client"] == client) & ~contacts["in_passing"]
        for of, rows in (("visits", visited), ("exchanges", completed)):
            own = contacts.loc[rows, "sim_time_s"]
            expected = [t - own[own <= t].max() for t in times]  # nan if there is none
            assert list(ages(runs[0], times, of)[client]) == pytest.approx(expected, nan_ok=True)
    axes = draw_ages(runs[0]).axes[0]
    assert np.asarray(axes.images[0].get_array()).shape == (8, 400)
    with pytest.raises(ValueError, match='"visits" or "exchanges"'):
        draw_ages(runs[0], of="meals")


def test_four_costs_convergence_and_theory(runs: list[Run]) -> None:
    assert len(draw_costs(runs[0]).axes) == 4
    violation = draw_convergence(runs[0]).axes[0].lines[0]
    logged = runs[0].contacts.dropna(subset=["violation_max"])
    assert list(violation.get_xdata()) == list(logged["contact"])
    assert list(violation.get_ydata()) == list(logged["violation_max"])
    assert len(draw_theory(runs[0]).axes) == 4
    assert len(draw_run(runs[0]).axes) == 2


def test_runs_without_a_visit_are_drawn_empty(runs: list[Run]) -> None:
    run = replace(runs[0], contacts=runs[0].contacts.iloc[:0])
    for draw in (draw_accuracy, draw_costs, draw_map, draw_visits, draw_ages, draw_convergence, draw_run):
        draw(run).savefig(Path("/dev/null"), format="png")


# --- studies --------------------------------------------------------------------------------------------------


def test_a_heat_map_shows_the_gain_over_training_alone_unless_asked_for_another_result(study: Study) -> None:
    index = study.index.assign(gain_over_alone=study.index["personal_test_acc_mean"] - 0.08)
    figure = draw_heat(replace(study, index=index))
    assert texts(figure.axes[0]) == ["−7.9\n± 0.2", "+2.1\n± 0.2", "−6.9\n± 0.2", "+3.1\n± 0.2"]
    assert figure.axes[0].images[0].get_clim() == pytest.approx((-7.9, 7.9))
    assert figure.axes[1].get_ylabel() == "gain over training alone (points)"
    unknown = draw_heat(replace(study, index=study.index.assign(gain_over_alone=math.nan)))
    assert unknown.axes[1].get_ylabel() == "personal test accuracy (%)"


def test_a_heat_map_has_means_and_intervals(study: Study) -> None:
    axes = draw_heat(study, metric="personal_test_acc_mean").axes[0]
    assert axes.get_xlabel() == "vehicle speed (m/s)"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["5", "10"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["disc", "ble"]
    # 100 × (x/10 + y/100 + (0 + 1 + 2)/3/1000) ± t·s/√3 with s = 0.1
    assert texts(axes) == ["0.1\n± 0.2", "10.1\n± 0.2", "1.1\n± 0.2", "11.1\n± 0.2"]
    assert np.asarray(axes.images[0].get_array()) == pytest.approx(np.array([[0.1, 10.1], [1.1, 11.1]]))


def test_a_heat_map_marks_failed_runs(study: Study) -> None:
    index = study.index.copy()
    gone = (index["vehicle.speed_mps"] == 5) & (index["radio.kind"] == "disc")
    index.loc[gone, "status"] = "failed"
    index.loc[index.index[-1], "personal_test_acc_mean"] = math.nan
    axes = draw_heat(replace(study, index=index), metric="personal_test_acc_mean").axes[0]
    assert texts(axes)[0] == "–"
    assert texts(axes)[-1].endswith("(2 of 3)")


def gains(study: Study, gain: Any) -> Study:
    """The study with other gains: a function of speed, radio and seed."""
    keys = ("vehicle.speed_mps", "radio.kind", "seed")
    known = [gain(*values) for values in zip(*(study.index[key] for key in keys), strict=True)]
    return replace(study, index=study.index.assign(gain_over_alone=known))


def test_colours_of_noise_are_pale_and_what_may_be_chance_is_hatched(study: Study) -> None:
    small = draw_heat(gains(study, lambda v, r, seed: 0.002 if v == 5 else 0.001 * (seed - 1)))
    assert small.axes[0].images[0].get_clim() == (-5, 5)  # 0.2 points, in a scale of at least 5
    boxes = [patch.get_xy() for patch in small.axes[0].patches]
    assert boxes == [(0.5, -0.5), (0.5, 0.5)]  # ±0.1 points about 0, at 10 m/s
    assert "hatched" in small.axes[0].get_title()
    wide = draw_heat(gains(study, lambda v, r, seed: 0.1 * (seed - 1))).axes[0].images[0].get_clim()
    assert wide == pytest.approx((-49.7, 49.7), abs=0.1)  # two half-widths: t(2) · 10 / √3 each
    clear = draw_heat(gains(study, lambda v, r, seed: 0.3)).axes[0]
    assert clear.images[0].get_clim() == pytest.approx((-30, 30))
    assert not clear.patches


def test_scales_of_accuracy_end_at_100_percent(study: Study) -> None:
    index = study.index.assign(personal_test_acc_mean=[0.98 + 0.001 * (i % 3) for i in range(len(study.index))])
    axes = draw_heat(replace(study, index=index), metric="personal_test_acc_mean").axes[0]
    assert axes.images[0].get_clim() == pytest.approx((90, 100))


def test_bars_end_where_accuracies_can(study: Study) -> None:
    index = study.index.assign(personal_test_acc_mean=[(0.7, 0.9, 1.0)[i % 3] for i in range(len(study.index))])
    axes = draw_effect(replace(study, index=index), where={"radio.kind": "disc"}).axes[0]
    for segment in axes.containers[0].lines[2][0].get_segments():
        low, high = segment[:, 1]
        assert (low, high) == pytest.approx((100 * 2.6 / 3 - 37.9, 100), abs=0.1)  # t(2) · 15.3 / √3


def test_bars_of_bytes_end_at_0_and_of_losses_nowhere(study: Study) -> None:
    index = study.index.assign(bytes_down=[0, 0, 3e6] * 4, bytes_up=0, lagrangian=[0.0, 0.0, 3.0] * 4)
    for metric, lowest in (("bytes", 0.0), ("lagrangian", 1 - 4.302653)):  # 1 ± t(2) · √3 / √3
        axes = draw_effect(replace(study, index=index), metric=metric, where={"radio.kind": "disc"}).axes[0]
        low, high = axes.containers[0].lines[2][0].get_segments()[0][:, 1]
        assert (low, high) == pytest.approx((lowest, 1 + 4.302653), abs=1e-4)


def test_panels_share_a_legend_that_covers_nothing(study: Study) -> None:
    def draw(where: dict[str, Any], axes: Axes) -> None:
        draw_curves(study, "visits", "vehicle.speed_mps", where, axes=axes)

    figure = draw_panels(study, draw, ["radio.kind"], one_scale=True)
    assert [axes.get_legend() for axes in figure.axes] == [None, None]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["5", "10"]
    FigureCanvasAgg(figure).draw()
    box = legend.get_window_extent()
    assert not any(box.overlaps(axes.get_tightbbox()) for axes in figure.axes)
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_other_varied_parameters_must_be_fixed(study: Study) -> None:
    with pytest.raises(ValueError, match=r"radio.kind vary too: choose values, such as where=\{'radio.kind': 'disc'\}"):
        draw_effect(study, "vehicle.speed_mps")
    with pytest.raises(ValueError, match=r"radio\.kind vary too"):
        draw_curves(study, by="vehicle.speed_mps")
    with pytest.raises(ValueError, match=r"clients\.count: was not varied, only vehicle"):
        draw_heat(study, x="clients.count")
    with pytest.raises(ValueError, match="must be bytes or a numeric column of the study's index: "):
        draw_heat(study, metric="stopped_by")


def test_an_effect_has_a_line_per_group(study: Study) -> None:
    axes = draw_effect(study, "vehicle.speed_mps", by="radio.kind").axes[0]
    assert names(axes) == ["disc", "ble"]
    means = [container.lines[0].get_ydata() for container in axes.containers]
    assert list(means[0]) == pytest.approx([0.1, 10.1])
    assert list(means[1]) == pytest.approx([1.1, 11.1])


def test_curves_of_a_study_are_those_of_its_runs(study: Study, runs: list[Run]) -> None:
    axes = draw_curves(study, "visits", where={"radio.kind": "disc"}).axes[0]
    assert names(axes) == ["5", "10"]
    ours = draw_curves({"a": runs}, "visits").axes[0].lines[0].get_ydata()
    assert list(axes.lines[0].get_ydata()) == pytest.approx(list(ours))


def test_a_comparison_pairs_seeds(runs: list[Run], tmp_path: Path) -> None:
    study = study_of(runs, tmp_path, x=[1], y=["local", "ditto"])
    study = replace(
        study,
        study={**study.study, "vary": {"learning.algorithm": []}},
        index=study.index.rename(columns={"radio.kind": "learning.algorithm"}),
    )
    left, right = draw_comparison(study).axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["local", "ditto"]
    (difference,) = right.containers
    assert difference.lines[0].get_xdata() == pytest.approx(
        [1.0]
    )  # exactly one point in every seed: an interval of width 0
    (bar,) = difference.lines[2][0].get_segments()
    assert bar[:, 0] == pytest.approx([1.0, 1.0])
    with pytest.raises(ValueError, match=r"was not varied, only vehicle\.speed_mps"):
        draw_comparison(study_of(runs, tmp_path, x=[1], y=["a"]))


def test_measures_become_columns(study: Study) -> None:
    more = study.measured("visits made", lambda contacts: float((~contacts["in_passing"]).sum()))
    assert set(more.index["visits made"]) == {20.0}
    assert texts(draw_heat(more, metric="visits made").axes[0])[0] == "20\n± 0"


def test_labels_and_units_come_from_the_table_of_columns() -> None:
    assert axis_of("sim_time_s") == "simulated time (h)"
    assert axis_of("missed") == "clients not reached"
    assert axis_of("minutes to 50 %") == "minutes to 50 %"
    assert scale_of("bytes").size == 1e6
    assert scale_of("minutes to 50 %").size == 1


def test_labels_of_parameters_and_values() -> None:
    assert label_of("vehicle.speed_mps") == "vehicle speed (m/s)"
    assert label_of("radio.rate_mbps") == "radio rate (Mb/s)"
    assert label_of("clients.count") == "clients count"
    assert named(0.25) == "0.25"
    assert named("a$b") == r"a\$b"
    assert len(named("x" * 100)) == 32


def test_text_of_a_scenario_is_never_read_as_maths(runs: list[Run]) -> None:
    run = replace(runs[0], scenario={**runs[0].scenario, "name": r"$\frac$ <b>"})
    draw_theory(run).savefig(Path("/dev/null"), format="png")
    draw_curves({r"$\frac$": [run]}).savefig(Path("/dev/null"), format="png")


def test_a_run_without_graphs_says_so(runs: list[Run]) -> None:
    with pytest.raises(ValueError, match="no contact graph was logged"):
        draw_graph(replace(runs[0], graph=runs[0].graph.iloc[:0]))


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_same_run_gives_the_same_file(runs: list[Run], kind: str, tmp_path: Path) -> None:
    for name in "ab":
        save(draw_visits(runs[0]), tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2
