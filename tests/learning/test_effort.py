"""How many clients train alone and for how long: within a tenth of the counts of the run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmule.learning import effort
from fedmule.learning.effort import Effort, RunSize, effort_for
from fedmule.learning.held_out import folds_of, steps_of_choice

MLR_FLOPS, MLP_FLOPS, CNN_FLOPS = 5e4, 2e6, 1e9


def run_of(
    clients: int = 40,
    samples: int = 100,
    flops: float = MLR_FLOPS,
    visits: int | None = 400,
    participants: int = 3,
    steps: int = 10,
    evaluated: float = 0.0,
) -> RunSize:
    return RunSize(np.full(clients, samples), flops, visits, True, participants, steps, evaluated, 20)


def test_all_clients_train_alone_where_steps_are_cheap() -> None:
    found = effort_for(run_of())
    assert found.clients == 40
    assert 200 < found.steps <= effort.LONGEST
    assert effort_for(run_of(visits=10**6)) == Effort(40, effort.LONGEST)


def test_of_many_clients_a_sample_trains_with_good_plans() -> None:
    found = effort_for(run_of(clients=1000))
    assert effort.ENOUGH < found.clients < 1000
    assert found.steps >= effort.GOOD


def test_of_large_models_a_few_clients_train_half_as_long_as_in_the_run() -> None:
    run = run_of(clients=20, flops=CNN_FLOPS, visits=200, participants=1)  # 2000 steps, 100 of each client
    assert effort_for(run) == Effort(effort.FEWEST, 50)
    assert effort_for(run_of(clients=2, flops=CNN_FLOPS, visits=200, participants=1)).clients == 2
    assert effort_for(run_of(clients=1, flops=CNN_FLOPS)).clients == 1


def test_evaluations_count_too() -> None:
    run = run_of(flops=MLP_FLOPS)
    assert effort_for(run).clients < effort_for(run_of(flops=MLP_FLOPS, evaluated=10_000.0)).clients


def test_as_many_as_asked_for_train_at_any_cost() -> None:
    assert effort_for(run_of(flops=CNN_FLOPS), 30) == Effort(30, effort.LONGEST)
    assert effort_for(run_of(), 400) == Effort(40, effort.LONGEST)


def test_a_run_without_a_limit_of_visits_counts_as_a_usual_one() -> None:
    assert effort_for(run_of(visits=None)) == effort_for(run_of(visits=effort.USUAL_VISITS))


@given(
    st.integers(1, 2000),
    st.integers(1, 2000),
    st.floats(1e3, 1e10),
    st.one_of(st.none(), st.integers(1, 10_000)),
    st.integers(1, 20),
    st.integers(1, 50),
)
def test_the_steps_of_all_stay_within_a_tenth(
    clients: int, samples: int, flops: float, visits: int | None, participants: int, steps: int
) -> None:
    run = run_of(clients, samples, flops, visits, participants, steps)
    found = effort_for(run)
    assert min(effort.FEWEST, clients) <= found.clients <= clients
    assert effort.SHORTEST <= found.steps <= effort.LONGEST
    folds = float(folds_of(run.train_count).mean())
    taken = found.clients * found.steps * steps_of_choice(folds) * flops
    count = visits or effort.USUAL_VISITS
    least = found.clients <= effort.FEWEST and found.steps <= max(
        effort.SHORTEST, count * participants * steps / clients / 2
    )
    per_visit = effort.VISIT_FLOPS + effort.CLIENT_FLOPS * min(clients, effort.MOST_COUNTED)
    assert least or taken <= count * (per_visit + 0.1 * participants * steps * flops) * (1 + 1e-9)


def test_an_ideal_server_leaves_less() -> None:
    driven = run_of(clients=12, visits=60)
    rounds = RunSize(driven.train_count, driven.step_flops, 60, False, 3, 10, 0.0, 20)
    assert effort_for(rounds).clients * effort_for(rounds).steps < effort_for(driven).clients * effort_for(driven).steps


@pytest.mark.parametrize("wanted", [1, 7])
def test_a_single_client_can_be_asked_for(wanted: int) -> None:
    assert effort_for(run_of(), wanted).clients == wanted
