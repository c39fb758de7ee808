"""Loss of a link beyond free propagation: obstacles that the ray crosses, and jamming at its ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import shapely
from numpy.typing import NDArray

from fedmule.mobility.terrain import Obstacle
from fedmule.radio.jamming import Jamming, JammingZone

if TYPE_CHECKING:
    from fedmule.radio.propagation import Shadowing
    from fedmule.radio.stretches import View

FloatArray = NDArray[np.float64]


class Obstruction:
    """Obstacles, each of which takes its `radio_loss_db` once from every ray that crosses it, and jamming zones."""

    def __init__(self, obstacles: Sequence[Obstacle] = (), jamming_zones: Sequence[JammingZone] = ()) -> None:
        lossy = [obstacle for obstacle in obstacles if obstacle.radio_loss_db > 0]
        self._polygons = [obstacle.polygon for obstacle in lossy]
        self._loss_db = np.array([obstacle.radio_loss_db for obstacle in lossy])
        self._tree = shapely.STRtree(self._polygons)
        self._jamming = Jamming(jamming_zones)
        self._views: dict[Shadowing | None, View] = {}

    def loss_db(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Losses [m] in dB of the links between a ([2] or [m,2]) and b [m,2]."""
        loss = self._jamming.loss_db(a, b)
        if self._polygons and len(b):
            rays = shapely.linestrings(np.stack([np.broadcast_to(a, b.shape), b], axis=1))
            ray, obstacle = self._tree.query(rays, predicate="intersects")
            np.add.at(loss, ray, self._loss_db[obstacle])
        return loss

    def view(self, shadowing: Shadowing | None) -> View:
        """What compiled loops need to know of it, and of a radio's shadowing."""
        if shadowing not in self._views:
            self._views[shadowing] = self._view(shadowing)
        return self._views[shadowing]

    def _view(self, shadowing: Shadowing | None) -> View:
        from fedmule.mobility.surface_times import outlines  # slow to import, so only where needed
        from fedmule.radio.box_tree import box_tree
        from fedmule.radio.stretches import View, room_for_shadowing

        zones = self._jamming.zones
        inside = np.array([zone.polygon.representative_point().coords[0] for zone in zones]).reshape(-1, 2)
        alone = [Jamming([zone]).noise_db(xy[None])[0] for zone, xy in zip(zones, inside, strict=True)]
        order, tree = box_tree(shapely.bounds(self._polygons).reshape(-1, 4))
        screens = outlines([self._polygons[p] for p in order.tolist()], self._loss_db[order].tolist())
        none = np.empty((3, 0)), (0.0, 0.0, 1.0, 1.0)
        waves, numbers = shadowing.table() if shadowing else none
        cells, field = room_for_shadowing()
        return View(
            screens=screens,
            tree=tree,
            zones=outlines([zone.polygon for zone in zones], [10 ** (zone.noise_db / 10) - 1 for zone in zones]),
            noise_db=np.array(alone, dtype=float),
            waves=waves,
            shadowing=numbers,
            cells=cells,
            field=field,
        )
