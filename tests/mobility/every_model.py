"""Every mobility model that moves, small and fast, for tests of what they have in common."""

import numpy as np
from making import Drift, Herd, RandomWalk, Squads, Waypoint

from fedmule.mobility.models.gauss_markov import GaussMarkov
from fedmule.mobility.models.manhattan import Manhattan
from fedmule.mobility.models.movement import MovementError
from fedmule.mobility.models.patrol import Patrol
from fedmule.mobility.models.roads import Roads
from fedmule.mobility.road_network import RoadNetwork, grid_lines
from fedmule.simulator.streams import Streams

SPEEDS, PAUSES = (0.5, 3.0), (0.0, 12.0)


def roads(terrain, count, draw):
    return Roads(
        terrain, count, draw, RoadNetwork(terrain, grid_lines(terrain.size_m, (9.0, 7.0))), SPEEDS, PAUSES, None
    )


MODELS = {
    "waypoint": lambda *given: Waypoint(*given, SPEEDS, PAUSES),
    "random_walk": lambda *given: RandomWalk(*given, SPEEDS, 15.0),
    "random_walk_by_distance": lambda *given: RandomWalk(*given, SPEEDS, step_m=20.0),
    "gauss_markov": lambda *given: GaussMarkov(*given, 0.7, 0.8, 5.0),
    "manhattan": lambda *given: Manhattan(*given, (9.0, 7.0), 0.5, SPEEDS),
    "roads": roads,
    "squads": lambda *given: Squads(*given, 3, 6.0, SPEEDS, PAUSES),
    "patrol": lambda *given: Patrol(*given, (), False, SPEEDS, PAUSES),
    "herd": lambda *given: Herd(*given, 3, 5.0, 60.0, 60.0, 60.0, 0.1, 0.8, 10.0, 2.0, 3.0),
    "drift": lambda *given: Drift(*given, 3, 15.0, 1.0, 0.2, 0.25),
}
# Nobody is faster than this; None where a law allows any speed. The strongest current is found on a grid, to 1 %, and
# on top of it comes diffusion.
TOP_MPS = dict.fromkeys(MODELS, 3.0) | {"gauss_markov": None, "drift": None}


def make(kind, terrain, seed=1, count=12):
    return MODELS[kind](terrain, count, Streams(seed).draw("mobility"))


def make_if_it_can(kind, terrain, seed, count=6):
    """The model, or None if the terrain leaves it no road, street or route."""
    try:
        return make(kind, terrain, seed, count)
    except MovementError:
        if kind not in ("roads", "manhattan", "patrol"):
            raise
        return None


def sampled(movement, times):
    """Positions [k,n,2] at times [k]."""
    from fedmule.mobility.trajectory import Trajectories

    trajectories = Trajectories(movement)
    return np.array([trajectories.positions(t) for t in times])
