"""What studies say they found: the sentences follow from the index, and claim no more than it shows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedmule.analysis.findings import findings
from fedmule.analysis.studies import Study


def study(
    gain: Any,
    seeds: int,
    status: str = "done",
    speeds: tuple[float, ...] = (2, 8),
    ranges: tuple[float, ...] = (30, 90),
) -> Study:
    rows = [
        {"run": f"r{seed}-{v}-{r}", "scenario": "x", "seed": seed, "replication": seed, "status": status,
         "vehicle.speed_mps": v, "radio.range_m": r, "gain_over_alone": gain(v, r, seed),
         "personal_test_acc_mean": 0.5 + (gain(v, r, seed) or 0.0)}
        for seed in range(seeds) for v in speeds for r in ranges
    ]  # fmt: skip
    vary = {"vehicle.speed_mps": list(speeds), "radio.range_m": list(ranges)}
    return Study(Path("nowhere"), {"vary": vary, "zip": [], "scenarios": ["x"]}, pd.DataFrame(rows))


def test_effects_are_paired_by_seed() -> None:
    """Seeds differ by far more than the speed is worth, which is the same in each but for a little."""
    found = findings(study(lambda v, r, seed: 0.01 * (v + r / 30) + 0.2 * seed + 0.001 * ((seed + v) % 3), 6))
    assert found[0].startswith(
        "The gain over training alone is largest at vehicle speed 8 m/s, radio range 90 m: +61.1"
    )
    assert "and smallest at vehicle speed 2 m/s, radio range 30 m: +53.1 points" in found[0]
    assert found[1] == "The vehicle is worth it, beyond the interval over seeds, in 4 of 4 combinations."
    assert found[2].startswith("Vehicle speed: 8 m/s instead of 2 is worth +6.0 points (± 0.")
    assert found[2].endswith(" on average over the rest, more than chance.")
    assert found[3].startswith("Radio range: 90 m instead of 30 is worth +2.0 points")
    assert len(found) == 4


def test_the_best_of_many_values_of_nothing_is_not_a_finding() -> None:
    """With values that mean nothing, the best is seldom clearly better than the worst: one time in twenty."""
    claims, rounds = 0, 200
    for number in range(rounds):
        noise = np.random.default_rng(number).normal(0, 0.05, (5, 9))
        speeds = tuple(float(v) for v in range(1, 10))
        found = findings(study(lambda v, r, seed, noise=noise: noise[seed, int(v) - 1], 5, speeds=speeds, ranges=(30,)))
        claims += any("more than chance" in sentence and "no more" not in sentence for sentence in found)
    assert claims <= 0.1 * rounds


def test_what_is_not_known_is_not_said() -> None:
    assert findings(study(lambda v, r, seed: 0.1, 2, status="failed")) == []
    without = findings(study(lambda v, r, seed: None, 5))
    assert without[0].startswith("The personal accuracy is largest at ")
    assert not any("worth it" in sentence for sentence in without)
    one = findings(study(lambda v, r, seed: 0.01 * v, 1))
    assert "±" not in "".join(one)
    assert "chance" not in "".join(one)
    assert one[-1].startswith("With 1 seed only large differences show")
    three = findings(study(lambda v, r, seed: 0.01 * v + 0.001 * seed, 3))
    assert three[-1].startswith("With 3 seeds only")


def test_no_combination_is_called_worth_it_or_not_with_one_seed() -> None:
    assert not any("worth it" in sentence for sentence in findings(study(lambda v, r, seed: 0.1, 1)))
    harm = findings(study(lambda v, r, seed: -0.1 if v == 2 else 0.1, 2))[1]
    assert harm.endswith("in 2 of 4 combinations, and does harm in 2.")


def test_a_single_combination_states_its_mean() -> None:
    """0.5 + 0.1 ± 0.001 · t(1) · s / √2, with s of two values 0.002 apart."""
    found = findings(study(lambda v, r, seed: 0.1 + 0.002 * seed, 2, speeds=(2,), ranges=(30,)))
    assert found[0] == (
        "The personal accuracy is 60.1 % (± 1.3) at the end, a gain of +10.1 points (± 1.3) over training alone, "
        "more than chance."
    )
    assert found[1].startswith("With 2 seeds only")
    unclear = findings(study(lambda v, r, seed: 0.01 * (-1) ** seed, 4, speeds=(2,), ranges=(30,)))
    assert unclear == [
        "The personal accuracy is 50.0 % (± 1.8) at the end, a gain of +0.0 points (± 1.8) over training alone, "
        "no more than chance may do."
    ]


def test_runs_that_are_not_in_the_figures_are_counted() -> None:
    part = study(lambda v, r, seed: 0.01 * v, 4)
    index = part.index.assign(stopped_by="visits")
    others = ["failed", "missing", "missing", "diverged", "diverged", "learnt nothing"]
    index.loc[range(len(others)), "status"] = others
    found = findings(replace(part, index=index))
    assert found[-2:] == [
        "6 of 16 runs are not in these figures: 2 diverged, 1 learnt nothing, 1 failed and 2 missing.",
        "Nothing is claimed for combinations of which a run diverged.",
    ]


def test_a_combination_with_a_run_that_diverged_is_neither_best_nor_worst() -> None:
    """8 m/s is best; once a run with it diverged, no claim is made for it, whatever its other seeds have reached."""
    part = study(lambda v, r, seed: 0.01 * v, 4, speeds=(2, 4, 8), ranges=(30,))
    assert "largest at vehicle speed 8 m/s" in findings(part)[0]
    index = part.index.copy()
    index.loc[index[index["vehicle.speed_mps"] == 8].index[1], "status"] = "diverged"
    found = findings(replace(part, index=index))
    assert "largest at vehicle speed 4 m/s" in found[0]
    assert not any("8 m/s" in sentence for sentence in found)


def test_values_without_a_run_that_is_done_do_not_count_as_varied() -> None:
    """Of a range of 90 m no run is done: the findings are those of a study of speeds."""
    part = study(lambda v, r, seed: 0.01 * v, 4)
    index = part.index.copy()
    index.loc[index["radio.range_m"] == 90, "status"] = "missing"
    found = findings(replace(part, index=index))
    assert found[0].startswith("The gain over training alone is largest at vehicle speed 8 m/s: +8.0 points")
    assert found[1].endswith("in 2 of 2 combinations.")
    assert found[-1] == "8 of 16 runs are not in these figures: 8 missing."


def test_a_search_begins_with_its_answer(tmp_path: Path) -> None:
    searched = replace(study(lambda v, r, seed: 0.01 * v, 4, ranges=(30,)), folder=tmp_path)
    found = {"key": "vehicle.speed_mps", "answer": {"text": "vehicle.speed_mps: 8 is the smallest value found."}}
    (tmp_path / "find.json").write_text(json.dumps(found))
    assert findings(searched) == ["Vehicle speed, m/s: 8 is the smallest value found."]
    (tmp_path / "find.json").write_text(json.dumps({**found, "answer": None}))  # under way
    assert findings(searched)[0].startswith("The gain over training alone is largest at vehicle speed 8 m/s")
