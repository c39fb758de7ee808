"""Where carrying a model pays, and where it does not: what `scenarios/collaboration` promises, on real digits.

The digits are taken from beside the repository; users have them in their cache instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fedmule.learning.data.image_sets import import_from
from fedmule.simulator.engine import Simulation
from fedmule.simulator.scenario.load import load_scenario

SEEDS = (0, 1)
QUICK = [
    "learning.evaluate_every=100000",
    "learning.evaluate_contacts=false",
    "learning.alone=false",
    "log.graph_every=0",
]

Result = Callable[..., float]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, mnist_folder: Path) -> Any:
    """result(scenario, *overrides, of=column): a column of the summary, mean over seeds, in % where it is a share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDMULE_DATA", str(tmp_path_factory.mktemp("data")))
        import_from("mnist", mnist_folder)

        @cache
        def summaries(name: str, *overrides: str) -> list[dict[str, Any]]:
            scenarios = [load_scenario(name, [*QUICK, *overrides], seed) for seed in SEEDS]
            return [Simulation(scenario).run() for scenario in scenarios]

        def value(name: str, *overrides: str, of: str = "personal_test_acc_mean") -> float:
            found = [
                s["bytes_down"] + s["bytes_up"] if of == "bytes" else 100 * s[of] for s in summaries(name, *overrides)
            ]
            return sum(found) / len(found)

        yield value


LOCAL = "learning.algorithm=local"
TUNED = ("learning.algorithm=fedavg", "learning.algorithm.fine_tune=true")


def test_few_skewed_samples_are_better_learnt_together(result: Result) -> None:
    ours = result("collaboration/mnist_mlr")
    assert ours >= result("collaboration/mnist_mlr", LOCAL) + 4
    assert ours >= result("collaboration/mnist_mlr", *TUNED) - 1.5
    assert result("collaboration/mnist_mlr", of="bytes") < 0.8 * result(
        "collaboration/mnist_mlr", "learning.algorithm=fedavg", of="bytes"
    )


def test_the_growing_mean_and_the_projection_make_the_token_good_early(result: Result) -> None:
    two_passes = ("stop.visits=40", "learning.open_at=1")
    plain = ("learning.algorithm.growing_mean=false", "learning.algorithm.project_on_arrival=false")
    early = result("collaboration/mnist_mlr", *two_passes, of="token_test_acc")
    assert early >= result("collaboration/mnist_mlr", *two_passes, *plain, of="token_test_acc") + 8


def test_late_clients_get_at_once_what_training_alone_takes_long_to_reach(result: Result) -> None:
    given = result("collaboration/late", of="late_token_test_acc")
    assert given >= result("collaboration/late", LOCAL, of="late_personal_test_acc") + 3


def test_where_there_is_plenty_of_data_nothing_is_lost(result: Result) -> None:
    assert abs(result("paper/mnist_mlr") - result("paper/mnist_mlr", LOCAL)) <= 0.5


def test_neighbourhood_tokens_win_where_data_follow_sites(result: Result) -> None:
    ours = result("collaboration/sites_rotated")
    ifca = ("learning.algorithm=ifca", "learning.algorithm.fine_tune=true")
    assert ours >= result("collaboration/sites_rotated", *TUNED) + 10
    assert ours >= result("collaboration/sites_rotated", *ifca) + 2
    assert (
        result("collaboration/sites_rotated", of="bytes") < result("collaboration/sites_rotated", *ifca, of="bytes") / 3
    )


def test_neighbourhood_tokens_lose_nothing_where_data_do_not(result: Result) -> None:
    nowhere = ("learning.shift=none", 'learning.partition={ kind = "dirichlet", alpha = 0.3 }')
    ours = result("collaboration/sites_rotated", *nowhere)
    assert ours >= result("collaboration/sites_rotated", *nowhere, "learning.algorithm.token=global") - 1
