"""How many clients train alone, and for how long: about a tenth of the computation of a run, by counts alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmule.learning.algorithms.base import IntArray
from fedmule.learning.held_out import TRIALS, folds_of, steps_of_choice

LONGEST = 400  # steps of a plan: more bring little when the step size falls
GOOD = 100  # steps that a client should have, if ENOUGH clients can have that many
SHORTEST = 20
ENOUGH = 10  # clients
FEWEST = 3
SHARE = 0.1  # of the run's gradient steps and evaluations that training alone may take
SCORING = 1 / 3  # FLOPs of evaluating a model on a sample ÷ those of its gradient
# What a visit leaves for training alone beside that, as FLOPs at the speed of compiled gradient steps: a tenth of what
# movement, routes, the exchange and the log cost at least, with one client and for each of up to MOST_COUNTED more.
# Likewise the fixed costs of a step and of an evaluation.
VISIT_FLOPS = 9e6
CLIENT_FLOPS = 0.15e6
MOST_COUNTED = 60
ROUND_FLOPS = 1e6  # likewise of a round of an ideal server
STEP_FLOPS = 16e3
EVALUATION_FLOPS = 0.8e6
USUAL_VISITS = 320  # of a run that is not limited by visits; in passing there are more contacts than visits


@dataclass(frozen=True)
class RunSize:
    """What is known about the work of a run before it begins."""

    train_count: IntArray  # [n] training samples of each client
    step_flops: float  # FLOPs of a gradient step on this computer
    visits: int | None  # None: the run is limited in another way
    driven: bool  # False: visits are rounds of an ideal server
    participants: int  # clients that take part in a visit, about
    steps_per_visit: int  # of each of them
    evaluated: float  # samples on which models are evaluated per visit, about
    batch_size: int


@dataclass(frozen=True)
class Effort:
    """The number of clients that train alone, and the steps of their longest plan."""

    clients: int
    steps: int


def effort_for(run: RunSize, wanted: int | None = None) -> Effort:
    """Divide a tenth of a run's computation among clients that train alone; `wanted`: so many, at any cost.

    If all clients cannot have good plans, a sample of them trains; if that would be a small one, plans are shorter, but
    at least half as long as the steps that a client takes in the run.
    """
    count = len(run.train_count)
    if wanted is not None:
        return Effort(min(wanted, count), LONGEST)
    visits, folds = run.visits or USUAL_VISITS, float(folds_of(run.train_count).mean())
    steps = visits * run.participants * run.steps_per_visit
    evaluations = SCORING * visits * run.evaluated / run.batch_size  # as gradient steps
    visit = VISIT_FLOPS + CLIENT_FLOPS * min(count, MOST_COUNTED) if run.driven else ROUND_FLOPS
    budget = visits * visit + SHARE * (steps + evaluations) * run.step_flops
    fixed = (TRIALS + 1) * folds * EVALUATION_FLOPS  # per client
    per_step = steps_of_choice(folds) * (run.step_flops + STEP_FLOPS)  # per client and step of its longest plan
    least = int(np.clip(steps / count / 2, SHORTEST, LONGEST))
    clients = min(int(budget // (fixed + GOOD * per_step)), count)
    if clients < min(ENOUGH, count):
        clients = int(np.clip(budget // (fixed + least * per_step), min(FEWEST, count), min(ENOUGH, count)))
    return Effort(clients, int(np.clip((budget / clients - fixed) // per_step, min(least, GOOD), LONGEST)))
