"""The movement models by their kinds."""

from __future__ import annotations

from fedmule.mobility.models.drift import Drift
from fedmule.mobility.models.gauss_markov import GaussMarkov
from fedmule.mobility.models.herd import Herd
from fedmule.mobility.models.manhattan import Manhattan
from fedmule.mobility.models.movement import Movement
from fedmule.mobility.models.patrol import Patrol
from fedmule.mobility.models.random_walk import RandomWalk
from fedmule.mobility.models.recorded import Recorded
from fedmule.mobility.models.redrawn import Redrawn
from fedmule.mobility.models.roads import Roads
from fedmule.mobility.models.squads import Squads
from fedmule.mobility.models.static import Static
from fedmule.mobility.models.waypoint import Waypoint

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
    "placed_anew": Redrawn,
    "trace": Recorded,
}
