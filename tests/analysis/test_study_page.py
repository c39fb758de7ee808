"""The page of a study in a real browser: its table and heat maps are the index's."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import OpenTab
from scipy import stats

from fedmule.analysis.replay import study_page
from fedmule.analysis.studies import Study

HOSTILE = "</script><script>window.hacked = 1</script>"
SPEEDS, RANGES, WORDS, SEEDS = (5, 10, 20), (50.0, 100.0), ("rwsadmm", HOSTILE), 4


@pytest.fixture(scope="module")
def study() -> Study:
    draw = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for speed in SPEEDS:
        for range_m in RANGES:
            for word in WORDS:
                for seed in range(SEEDS):
                    rows.append(
                        {
                            "run": f"runs/r{len(rows)}",
                            "scenario": "tiny",
                            "seed": seed,
                            "replication": seed,
                            "vehicle.speed_mps": speed,
                            "radio.range_m": range_m,
                            "learning.algorithm": word,
                            "status": "done",
                            "error": None,
                            "personal_test_acc_mean": draw.uniform(0.4, 0.9),
                            "token_test_acc": draw.uniform(0.2, 0.6),
                            "visits": int(draw.integers(50, 90)),
                            "sim_time_s": draw.uniform(3000, 9000),
                            "bytes_down": int(draw.integers(1e5, 1e6)),
                            "bytes_up": int(draw.integers(1e5, 1e6)),
                            "train_loss": draw.uniform(0, 1),
                        }
                    )
    rows[5] |= {"status": "failed", "error": "broke: " + HOSTILE, "personal_test_acc_mean": None, "train_loss": None}
    vary = {"vehicle.speed_mps": list(SPEEDS), "radio.range_m": list(RANGES), "learning.algorithm": list(WORDS)}
    keys = {"name": HOSTILE, "title": "Does it? " + HOSTILE, "scenarios": ["tiny"], "vary": vary, "zip": []}
    return Study(Path("study"), keys, pd.DataFrame(rows))


@pytest.fixture(scope="module")
def file(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("study") / "replay.html"
    page.write_text(study_page(study, {"runs/r0": "runs/r0/replay.html"}), encoding="utf-8")
    return page


def cells(text: str) -> list[tuple[float, float]]:
    """Mean and interval of all cells of a heat map, row by row."""
    found = re.findall(r"([\d.]+)\s*±\s*([\d.]+)", text)
    return [(float(mean), float(width)) for mean, width in found]


def expected(index: pd.DataFrame, column: str, factor: float) -> list[tuple[float, float]]:
    values = []
    for _, group in index.groupby(["vehicle.speed_mps", "radio.range_m"]):
        known = factor * group[column].dropna().astype(float)
        values.append((known.mean(), stats.t.ppf(0.975, len(known) - 1) * known.std() / math.sqrt(len(known))))
    return values


def test_heat_maps_are_means_over_seeds(study: Study, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    personal = expected(study.index, "personal_test_acc_mean", 100)
    assert cells(tab.page.inner_text("#heat")) == [pytest.approx(cell, abs=0.051) for cell in personal]
    tab.page.select_option("#metric", label="training loss")
    loss = expected(study.index, "train_loss", 1)
    assert cells(tab.page.inner_text("#heat")) == [pytest.approx(cell, abs=0.00051) for cell in loss]
    tab.page.locator("#filters select").nth(2).select_option(label="rwsadmm")
    only = expected(study.index[study.index["learning.algorithm"] == "rwsadmm"], "train_loss", 1)
    assert cells(tab.page.inner_text("#heat")) == [pytest.approx(cell, abs=0.00051) for cell in only]
    tab.page.select_option("#down", label="radio.range_m")  # no parameter twice
    assert tab.page.input_value("#across") == ""
    assert tab.is_clean()


def test_the_table_sorts_and_filters(study: Study, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)

    def column(name: str) -> list[str]:
        heads = [text.split("\n")[0] for text in tab.page.locator("#table th").all_inner_texts()]
        return tab.page.locator(f"#table tbody td:nth-child({heads.index(name) + 1})").all_inner_texts()

    assert len(column("runs")) == 12
    assert "3 of 4" in column("runs")
    tab.page.click("#by-run")
    assert len(column("seed")) == 48
    tab.page.click("#table th button[data-name='personal test accuracy']")
    ordered = np.sort(100 * study.index["personal_test_acc_mean"].dropna().to_numpy(dtype=float))
    assert column("personal test accuracy") == [*(f"{value:.1f}" for value in ordered), "–"]
    assert tab.js("document.activeElement.dataset.name") == "personal test accuracy"
    tab.page.keyboard.press("Enter")  # the other way
    assert column("personal test accuracy")[-1] == f"{ordered[0]:.1f}"
    assert tab.page.locator("#table th[aria-sort=descending]").count() == 1
    tab.page.fill("#search", "speed_mps=10 seed=2")
    assert column("vehicle.speed_mps") == ["10"] * 4
    tab.page.fill("#search", "failed")
    assert column("error") == ["broke: " + HOSTILE]
    tab.page.click("#clear")
    tab.page.locator("#heat td button").nth(3).click()
    assert set(zip(column("vehicle.speed_mps"), column("radio.range_m"), strict=True)) == {("10", "100")}
    assert tab.page.locator("#heat td button").count() == 6  # the heat map stays complete
    assert tab.is_clean()


def test_links_and_hostile_names(file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    assert tab.page.inner_text("#name") == HOSTILE
    assert tab.page.inner_text("#title") == "Does it? " + HOSTILE
    assert tab.js("window.hacked") is None
    assert tab.page.locator("#table a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))") == [
        "runs/r0/replay.html"
    ]
    assert tab.is_clean()


def test_a_phone_has_room(file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file, 360, 640, is_mobile=True, has_touch=True, color_scheme="dark")
    assert tab.js("document.scrollingElement.scrollWidth") <= 360


def test_a_study_without_results_or_parameters(study: Study, tmp_path: Path, open_tab: OpenTab) -> None:
    keys = {**study.study, "vary": {}}
    index = study.index[["run", "scenario", "seed", "replication", "error"]].head(2).assign(status="missing")
    file = tmp_path / "replay.html"
    file.write_text(study_page(Study(Path("study"), keys, index), {}), encoding="utf-8")
    tab = open_tab(file)
    assert tab.page.inner_text("#missing") == "2 not done"
    assert "No run that is done" in tab.page.inner_text("#heat")
    assert tab.is_clean()
