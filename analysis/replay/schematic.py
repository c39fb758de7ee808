"""A schematic map of a run without positions: vehicles in the middle, clients on a circle round them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SIZE_M = (100.0, 100.0)  # of the map; it has no scale
CLIENTS_M, VEHICLES_M = 45.0, 6.0  # radii of the circles


def schematic_track(vehicles: int, clients: int) -> pd.DataFrame:
    """A track in which everybody stays in place."""
    xy = np.concatenate([_circle(vehicles, VEHICLES_M if vehicles > 1 else 0.0), _circle(clients, CLIENTS_M)])
    nodes = ["vehicle"] * vehicles + ["client"] * clients
    ids = np.concatenate([np.arange(vehicles), np.arange(clients)])
    return pd.DataFrame({"sim_time_s": 0.0, "node": nodes, "id": ids, "x_m": xy[:, 0], "y_m": xy[:, 1]})


def in_the_middle(contacts: pd.DataFrame, track: pd.DataFrame) -> pd.DataFrame:
    """Contacts with the position of their vehicle on the schematic map."""
    places = track[track["node"] == "vehicle"].set_index("id")
    there = places.loc[contacts["vehicle"].astype(int)]
    return contacts.assign(vehicle_x_m=there["x_m"].to_numpy(), vehicle_y_m=there["y_m"].to_numpy())


def _circle(count: int, radius_m: float) -> NDArray[np.float64]:
    """Positions [count,2] on a circle about the middle, clockwise from the top."""
    angle = 2 * np.pi * np.arange(count) / max(count, 1)
    return np.array(SIZE_M) / 2 + radius_m * np.stack([np.sin(angle), np.cos(angle)], axis=1)
