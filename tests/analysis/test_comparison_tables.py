"""Tables and curves of comparisons, from runs made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy.stats import ttest_rel

from fedmule.analysis.comparison import better_than, compare_table, verdict
from fedmule.analysis.result_curves import draw_curves
from fedmule.analysis.result_tables import (
    Entry,
    Part,
    accuracy_table,
    agreement_table,
    as_markdown,
    as_text,
    cost_table,
    difference_table,
    report,
    with_alone,
)
from fedmule.simulator.studies.statistics import interval


def runs(root: Path, *accuracies: float, **other: Any) -> dict[int, Path]:
    """Run folders with a summary and two visits, by seed."""
    folders = []
    for accuracy in accuracies:
        folder = root / str(len(list(root.iterdir())))
        folder.mkdir()
        summary = {
            "algorithm": "fedavg",
            "stopped_by": "visits",
            "clients": 20,
            "start_personal_test_acc_mean": 0.1,
            "personal_test_acc_mean": accuracy,
            "token_test_acc": accuracy - 0.1,
            "gradient_steps": 4000,
            "bytes_down": 1_500_000,
            "bytes_up": 500_000,
            "sim_time_s": 5400.0,
            "host_time_s": 12.2,
        }
        (folder / "summary.json").write_text(json.dumps({**summary, **other}))
        contacts = {"visit": [1, 2], "gradient_steps": [40, 40], "personal_test_acc_mean": [0.5, accuracy]}
        contacts |= {"sim_time_s": [60.0, 120.0], "bytes_down": [100, 100]}
        pd.DataFrame({**contacts, "token_test_acc": [None, accuracy - 0.1]}).to_parquet(folder / "contacts.parquet")
        folders.append(folder)
    return dict(enumerate(folders))


def test_the_interval_is_students() -> None:
    assert interval([90.0, 92.0, 94.0]) == pytest.approx((92.0, 4.302653 * 2 / 3**0.5))
    assert interval([1.0, 3.0]) == pytest.approx((2.0, 12.706205 * 2**0.5 / 2**0.5))
    assert interval([91.5]) == (91.5, None)


def test_differences_are_paired_by_seed_and_marked_by_holms_rule(tmp_path: Path) -> None:
    """Paired intervals and p-values as SciPy has them; a seed that only one of both has does not count."""
    ours, near, far = [0.90, 0.93, 0.91, 0.95], [0.89, 0.935, 0.90, 0.94], [0.81, 0.845, 0.82, 0.855, 0.2]
    entries = [Entry("a", name, runs(tmp_path, *values), 5) for name, values in (("x", ours), ("y", near), ("z", far))]
    entries += [
        Entry("b", "x", runs(tmp_path, 0.8), 1),
        Entry("b", "y", runs(tmp_path, 0.85), 1),
        Entry("b", "z", {}, 1),
    ]
    table = difference_table(entries, "x")
    assert table[0] == ["x less …, points", "a", "b"]
    assert [line[0] for line in table[1:]] == ["y", "z"]
    for line, theirs in zip(table[1:], (near, far[:4]), strict=True):
        test = ttest_rel(ours, theirs)
        low, high = test.confidence_interval()
        mean, width = line[1].removesuffix(" *").split(" ± ")
        assert float(mean) == pytest.approx(100 * (low + high) / 2, abs=0.006)
        assert float(width) == pytest.approx(100 * (high - low) / 2, abs=0.006)
        assert line[1].endswith(" *") == (test.pvalue < 0.05)  # of two tests Holm's rule halves the level of the first
    assert [line[2] for line in table[1:]] == ["-5.00 (1 seed)", ""]
    assert "x less …" in report("T", "", [Part(entries, reference="x")])
    assert "less …" not in report("T", "", [Part(entries)])


def test_accuracies_stand_under_their_rows_with_published_ones_below(tmp_path: Path) -> None:
    entries = [
        Entry("a", "local", runs(tmp_path, 0.9, 0.92, 0.94), 3),
        Entry("a", "fedavg", runs(tmp_path, 0.5), 1, published=93.96),
        Entry("b", "local", {}, 3),
        Entry("b", "fedavg", runs(tmp_path, 0.1, 0.1), 4, published=98.9, lost={"diverged": 2}),
    ]
    assert accuracy_table(entries) == [
        ["personal test accuracy, %", "a", "b"],
        ["local", "92.00 ± 4.97", "not run"],
        ["fedavg", "50.00 (1 seed)", "10.00 ± 0.00 (2 of 4, 2 diverged)"],
        ["  published", "93.96", "98.90"],
    ]


def test_a_figure_agrees_within_a_point_or_its_interval(tmp_path: Path) -> None:
    entries = [
        Entry("a", "fedavg", runs(tmp_path, 0.9), 1, published=90.9),
        Entry("a", "apfl", runs(tmp_path, 0.9), 1, published=91.1),
        Entry("b", "fedavg", runs(tmp_path, 0.9, 0.92, 0.94), 3, published=88.0),  # 92 ± 4.97
        Entry("b", "apfl", runs(tmp_path, 0.9, 0.9, 0.9), 3, published=50.0),
        Entry("b", "local", runs(tmp_path, 0.9), 3),
        Entry("c", "apfl", {}, 3, published=50.0),
    ]
    assert agreement_table(entries) == [
        ["ours less published, points", "a", "b"],
        ["fedavg", "-0.9 agrees", "+4.0 agrees"],
        ["apfl", "-1.1", "+40.0"],
    ]
    page = report("Title", "Text.", [Part(entries, why="Because.")])
    assert "## Where they agree" in page
    assert page.index("+40.0") < page.index("Because.")
    assert "Where they agree" not in report("Title", "Text.", [Part(entries[4:], why="Because.")])


def test_pooled_accuracies_stand_beside_means_and_are_compared(tmp_path: Path) -> None:
    both = [runs(tmp_path, 0.9, personal_test_acc_weighted=0.95, clients_alone=alone) for alone in (None, 5)]
    entries = [
        Entry("a", "local", both[0], 1, published=94.5, pooled=True),
        Entry("b", "local", {}, 1, published=96.0, pooled=True),
        Entry("a", "rwsadmm", both[1], 1, published=97.0, pooled=True),
        Entry("c", "local", both[0], 1, published=90.0),
    ]
    assert accuracy_table(entries)[1:] == [
        ["local", "90.00 (1 seed)", "not run", "90.00 (1 seed)"],
        ["  pooled", "95.00 (1 seed)", "", ""],
        ["  published", "94.50", "96.00", "90.00"],
        ["rwsadmm", "90.00 (1 seed)", "", ""],
        ["  pooled", "95.00 (1 seed)", "", ""],
        ["  published", "97.00", "", ""],
    ]
    assert agreement_table(entries)[1:] == [
        ["local", "+0.5 agrees", "+0.0 agrees"],
        ["rwsadmm", "-2.0", ""],
    ]
    header, local, _, rwsadmm, apart = cost_table(entries)
    assert [line[header.index("pooled, %")] for line in (local, apart)] == ["95.00 (1 seed)", ""]
    assert [line[header.index("chose to be alone")] for line in (local, rwsadmm)] == ["", "5"]


def test_a_page_of_several_parts_has_a_table_for_each(tmp_path: Path) -> None:
    entries = [Entry(row, "local", runs(tmp_path, 0.9), 1, published=90.0) for row in "ab"]
    parts = [Part(entries[:1], ["a.png"], "Because a.", "First", "Of a."), Part(entries[1:], (), "", "Second")]
    page = report("Title", "Text.", parts).splitlines()
    assert [line for line in page if line.startswith("#")] == [
        "# Title",
        "## First",
        "### Where they agree, and where not",
        "## Second",
        "### Where they agree, and where not",
    ]
    assert [line for line in page if line.startswith("| personal")] == [
        "| personal test accuracy, % | a |",
        "| personal test accuracy, % | b |",
    ]
    told = ["Text.", "## First", "Of a.", "Because a.", "![a](a.png)", "## Second"]
    assert [page.index(line) for line in told] == sorted(page.index(line) for line in told)


def test_a_page_of_few_seeds_says_so(tmp_path: Path) -> None:
    few, more = (Entry("a", name, runs(tmp_path, *([0.9] * n)), n) for name, n in (("x", 3), ("y", 4)))
    assert "With 3 seeds only large differences show." in report("T", "", [Part([few, more])])
    assert "only large differences" not in report("T", "", [Part([more, Entry("a", "z", {}, 1)])])


def test_small_costs_are_not_rounded_away(tmp_path: Path) -> None:
    entry = Entry(
        "a", "fedavg", runs(tmp_path, 0.9, bytes_down=1200, bytes_up=34, sim_time_s=0.5, host_time_s=4321.4), 1
    )
    header, line = cost_table([entry])
    shown = dict(zip(header, line, strict=True))
    assert (shown["MB on the air"], shown["simulated h"], shown["host s"]) == ("0.00123", "0.000139", "4321")


def test_costs_are_means_per_client_in_their_units(tmp_path: Path) -> None:
    entries = [
        Entry("a", "fedavg", runs(tmp_path, 0.8, 0.9), 3, "step_size 0.1", 93.96, 384),
        Entry("a", "local", runs(tmp_path, 0.8, algorithm="local"), 1),
        Entry("a", "apfl", {}, 3),
    ]
    header, fedavg, local, apfl = cost_table(entries)
    assert dict(zip(header, fedavg, strict=True)) == {
        "row": "a",
        "column": "fedavg",
        "personal, %": "85.00 ± 63.53 (2 of 3)",
        "published, %": "93.96",
        "token, %": "75.00 ± 63.53 (2 of 3)",
        "gradients per client": "200",
        "MB on the air": "2",
        "simulated h": "1.5",
        "host s": "12.2",
        "published s": "384",
        "seeds": "2 of 3",
        "tuned": "step_size 0.1",
    }
    assert dict(zip(header, local, strict=True))["token, %"] == "–"  # nobody carries one
    assert apfl[2] == "not run"
    assert [name for name in cost_table(entries[1:])[0] if name in ("published, %", "published s", "tuned")] == []


def test_no_table_has_a_nan(tmp_path: Path) -> None:
    entry = Entry("a", "b", runs(tmp_path, 0.1, token_test_acc=None), 1)
    assert cost_table([entry])[1][3] == "– (1 seed)"
    assert cost_table([Entry("a", "b", {}, 2, lost={"diverged": 2})])[1][2] == "– (0 of 2, 2 diverged)"


def test_a_column_that_diverged_in_a_seed_beats_nothing(tmp_path: Path) -> None:
    """By far the best in four seeds, but it diverged in the fifth."""
    entries = [
        Entry("a", "x", runs(tmp_path, 0.90, 0.91, 0.92, 0.93), 5, lost={"diverged": 1}),
        Entry("a", "y", runs(tmp_path, 0.50, 0.515, 0.52, 0.53, 0.5), 5),
        Entry("a", "z", runs(tmp_path, 0.20, 0.215, 0.22, 0.23, 0.2), 5),
    ]
    assert better_than(entries) == {"x": [], "y": ["z"], "z": []}
    assert [line[1].endswith("*") for line in difference_table(entries, "x")[1:]] == [False, False]
    assert difference_table(entries, "y")[2][1].endswith("*")
    header, ours, *_ = compare_table(entries, 0.8)
    assert dict(zip(header, ours, strict=True))["seeds"] == "4 of 5, 1 diverged"
    said = verdict(entries)
    assert said[0].startswith("y is ahead")
    assert said[-1] == "x diverged in 1 of 5 seeds and is left out."


def test_tables_for_terminals_and_pages() -> None:
    table = [["x", "long name"], ["a", "1"], ["  b", "2"]]
    assert as_text(table) == "x    long name\n--------------\na    1\n  b  2"
    assert as_markdown(table) == "| x | long name |\n|---|---|\n| a | 1 |\n| b | 2 |"


def test_curves_are_means_over_seeds_against_gradients_per_client(tmp_path: Path) -> None:
    entries = [
        Entry("a", "local", runs(tmp_path, 0.8, algorithm="local"), 1),
        Entry("a", "apfl", {}, 2),
        Entry("a", "fedavg", runs(tmp_path, 0.7, 0.9), 2),
        Entry("b", "fedavg", {}, 2),
    ]
    figure = draw_curves(entries, "gradients")
    (panel,) = figure.axes  # nothing of b was run
    assert (panel.get_title(), panel.get_xlabel()) == ("a", "gradient steps per client")
    alone, personal, token = panel.lines
    assert [line.get_linestyle() for line in (alone, personal, token)] == ["-", "-", "--"]
    assert personal.get_color() == token.get_color() != alone.get_color()
    x, y = (pd.Series(values) for values in personal.get_data())
    assert (x.iloc[0], x.iloc[-1]) == (0, 4)  # 80 gradients of 20 clients
    assert (y.iloc[0], y.iloc[-1]) == pytest.approx((0.1, 0.8))
    assert token.get_ydata()[-1] == pytest.approx(0.7)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["local", "fedavg", "personal", "token"]


def test_training_alone_is_a_column_where_an_experiment_has_a_reference(tmp_path: Path) -> None:
    entries = [
        Entry(
            "a",
            "x",
            {**runs(tmp_path, 0.9, alone_test_acc_mean=0.8), 1: runs(tmp_path, 0.9, alone_test_acc_mean=0.7)[0]},
            2,
        ),
        Entry("a", "y", runs(tmp_path, 0.85, 0.85), 2),
        Entry("b", "x", runs(tmp_path, 0.5, alone_test_acc_mean=None), 1),  # nobody trained alone
        Entry("c", "x", {}, 1),
    ]
    compared = with_alone(entries, "x")
    assert [line[:2] for line in accuracy_table(compared)][1] == ["alone", "75.00 ± 63.53"]
    assert difference_table(compared, "x")[1][1] == "+15.00 ± 63.53"
    assert [line[0] for line in accuracy_table(compared)] == ["personal test accuracy, %", "alone", "x", "y"]
    page = report("t", "", [Part(entries, reference="x")])
    assert "| alone | 75.00" in page
    assert "| a | alone" not in page  # it has no costs of its own to show
