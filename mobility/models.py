"""The movement models by their kinds."""

from __future__ import annotations

from mobility.drift import Drift
from mobility.gauss_markov import GaussMarkov
from mobility.herd import Herd
from mobility.manhattan import Manhattan
from mobility.movement import Movement
from mobility.patrol import Patrol
from mobility.placed_anew import PlacedAnew
from mobility.random_walk import RandomWalk
from mobility.roads import Roads
from mobility.squads import Squads
from mobility.static import Static
from mobility.traced import Traced
from mobility.waypoint import Waypoint

MOVEMENTS: dict[str, type[Movement]] = {
    "static": Static,
    "waypoint": Waypoint,
    "random_walk": RandomWalk,
    "gauss_markov": GaussMarkov,
    "manhattan": Manhattan,
    "roads": Roads,
    "squads": Squads,
    "patrol": Patrol,
    "herd": Herd,
    "drift": Drift,
    "placed_anew": PlacedAnew,
    "trace": Traced,
}
