"""Cost of knowing where moving clients are: reports at moments of their own, late and lost, against all at once.

python tests/benchmarks/report_cost.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from making import Waypoint, reporting

from fedmule.mobility.positions import Positions
from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import Trajectories
from fedmule.simulator.streams import Streams

KINDS: dict[str, dict[str, Any]] = {
    "all at once": {"stagger": False},
    "staggered": {"stagger": True},
    "staggered, 5 to 60 s late, a tenth lost": {"stagger": True, "delay_s": [5.0, 60.0], "loss": 0.1},
}
STEP_S = 7.0  # simulated time between two looks


def advance_us(clients: int, looks: int, **keys: Any) -> float:
    """CPU time of an advance and a look at all reported positions, µs."""
    walking = Waypoint(Terrain((5000.0, 5000.0)), clients, Streams(0).draw("mobility"), (0.5, 2.0), (0.0, 60.0))
    positions = Positions(Trajectories(walking), Streams(0).draw("reports"), reporting(30.0, 5.0, **keys))
    everyone = np.arange(clients)
    positions.advance(1.0)
    positions.known(everyone)
    began = time.process_time()
    for look in range(looks):
        positions.advance(1.0 + STEP_S * look)
        positions.known(everyone)
    return 1e6 * (time.process_time() - began) / looks


def compare(clients: int = 1000, looks: int = 200, rounds: int = 3) -> dict[str, float]:
    """CPU time by kind of reports, µs: the shortest of several rounds."""
    return {kind: min(advance_us(clients, looks, **keys) for _ in range(rounds)) for kind, keys in KINDS.items()}


if __name__ == "__main__":
    found = compare()
    for kind, microseconds in found.items():
        print(f"{kind:42s} {microseconds:8.0f} µs  {microseconds / found['all at once']:5.2f}")
