"""Propagation: path loss, fading, and shadowing that depends on position."""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np

from fedmule.mobility.models.movement import Draw
from fedmule.radio.link import FloatArray

LIGHT_MPS = 299_792_458.0
FARTHEST_M = 1e9  # no link is longer than this
WAVES = 256  # plane waves that make up a shadowing field
CELLS = 5  # grid cells per correlation distance; shadowing is constant within a cell
MOST_SHADOW = 3.0  # standard deviations at which shadowing is clipped

# --- path losses in dB over distances in metres --------------------------------------------------------------


def friis(distance_m: FloatArray, frequency_hz: float) -> FloatArray:
    """Free-space loss: 20·log10(4π·d·f/c), never below 0."""
    near = LIGHT_MPS / (4 * np.pi * frequency_hz)
    return 20 * np.log10(np.maximum(distance_m, near) / near)


def log_distance(distance_m: FloatArray, exponent: float, reference_loss_db: float) -> FloatArray:
    """Log-distance loss: reference_loss_db + 10·exponent·log10(d), constant below 1 m."""
    return reference_loss_db + 10 * exponent * np.log10(np.maximum(distance_m, 1.0))


def two_ray(distance_m: FloatArray, frequency_hz: float, height_m: tuple[float, float] = (1.5, 1.5)) -> FloatArray:
    """Two-ray ground reflection: free space up to the crossover 4π·h₁·h₂/λ, then d⁴/(h₁²·h₂²)."""
    crossover_m = 4 * np.pi * height_m[0] * height_m[1] * frequency_hz / LIGHT_MPS
    beyond = 40 * np.log10(np.maximum(distance_m, crossover_m)) - 20 * np.log10(height_m[0] * height_m[1])
    return np.where(distance_m <= crossover_m, friis(distance_m, frequency_hz), beyond)


def three_log_distance(
    distance_m: FloatArray,
    distances_m: tuple[float, float, float],
    exponents: tuple[float, float, float],
    reference_loss_db: float,
) -> FloatArray:
    """Log-distance loss with a separate exponent from each of three distances on, constant below the first."""
    loss_db = np.full(np.shape(distance_m), reference_loss_db)
    for start, end, exponent in zip(distances_m, (*distances_m[1:], np.inf), exponents, strict=True):
        loss_db = loss_db + 10 * exponent * np.log10(np.clip(distance_m, start, end) / start)
    return loss_db


def thorp_db_per_km(frequency_khz: float) -> float:
    """Absorption in sea water by Thorp's formula, in dB per km with f in kHz (Stojanovic, WUWNet 2006)."""
    f2 = frequency_khz**2
    if frequency_khz < 0.4:
        return 0.002 + 0.11 * f2 / (1 + f2) + 0.011 * f2
    return 0.11 * f2 / (1 + f2) + 44 * f2 / (4100 + f2) + 2.75e-4 * f2 + 0.003


def under_water(distance_m: FloatArray, frequency_khz: float, spreading: float = 1.5) -> FloatArray:
    """Underwater loss: 10·spreading·log10(d) + absorption, constant below 1 m."""
    away = np.maximum(distance_m, 1.0)
    return 10 * spreading * np.log10(away) + away / 1000 * thorp_db_per_km(frequency_khz)


# --- fading --------------------------------------------------------------------------------------------------


def nakagami_m(
    distance_m: FloatArray,
    m: tuple[float, float, float] = (1.5, 0.75, 0.75),
    from_m: tuple[float, float] = (80.0, 200.0),
) -> FloatArray:
    """Nakagami shape m by distance: the first value below from_m[0], the second below from_m[1], then the third."""
    return np.asarray(m)[np.searchsorted(from_m, distance_m, side="right")]


def nakagami(uniform: FloatArray, m: FloatArray | float) -> FloatArray:
    """Power gains of Nakagami-m fading, from uniform draws in (0,1): gamma distributed, mean 1, variance 1/m."""
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(m, uniform) / m)


# --- models that a scenario can choose -------------------------------------------------------------------------


class Propagation:
    """Base class of propagation models. Subclass and override `path_loss_db`, which must increase with distance."""

    nearest_m = 1.0  # the loss is constant below this distance
    frequency_mhz: float | None = None  # the carrier; None: that of the radio which uses the model

    def at_carrier(self, frequency_mhz: float) -> Self:
        """Return the model at a radio's carrier, or as it is if it has one of its own."""
        if self.frequency_mhz is not None:
            return self
        model = copy(self)
        model.tune(frequency_mhz)
        return model

    def tune(self, frequency_mhz: float) -> None:
        """Set the carrier."""
        self.frequency_mhz = frequency_mhz

    @property
    def frequency_hz(self) -> float:
        """Carrier frequency."""
        if self.frequency_mhz is None:
            raise ValueError(f"{type(self).__name__} has no carrier yet: give frequency_mhz")
        return 1e6 * self.frequency_mhz

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        """Mean path loss [m] in dB at these distances [m]."""
        raise NotImplementedError

    def fading_m(self, distance_m: FloatArray) -> FloatArray | None:
        """Nakagami shape [m] at these distances [m]; None if there is no fading."""
        return None

    def distance_m(self, more_db: FloatArray) -> FloatArray:
        """Distances [m] at which the loss exceeds that at nearest_m by this much."""
        target = self.path_loss_db(np.array(self.nearest_m)) + more_db
        low = np.full(np.shape(more_db), np.log(self.nearest_m))
        high = np.full(np.shape(more_db), np.log(FARTHEST_M))
        for _ in range(64):  # bisection down to adjacent floating-point numbers
            middle = (low + high) / 2
            nearer = self.path_loss_db(np.exp(middle)) <= target
            low, high = np.where(nearer, middle, low), np.where(nearer, high, middle)
        return np.asarray(np.exp(low))


def free_space_unless(given_db: float | None, model: Propagation) -> float:
    """Return the loss at the model's nearest distance: as given, or that of free space at its carrier."""
    return float(friis(np.array(model.nearest_m), model.frequency_hz)) if given_db is None else given_db


class Friis(Propagation):
    """Free-space propagation."""

    def __init__(self, frequency_mhz: float | None) -> None:
        if frequency_mhz is not None:
            self.tune(frequency_mhz)

    def tune(self, frequency_mhz: float) -> None:
        """Set the carrier."""
        super().tune(frequency_mhz)
        self.nearest_m = LIGHT_MPS / (4 * np.pi * self.frequency_hz)

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        """Free-space loss [m] in dB."""
        return friis(distance_m, self.frequency_hz)


class LogDistance(Propagation):
    """Log-distance propagation: a loss at 1 m, by default that of free space, and an exponent."""

    def __init__(self, exponent: float, reference_loss_db: float | None, frequency_mhz: float | None) -> None:
        self._exponent = exponent
        self._given_loss_db = reference_loss_db
        self.frequency_mhz = frequency_mhz

    @property
    def reference_loss_db(self) -> float:
        """Path loss at 1 m: as given, or that of free space."""
        return free_space_unless(self._given_loss_db, self)

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        """Log-distance loss [m] in dB."""
        return log_distance(distance_m, self._exponent, self.reference_loss_db)

    def distance_m(self, more_db: FloatArray) -> FloatArray:
        """Distances [m] at which the loss exceeds that at 1 m by this much, in closed form."""
        return np.asarray(10 ** (more_db / (10 * self._exponent)))


class TwoRay(Friis):
    """Two-ray ground reflection: free space up to the crossover distance."""

    def __init__(self, frequency_mhz: float | None, height_m: tuple[float, float]) -> None:
        super().__init__(frequency_mhz)
        self._height_m = height_m

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        """Two-ray loss [m] in dB."""
        return two_ray(distance_m, self.frequency_hz, self._height_m)


class ThreeLogDistance(Propagation):
    """Log-distance propagation with a separate exponent from each of three distances on."""

    def __init__(
        self,
        distances_m: tuple[float, float, float],
        exponents: tuple[float, float, float],
        reference_loss_db: float | None,
        frequency_mhz: float | None,
    ) -> None:
        self._distances_m = distances_m
        self._exponents = exponents
        self._given_loss_db = reference_loss_db
        self.frequency_mhz = frequency_mhz
        self.nearest_m = distances_m[0]

    @property
    def reference_loss_db(self) -> float:
        """Path loss at the first distance: as given, or that of free space."""
        return free_space_unless(self._given_loss_db, self)

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        """Three-log-distance loss [m] in dB."""
        return three_log_distance(distance_m, self._distances_m, self._exponents, self.reference_loss_db)


class Nakagami(LogDistance):
    """Log-distance in the mean, with independent fading of every frame."""

    def __init__(
        self,
        exponent: float,
        reference_loss_db: float | None,
        frequency_mhz: float | None,
        m: tuple[float, float, float],
        from_m: tuple[float, float],
    ) -> None:
        super().__init__(exponent, reference_loss_db, frequency_mhz)
        self._m = m
        self._from_m = from_m

    def fading_m(self, distance_m: FloatArray) -> FloatArray:
        """Nakagami shape [m] at these distances [m]."""
        return nakagami_m(distance_m, self._m, self._from_m)


class UnderWater(Propagation):
    """Underwater acoustic propagation: spreading, and absorption by Thorp's formula."""

    def __init__(self, frequency_khz: float, spreading: float = 1.5) -> None:
        self._frequency_khz = frequency_khz
        self._spreading = spreading

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        """Underwater loss [m] in dB."""
        return under_water(distance_m, self._frequency_khz, self._spreading)


# --- shadowing -----------------------------------------------------------------------------------------------


class Shadowing:
    """Log-normal shadowing that depends on position: a good position stays good, and so do those around it.

    A Gaussian field with correlation exp(−d/distance_m) (Gudmundson, 1991), as a sum of random plane waves, constant
    within square cells of side distance_m/5. A link's shadowing is the sum of the field at its ends, scaled to the
    standard deviation `db`, rounded to half decibels, and clipped at three standard deviations.
    """

    def __init__(self, db: float, distance_m: float, draw: Draw) -> None:
        waves = np.arange(WAVES)
        radius, angle, phase = draw(waves, np.zeros_like(waves), 3).T
        # The field's spectrum in the plane is (1 + (k·distance)²)^(−3/2); this inverts its radial distribution.
        wave_number = np.sqrt((1 - radius) ** -2 - 1) / distance_m
        self._waves = wave_number * np.stack([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)])  # [2,waves]
        self._phases = 2 * np.pi * phase
        self._db = db
        self._distance_m = distance_m
        self._cell_m = distance_m / CELLS
        self.most_db = MOST_SHADOW * db

    def loss_db(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Losses [m] in dB of the links between a ([2] or [m,2]) and b [m,2]; negative if better than the mean."""
        a, b = self._cell_centre(np.broadcast_to(a, b.shape)), self._cell_centre(b)
        alike = np.exp(-np.hypot(*(b - a).T) / self._distance_m)
        both = (self.field(a) + self.field(b)) / np.sqrt(2 + 2 * alike)
        return np.asarray(np.clip(np.round(2 * self._db * both) / 2, -self.most_db, self.most_db))

    def field(self, positions: FloatArray) -> FloatArray:
        """Field [m] at positions [m,2]: mean 0, variance 1."""
        return np.asarray(np.sqrt(2 / WAVES) * np.cos(positions @ self._waves + self._phases).sum(axis=1))

    def table(self) -> tuple[FloatArray, tuple[float, float, float, float]]:
        """Wave numbers and phases [3,w], and deviation, most, distance and side of a cell, for compiled loops."""
        return np.vstack([self._waves, self._phases]), (self._db, self.most_db, self._distance_m, self._cell_m)

    def _cell_centre(self, positions: FloatArray) -> FloatArray:
        return np.asarray((np.floor(positions / self._cell_m) + 0.5) * self._cell_m)
