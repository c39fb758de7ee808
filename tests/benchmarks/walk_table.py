"""The table of walks in docs/walks.md, from a study: accuracy, gain over alone, difference to the story's own walk.

    fedmule study walks/stories
    python tests/benchmarks/walk_table.py studies/walks

Means over seeds with 95 % intervals by Student's t; differences are paired by seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import pandas as pd

from fedmule.analysis import load_study
from fedmule.simulator.scenario.load import load_scenario
from fedmule.simulator.studies.plan import as_text
from fedmule.simulator.studies.statistics import interval

MEASURES = ("personal_test_acc_mean", "gain_over_alone")
HEADER = ("story", "walk", "personal accuracy, %", "gain over alone, points", "difference to the story's walk, points")


def shown(values: Sequence[float], signed: bool = False) -> str:
    """Mean and half-width in points; bold where the interval of a difference excludes 0."""
    mean, width = interval([100 * value for value in values])
    text = f"{mean:+.1f}" if signed else f"{mean:.1f}"
    text += "" if width is None else f" ± {width:.1f}"
    return f"**{text}**" if signed and width is not None and abs(mean) > width else text


def lines(index: pd.DataFrame) -> list[str]:
    """The rows of the table, the story's own walk first."""
    found = []
    index = index.assign(walk=index["vehicle.walk"].map(as_text))
    for story in dict.fromkeys(index["scenario"]):
        own = load_scenario(story).vehicle.walk.kind
        runs = index[index["scenario"] == story].set_index(["walk", "seed"])[list(MEASURES)].sort_index()
        walks = sorted(dict.fromkeys(index["walk"]), key=lambda walk: walk != own)
        for walk in walks:
            accuracy, gain = (runs.loc[walk, measure] for measure in MEASURES)
            apart = (accuracy - runs.loc[own, MEASURES[0]]).dropna()
            cells = [f"`{story}`" if walk == own else "", f"`{walk}`", shown(accuracy.tolist()), shown(gain.tolist())]
            found.append("| " + " | ".join([*cells, "–" if walk == own else shown(apart.tolist(), signed=True)]) + " |")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="the folder of the study")
    table = lines(load_study(parser.parse_args().study).done)
    print("\n".join(["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER), *table]))


if __name__ == "__main__":
    main()
