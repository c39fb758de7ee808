"""The clients of a scenario: how they move, to which sites they belong, and their devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedmule.mobility.models.grouped import Grouped
from fedmule.mobility.models.movement import Movement, MovementError
from fedmule.mobility.models.unplaced import Unplaced
from fedmule.mobility.positions import Positions
from fedmule.mobility.schedule import Reporting
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.traces.trace import TraceError
from fedmule.mobility.trajectory import Trajectories
from fedmule.simulator.errors import Problem, ScenarioError
from fedmule.simulator.listing import Listing
from fedmule.simulator.scenario import Scenario
from fedmule.simulator.scenario.clients import Clients, Division
from fedmule.simulator.scenario.parts import Plugins, choose
from fedmule.simulator.streams import Streams

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def _nobody() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Sites:
    """The site of each client, if sites matter, and who moves to another site when."""

    site: IntArray | None = None  # [n] 0 … count − 1: the site of its group, its squad, or others that start nearby
    count: int = 0
    movers: IntArray = field(default_factory=_nobody)
    to: IntArray = field(default_factory=_nobody)  # where each mover goes
    change_at_s: float | None = None


def compute_flops_per_s(scenario: Scenario) -> FloatArray:
    """Floating-point operations per second of each client's device [n]."""
    divisions = scenario.clients.divisions()
    return np.repeat([division.compute_flops_per_s for division in divisions], [d.count for d in divisions])


def extra_loss_db(scenario: Scenario) -> FloatArray:
    """What each client's links [n] lose because its radio is weaker than the scenario's, dB."""
    divisions = scenario.clients.divisions()
    return np.repeat([0.0 - division.radio_gain_db for division in divisions], [d.count for d in divisions])


def build_positions(
    scenario: Scenario, terrain: Terrain, streams: Streams, plugins: Plugins, listing: Listing | None = None
) -> Positions:
    """Place the clients, and make their movement and reports. Raises ScenarioError where that is impossible.

    Clients of a contact list, `listing`, have no positions.
    """
    clients = scenario.clients
    if listing is not None:
        trajectories = Trajectories(listing.movement())
    elif clients.groups is None:
        (everyone,) = clients.divisions()
        with _located(scenario, everyone):
            movement = _make(everyone, terrain, streams, "mobility", plugins)
            if scenario.vehicle.count > 1 and _redraws(movement):
                raise MovementError("cannot redraw positions after a visit where there are several vehicles", ".kind")
            trajectories = Trajectories(movement)
        _check_start(scenario, everyone, trajectories.positions(0.0))
    else:
        trajectories = Trajectories(_groups(scenario, terrain, streams, plugins))
    ahead = scenario.vehicle.search == "ahead"
    return Positions(trajectories, streams.draw("reports"), reporting_of(clients), keep_two=ahead)


def reporting_of(clients: Clients) -> Reporting:
    """How clients report their positions."""
    return Reporting(
        clients.report_period_s,
        clients.report_error_m,
        clients.report_stagger,
        clients.report_delay_s,
        clients.report_loss,
    )


def _groups(scenario: Scenario, terrain: Terrain, streams: Streams, plugins: Plugins) -> Grouped:
    """The movement of groups; each has random numbers of its own, whatever the others' sizes."""
    models, starts = [], []
    for i, division in enumerate(scenario.clients.divisions()):
        with _located(scenario, division):
            model = _make(division, terrain, streams, f"mobility of group {i}", plugins)
            if _redraws(model):
                raise MovementError("cannot be that of a group: it redraws positions after a visit", ".kind")
            start = np.array(model.start(), dtype=float)
        _check_start(scenario, division, start)
        models.append(model)
        starts.append(start)
    return Grouped(models, starts)


def _make(division: Division, terrain: Terrain, streams: Streams, stream: str, plugins: Plugins) -> Movement:
    chosen = choose(division.mobility, division.mobility_key, plugins)
    movement: Movement = chosen.make(terrain=terrain, count=division.count, draw=streams.draw(stream))
    return movement


def _redraws(movement: Movement) -> bool:
    return type(movement).after_visit is not Movement.after_visit


@contextmanager
def _located(scenario: Scenario, division: Division) -> Iterator[None]:
    """Turn an error of a mobility model into one that names the scenario's key."""
    try:
        yield
    except (MovementError, TraceError) as error:
        key = f"{division.mobility_key}{getattr(error, 'key', '')}"
        raise ScenarioError(scenario.name, [Problem(key, str(error))]) from None


def _check_start(scenario: Scenario, division: Division, first: FloatArray) -> None:
    if first.shape != (division.count, 2) or not np.isfinite(first).all():
        message = (
            f"must return positions for {division.count} clients: start() gave an array {first.shape}, or not all "
            "finite"
        )
        raise ScenarioError(scenario.name, [Problem(f"{division.mobility_key}.kind", message)])


# --- sites ----------------------------------------------------------------------------------------------------


def build_sites(scenario: Scenario, positions: Positions, streams: Streams, plugins: Plugins) -> Sites:
    """Find the site of each client, where it makes a difference."""
    learning, movement = scenario.learning, positions.trajectories.movement
    if not (
        learning.partition_over == "sites"
        or learning.shift != "none"
        or learning.dataset.needs_sites()
        or choose(learning.algorithm, "learning.algorithm", plugins).ask("asks_for_sites")
    ):
        return Sites()
    divisions = scenario.clients.divisions()
    models = movement.models if isinstance(movement, Grouped) else (movement,) * len(divisions)
    site, count = np.full(len(positions), -1), len({d.site for d in divisions} - {None})
    moves, first = [(_nobody(), _nobody())], 0
    times: dict[str, float | None] = {}
    for division, model in zip(divisions, models, strict=True):
        squad = getattr(model, "squad", None)
        if division.site is not None:
            site[first : first + division.count] = division.site
        elif squad is not None:
            site[first : first + division.count] = count + squad
            movers, to = getattr(model, "regrouped", moves[0])
            moves.append((first + movers, count + to))
            times[division.mobility_key] = getattr(model, "regroup_at_s", None)
            count += int(squad.max()) + 1
        first += division.count
    rest = np.flatnonzero(site < 0)
    if rest.size:
        if isinstance(movement, Unplaced):
            site[rest] = count + _of_a_class(scenario, movement, rest)
        else:
            appear = movement.first_positions()
            appear = positions.true(np.arange(len(positions))) if appear is None else appear
            site[rest] = count + _near_each_other(appear[rest], learning.sites, streams.generator("places"))
        count = int(site.max()) + 1
    movers, to = (np.concatenate(part) for part in zip(*moves, strict=True))
    return Sites(site, count, movers, to, _one_time(scenario, times))


def _one_time(scenario: Scenario, times: dict[str, float | None]) -> float | None:
    """The time at which clients change sites, by the keys of their movement: one for all who do."""
    given = {key: time for key, time in times.items() if time is not None}
    first = next(iter(given), "")
    problems = [
        Problem(f"{key}.regroup_at_s", f"must be that of {first}, {given[first]:g}: data change site only once", time)
        for key, time in given.items()
        if time != given[first]
    ]
    if problems:
        raise ScenarioError(scenario.name, problems)
    return given.get(first)


def _of_a_class(scenario: Scenario, movement: Unplaced, rest: IntArray) -> IntArray:
    """Groups [m] of these clients by their classes in the contact list, numbered from 0."""
    if movement.classes is None:
        message = "has no class for each client to be its site (t i j Ci Cj): give a site to each of clients.groups"
        raise ScenarioError(scenario.name, [Problem("clients.mobility.path", message)])
    return np.unique(np.array(movement.classes)[rest], return_inverse=True)[1].astype(np.int64)


def _near_each_other(xy: FloatArray, count: int, generator: np.random.Generator) -> IntArray:
    """Groups [n] of positions that lie together, at most `count` of them, numbered from 0 without gaps."""
    from scipy.cluster.vq import kmeans2

    distinct = len(np.unique(xy, axis=0))
    _, group = kmeans2(xy, min(count, distinct), minit="++", rng=generator)
    return np.unique(group, return_inverse=True)[1].astype(np.int64)
