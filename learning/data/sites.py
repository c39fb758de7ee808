"""Data that differ from site to site."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.data.partition import check_enough
from fedmule.learning.data.recordings import Rows
from fedmule.learning.errors import DataError

IntArray = NDArray[np.int64]
Kind = Literal["none", "rotated", "permuted"]


def share_within(rows: Rows, site: IntArray, generator: np.random.Generator) -> Rows:
    """Divide the rows of each site evenly among its clients; return the rows of each client."""
    shared: Rows = [np.empty(0, dtype=np.int64) for _ in site]
    for at, found in enumerate(rows):
        members = np.flatnonzero(site == at)
        parts = np.array_split(generator.permutation(found), len(members))
        for client, part in zip(members, parts, strict=True):
            shared[client] = part
    return check_enough(shared)


def rotated(features: Tensor, shape: tuple[int, ...], degrees: float) -> Tensor:
    """Rotate images [N,f] of this shape counter-clockwise about their centre, filling with 0 from outside."""
    if degrees % 360 == 0:
        return features
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    aspect = shape[1] / shape[2]  # the grid spans −1 to 1 along both sides, whatever their lengths
    matrix = torch.tensor([[cos, -sin * aspect, 0.0], [sin / aspect, cos, 0.0]])
    images = features.reshape(-1, *shape)
    grid = torch.nn.functional.affine_grid(matrix[None], [1, *shape], align_corners=False).to(features)
    parts = [
        torch.nn.functional.grid_sample(part, grid.expand(len(part), -1, -1, -1), align_corners=False)
        for part in torch.split(images, 4096)
    ]
    return torch.cat(parts).reshape(features.shape)


class Shift:
    """Difference between sites. rotated: site k turns images by k · 360°/sites; permuted: each site permutes labels."""

    def __init__(self, kind: Kind, sites: int, data: ClientData, generator: np.random.Generator) -> None:
        if kind == "rotated" and len(data.shape) != 3:
            raise DataError("needs images; these data have plain features")
        self._kind = kind
        self._sites = sites
        self._shape = data.shape
        self._labels = [torch.from_numpy(generator.permutation(data.classes)) for _ in range(sites)]

    def at(self, site: int, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return features [N,f] and labels [N] as they occur at a site."""
        if self._kind == "rotated":
            return rotated(features, self._shape, 360 * site / self._sites), labels
        if self._kind == "permuted":
            return features, self._labels[site].to(labels.device)[labels]
        return features, labels


class SiteData:
    """The clients' data, shifted as their sites require; they change when a client moves to another site for good.

    `data` is changed in place, so every holder of a reference sees the change.
    """

    def __init__(self, data: ClientData, shift: Shift, site: IntArray, movers: IntArray) -> None:
        self.data = data
        self._shift = shift
        self._plain = {int(c): self._rows(int(c)) for c in movers}  # movers' data without any shift
        for at in np.unique(site):
            index = torch.from_numpy(self._indices(np.flatnonzero(site == at)))
            found = shift.at(int(at), data.features[index], data.labels[index])
            data.features[index], data.labels[index] = found
        self._recount(np.arange(data.clients))

    def move(self, clients: IntArray, sites: IntArray) -> None:
        """Change the data of these clients, who move, to those of their new sites."""
        assert self.data.site is not None
        for client, site in zip(clients.tolist(), sites.tolist(), strict=True):
            rows = slice(int(self.data.first[client]), int(self.data.first[client + 1]))
            self.data.features[rows], self.data.labels[rows] = self._shift.at(site, *self._plain[client])
        self.data.site[clients] = sites
        self._recount(clients)

    def _recount(self, clients: IntArray) -> None:
        """Bring the prior of these clients up to date: their labels have changed."""
        if self.data.prior is not None and len(clients):
            self.data.prior.recount(self.data, clients)

    def _rows(self, client: int) -> tuple[Tensor, Tensor]:
        rows = slice(int(self.data.first[client]), int(self.data.first[client + 1]))
        return self.data.features[rows].clone(), self.data.labels[rows].clone()

    def _indices(self, clients: IntArray) -> IntArray:
        first = self.data.first
        return np.concatenate([np.arange(first[c], first[c + 1]) for c in clients])
