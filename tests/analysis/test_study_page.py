"""The page of a study in a real browser: its table, maps and curves are those of the index and the runs."""

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

from fedmule.analysis.findings import findings
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


PARAMETERS = ["vehicle.speed_mps", "radio.range_m"]  # of the maps
T3 = stats.t.ppf(0.975, 2)  # of three seeds


def page_of(study: Study, folder: Path) -> Path:
    file = folder / "replay.html"
    file.write_text(study_page(study, {}), encoding="utf-8")
    return file


def cells(text: str) -> list[tuple[float, float]]:
    """Mean and interval of all cells of a heat map, row by row."""
    found = re.findall(r"([\d.]+)\s*±\s*([\d.]+)", text)
    return [(float(mean), float(width)) for mean, width in found]


def expected(index: pd.DataFrame, column: str, factor: float) -> list[tuple[float, float]]:
    """Means and intervals over seeds; runs of a seed are averaged first."""
    values = []
    for _, group in index.groupby(PARAMETERS):
        seeds = factor * group.assign(known=group[column].astype(float)).groupby("seed")["known"].mean().dropna()
        values.append((seeds.mean(), stats.t.ppf(0.975, len(seeds) - 1) * seeds.std() / math.sqrt(len(seeds))))
    return values


def test_maps_are_means_over_seeds(study: Study, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    algorithm = study.index["learning.algorithm"]
    each = [expected(study.index[algorithm == word], "personal_test_acc_mean", 100) for word in WORDS]
    of_each = [cell for cells_of_one in each for cell in cells_of_one]
    assert cells(tab.page.inner_text("#heat")) == [pytest.approx(cell, abs=0.051) for cell in of_each]
    captions = tab.page.locator("#heat caption").all_inner_texts()
    assert captions == [f"learning algorithm {word}" for word in WORDS]
    tab.page.select_option("#panel", label="nothing")
    personal = expected(study.index, "personal_test_acc_mean", 100)
    assert cells(tab.page.inner_text("#heat")) == [pytest.approx(cell, abs=0.051) for cell in personal]
    tab.page.select_option("#metric", label="training loss")
    loss = expected(study.index, "train_loss", 1)
    assert cells(tab.page.inner_text("#heat")) == [pytest.approx(cell, abs=0.00051) for cell in loss]
    tab.page.locator("#filters select").nth(2).select_option(label="rwsadmm")
    only = expected(study.index[study.index["learning.algorithm"] == "rwsadmm"], "train_loss", 1)
    assert cells(tab.page.inner_text("#heat")) == [pytest.approx(cell, abs=0.00051) for cell in only]
    tab.page.select_option("#down", label="radio range, m")  # no parameter twice
    assert tab.page.input_value("#across") == ""
    assert tab.is_clean()


def test_the_page_begins_with_findings_and_speaks_in_words(study: Study, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)
    first = tab.page.locator("main > section >> nth=0 >> li").all_inner_texts()
    assert [sentence.replace("±\u00a0", "± ") for sentence in first] == findings(study)
    assert "± " not in "".join(first)  # no line ends after ±
    assert findings(study)[-1] == "1 of 48 runs are not in these figures: 1 failed."
    shown = tab.page.inner_text("body")
    assert "vehicle speed, m/s" in shown
    assert not re.search(r"speed_mps|range_m|learning\.algorithm", shown)


def gains(gain: Any, speeds: tuple[float, ...] = (5, 10, 20), seeds: int = 3, **more: Any) -> Study:
    """A study of speeds with known gains."""
    rows = [
        {"run": f"runs/{speed}-{seed}", "scenario": "tiny", "seed": seed, "replication": seed, "status": "done",
         "error": None, "vehicle.speed_mps": speed, "gain_over_alone": gain(speed, seed),
         "personal_test_acc_mean": 0.5, **more}
        for speed in speeds for seed in range(seeds)
    ]  # fmt: skip
    keys = {"name": "gains", "title": "", "scenarios": ["tiny"], "vary": {"vehicle.speed_mps": []}, "zip": []}
    return Study(Path("study"), keys, pd.DataFrame(rows))


def test_noise_is_pale_and_what_may_be_chance_is_hatched(tmp_path: Path, open_tab: OpenTab) -> None:
    """Gains of 0 ± 0.1, 0.4 and −0.4 points on a scale of five; of 40 points on one of forty."""
    small = gains(lambda speed, seed: {5: 0.0004 * (seed - 1), 10: 0.004, 20: -0.004}[speed])
    tab = open_tab(page_of(small, tmp_path))
    assert (tab.page.inner_text("#scale-low"), tab.page.inner_text("#scale-high")) == ("−5.0", "+5.0 points")
    assert tab.page.locator("#heat td b").all_inner_texts() == ["+0.0", "+0.4", "−0.4"]
    assert tab.page.locator("#heat .is-unclear b").all_inner_texts() == ["+0.0"]
    assert tab.page.is_visible("#unclear")
    shades = tab.page.locator("#heat td button").evaluate_all("(all) => all.map((a) => a.style.backgroundColor)")
    for shade in shades:
        assert min(int(part) for part in re.findall(r"\d+", shade)) > 200
    tab.page.select_option("#metric", label="personal test accuracy, %")
    assert not tab.page.is_visible("#unclear")
    assert (tab.page.inner_text("#scale-low"), tab.page.inner_text("#scale-high")) == ("45.0", "55.0 %")
    large = gains(lambda speed, seed: {5: -0.4, 10: 0.1, 20: 0.2}[speed])
    tab = open_tab(page_of(large, tmp_path))
    assert tab.page.inner_text("#scale-high") == "+40.0 points"
    noisy = gains(lambda speed, seed: 0.05 * (seed - 1))  # 0 ± 12.4 points
    tab = open_tab(page_of(noisy, tmp_path))
    assert tab.page.inner_text("#scale-high") == f"+{2 * T3 * 5 / math.sqrt(3):.1f} points"


def test_one_seed_diverged_and_missing_runs_are_named(tmp_path: Path, open_tab: OpenTab) -> None:
    study = gains(lambda speed, seed: speed / 100, seeds=1, stopped_by="visits")
    study.index.loc[1, "status"] = "diverged"
    study.index.loc[2, ["status", "gain_over_alone", "personal_test_acc_mean"]] = ["missing", None, None]
    tab = open_tab(page_of(study, tmp_path))
    assert tab.page.inner_text("#missing") == "2 not done"
    assert tab.page.locator("#heat tbody td").all_inner_texts() == ["+5.0\n1 seed"]
    sure = tab.page.inner_text("#findings")
    for words in ("With 1 seed only", "2 of 3 runs are not in these figures: 1 diverged and 1 missing"):
        assert words in sure
    assert tab.page.locator("#table .failed").all_inner_texts() == ["0 of 1, 1 diverged", "0 of 1, 1 missing"]
    tab.page.click("#by-run")
    assert tab.page.locator("#table .failed").all_inner_texts() == ["diverged", "missing"]
    assert tab.is_clean()


# --- curves ---------------------------------------------------------------------------------------------------


def with_contacts(study: Study, folder: Path) -> Study:
    """The study with contacts of its runs: at 100, 200, … s, accuracy rising with time, speed and seed."""
    for row in study.index.to_dict("records"):
        at = np.arange(1, 11) * 100.0
        personal = 0.2 + 0.0002 * at + row["vehicle.speed_mps"] / 100 + 0.02 * row["seed"]
        personal[4] = np.nan  # not evaluated
        run = folder / row["run"]
        run.mkdir(parents=True)
        table = {"sim_time_s": at, "personal_test_acc_mean": personal, "alone_test_acc_mean": personal - 0.1}
        pd.DataFrame(table).to_parquet(run / "contacts.parquet")
    return Study(folder, study.study, study.index)


def test_curves_are_means_over_seeds_with_bands(tmp_path: Path, open_tab: OpenTab) -> None:
    study = with_contacts(gains(lambda speed, seed: 0.1, speeds=(5, 20), sim_time_s=1200.0), tmp_path)
    tab = open_tab(page_of(study, tmp_path))
    lines = tab.js("study.curves.lines.map(({ name, bold, points }) => ({ name, bold, points }))")
    assert [(line["name"], line["bold"]) for line in lines] == [
        ("vehicle speed 5 m/s", True),
        ("vehicle speed 20 m/s", True),
    ]
    for line, speed in zip(lines, (5, 20), strict=True):
        for point in line["points"]:
            at = 1200 * point["k"] / (tab.js("study.content.curves.points") - 1)
            last = min(100 * (at // 100), 1000)  # the last evaluation; until the run's end, later than its contacts
            last = 400 if last == 500 else last
            assert point["mean"] == pytest.approx(20 + 0.02 * last + speed + 2, abs=0.011)
            assert point["width"] == pytest.approx(T3 * 2 / math.sqrt(3), abs=0.011)
        assert line["points"][-1]["k"] == tab.js("study.content.curves.points") - 1
    assert tab.page.locator("#curves .bold").count() == 2
    assert tab.page.locator("#curves .band:not(.is-hidden)").count() == 2
    options = tab.page.locator("#curve-metric option").all_inner_texts()
    assert options[:2] == ["personal test accuracy, %", "gain over training alone, points"]
    tab.page.select_option("#curve-metric", label=options[1])
    assert {round(point["mean"], 2) for line in tab.js("study.curves.lines") for point in line["points"]} == {10}
    assert tab.is_clean()


def test_curves_are_read_and_chosen(tmp_path: Path, open_tab: OpenTab) -> None:
    study = with_contacts(gains(lambda speed, seed: 0.1, speeds=(5, 20), sim_time_s=1000.0), tmp_path)
    tab = open_tab(page_of(study, tmp_path))
    assert "Point at a line" in tab.page.inner_text("#curve-at")
    box = tab.page.locator("#curves").bounding_box()
    assert box is not None
    y = tab.js("study.curves.atY(study.curves.lines[1].points.at(-1).mean)")
    tab.page.mouse.move(box["x"] + box["width"] - 14, box["y"] + y)
    assert tab.page.inner_text("#curve-at") == "vehicle speed 20 m/s: 62.0 ± 5.0 % at 0:16:40"
    tab.page.select_option("#curve-metric", label="gain over training alone, points")
    y = tab.js("study.curves.atY(10)")
    tab.page.mouse.move(box["x"] + box["width"] - 14, box["y"] + y)
    assert tab.page.inner_text("#curve-at").endswith(" m/s: +10.0 ± 0.0 points at 0:16:40")
    tab.page.click("#legend button:has-text('20')")
    assert tab.js("study.curves.lines.length") == 1
    assert tab.page.locator("#table tbody tr").count() == 1  # the table shows the same runs
    tab.page.click("#legend button:has-text('20')")
    assert tab.js("study.curves.lines.length") == 2
    tab.press("t")  # other colours
    assert tab.page.locator("#curves .bold").count() == 2
    assert tab.is_clean()


def test_many_combinations_are_thin_below_the_means(study: Study, tmp_path: Path, open_tab: OpenTab) -> None:
    tab = open_tab(page_of(with_contacts(study, tmp_path), tmp_path), 390, 844, is_mobile=True)
    tab.page.select_option("#by", label="radio range, m")
    assert tab.page.locator("#curves .thin").count() == 12
    assert tab.page.locator("#curves .bold").count() == 2
    assert "thin: each combination" in tab.page.inner_text("#curve-at")
    names = tab.js("study.curves.lines.map((line) => line.name)")
    assert "mean, radio range 50 m" in names
    assert f"vehicle speed 5 m/s, radio range 50 m, learning algorithm {HOSTILE}" in names
    assert tab.js("window.hacked") is None
    assert tab.js("document.scrollingElement.scrollWidth") <= 390
    assert tab.is_clean()


def test_studies_whose_runs_are_gone_have_no_curves(file: Path, open_tab: OpenTab) -> None:
    assert not open_tab(file).page.is_visible("#curves-card")


# --- table and names ------------------------------------------------------------------------------------------


def test_the_table_sorts_and_filters(study: Study, file: Path, open_tab: OpenTab) -> None:
    tab = open_tab(file)

    def column(name: str) -> list[str]:
        heads = [text.split("\n")[0] for text in tab.page.locator("#table th").all_inner_texts()]
        return tab.page.locator(f"#table tbody td:nth-child({heads.index(name) + 1})").all_inner_texts()

    assert len(column("runs")) == 12
    assert "3 of 4, 1 failed" in column("runs")
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
    assert column("vehicle speed") == ["10"] * 4
    tab.page.fill("#search", "failed")
    assert column("error") == ["broke: " + HOSTILE]
    tab.page.click("#clear")
    tab.page.locator("#heat td button").nth(3).click()
    assert set(zip(column("vehicle speed"), column("radio range"), strict=True)) == {("10", "100")}
    assert tab.page.locator("#heat td button").count() == 12  # the maps stay complete
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
