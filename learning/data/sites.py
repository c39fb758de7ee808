"""Data that follow sites: what the clients of one site have in common, and others have not."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.data.partition import Rows, enough
from fedmule.learning.errors import DataError

IntArray = NDArray[np.int64]
Kind = Literal["none", "rotated", "permuted"]


def share_within(rows: Rows, site: IntArray, generator: np.random.Generator) -> Rows:
    """From the rows of each site to those of each client: everyone at a site gets the same number."""
    shared: Rows = [np.empty(0, dtype=np.int64) for _ in site]
    for at, found in enumerate(rows):
        members = np.flatnonzero(site == at)
        parts = np.array_split(generator.permutation(found), len(members))
        for client, part in zip(members, parts, strict=True):
            shared[client] = part
    return enough(shared)


def rotated(features: Tensor, shape: tuple[int, ...], degrees: float) -> Tensor:
    """Images [N,f] of this shape turned counter-clockwise about their middle; what comes in from outside is 0."""
    if degrees % 360 == 0:
        return features
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    aspect = shape[1] / shape[2]  # the grid goes from −1 to 1 along both sides, however long they are
    matrix = torch.tensor([[cos, -sin * aspect, 0.0], [sin / aspect, cos, 0.0]])
    images = features.reshape(-1, *shape)
    grid = torch.nn.functional.affine_grid(matrix[None], [1, *shape], align_corners=False).to(features)
    parts = [
        torch.nn.functional.grid_sample(part, grid.expand(len(part), -1, -1, -1), align_corners=False)
        for part in images.split(4096)
    ]
    return torch.cat(parts).reshape(features.shape)


class Shift:
    """What differs from site to site. rotated: images by 360°/sites more at each; permuted: each its own labels."""

    def __init__(self, kind: Kind, sites: int, data: ClientData, generator: np.random.Generator) -> None:
        if kind == "rotated" and len(data.shape) != 3:
            raise DataError("needs images; these data have plain features")
        self._kind = kind
        self._sites = sites
        self._shape = data.shape
        self._labels = [torch.from_numpy(generator.permutation(data.classes)) for _ in range(sites)]

    def at(self, site: int, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Features [N,f] and labels [N] as they are found at a site."""
        if self._kind == "rotated":
            return rotated(features, self._shape, 360 * site / self._sites), labels
        if self._kind == "permuted":
            return features, self._labels[site].to(labels.device)[labels]
        return features, labels


class SiteData:
    """Clients' data as their sites make them; they change for clients who go to another site for good.

    `data` is changed in place, so that whoever holds it sees the change.
    """

    def __init__(self, data: ClientData, shift: Shift, site: IntArray, movers: IntArray) -> None:
        self.data = data
        self._shift = shift
        self._plain = {int(c): self._rows(int(c)) for c in movers}  # what movers' data are like nowhere
        for at in np.unique(site):
            index = torch.from_numpy(self._indices(np.flatnonzero(site == at)))
            found = shift.at(int(at), data.features[index], data.labels[index])
            data.features[index], data.labels[index] = found

    def move(self, clients: IntArray, sites: IntArray) -> None:
        """These movers' data are from now on as at these sites."""
        assert self.data.site is not None
        for client, site in zip(clients.tolist(), sites.tolist(), strict=True):
            rows = slice(int(self.data.first[client]), int(self.data.first[client + 1]))
            self.data.features[rows], self.data.labels[rows] = self._shift.at(site, *self._plain[client])
        self.data.site[clients] = sites

    def _rows(self, client: int) -> tuple[Tensor, Tensor]:
        rows = slice(int(self.data.first[client]), int(self.data.first[client + 1]))
        return self.data.features[rows].clone(), self.data.labels[rows].clone()

    def _indices(self, clients: IntArray) -> IntArray:
        first = self.data.first
        return np.concatenate([np.arange(first[c], first[c + 1]) for c in clients])
