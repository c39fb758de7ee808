"""How a signal weakens on its way: path losses, fading, and shadowing that belongs to positions."""

from __future__ import annotations

import numpy as np

from fedmule.mobility.models.movement import Draw
from fedmule.radio.link import FloatArray

LIGHT_MPS = 299_792_458.0
FARTHEST_M = 1e9  # nothing is looked for beyond
WAVES = 256  # plane waves that make up a field of shadowing
CELLS = 5  # squares per correlation distance; within one the shadowing is the same
MOST_SHADOW = 3.0  # standard deviations at which shadowing is cut off

# --- path losses in dB over distances in metres --------------------------------------------------------------


def friis(distance_m: FloatArray, frequency_hz: float) -> FloatArray:
    """Free space: 20·log10(4π·d·f/c), never below 0."""
    near = LIGHT_MPS / (4 * np.pi * frequency_hz)
    return 20 * np.log10(np.maximum(distance_m, near) / near)


def log_distance(
    distance_m: FloatArray, exponent: float = 3.0, reference_loss_db: float = 46.6777, reference_m: float = 1.0
) -> FloatArray:
    """reference_loss_db + 10·exponent·log10(d/reference_m); the loss at reference_m holds below it."""
    return reference_loss_db + 10 * exponent * np.log10(np.maximum(distance_m / reference_m, 1.0))


def two_ray(distance_m: FloatArray, frequency_hz: float, height_m: tuple[float, float] = (1.5, 1.5)) -> FloatArray:
    """Ground reflection: d⁴/(h₁²·h₂²) beyond the crossover 4π·h₁·h₂/λ, free space up to it."""
    crossover_m = 4 * np.pi * height_m[0] * height_m[1] * frequency_hz / LIGHT_MPS
    beyond = 40 * np.log10(np.maximum(distance_m, crossover_m)) - 20 * np.log10(height_m[0] * height_m[1])
    return np.where(distance_m <= crossover_m, friis(distance_m, frequency_hz), beyond)


def three_log_distance(
    distance_m: FloatArray,
    distances_m: tuple[float, float, float] = (1.0, 200.0, 500.0),
    exponents: tuple[float, float, float] = (1.9, 3.8, 3.8),
    reference_loss_db: float = 46.6777,
) -> FloatArray:
    """Log-distance with an exponent of its own from each of three distances on; the loss at the first holds below."""
    loss_db = np.full(np.shape(distance_m), reference_loss_db)
    for start, end, exponent in zip(distances_m, (*distances_m[1:], np.inf), exponents, strict=True):
        loss_db = loss_db + 10 * exponent * np.log10(np.clip(distance_m, start, end) / start)
    return loss_db


def thorp_db_per_km(frequency_khz: float) -> float:
    """Absorption in sea water: Thorp's formula, in dB per km with f in kHz (Stojanovic, WUWNet 2006)."""
    f2 = frequency_khz**2
    if frequency_khz < 0.4:
        return 0.002 + 0.11 * f2 / (1 + f2) + 0.011 * f2
    return 0.11 * f2 / (1 + f2) + 44 * f2 / (4100 + f2) + 2.75e-4 * f2 + 0.003


def under_water(distance_m: FloatArray, frequency_khz: float, spreading: float = 1.5) -> FloatArray:
    """10·spreading·log10(d) + absorption; the loss at 1 m holds below it."""
    away = np.maximum(distance_m, 1.0)
    return 10 * spreading * np.log10(away) + away / 1000 * thorp_db_per_km(frequency_khz)


# --- fading --------------------------------------------------------------------------------------------------


def nakagami_m(
    distance_m: FloatArray,
    m: tuple[float, float, float] = (1.5, 0.75, 0.75),
    from_m: tuple[float, float] = (80.0, 200.0),
) -> FloatArray:
    """Nakagami's shape by distance: the first below from_m[0], the second below from_m[1], then the third."""
    return np.asarray(m)[np.searchsorted(from_m, distance_m, side="right")]


def nakagami(uniform: FloatArray, m: FloatArray | float) -> FloatArray:
    """Power gains of Nakagami-m fading from uniform draws in (0,1): gamma distributed, mean 1, variance 1/m."""
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(m, uniform) / m)


# --- the models a scenario can choose --------------------------------------------------------------------------


class Propagation:
    """Base of the propagation models. One of one's own overrides `path_loss_db`, which must grow with distance."""

    nearest_m = 1.0  # the loss here holds below it

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        """Mean path loss."""
        raise NotImplementedError

    def fading_m(self, distance_m: FloatArray) -> FloatArray | None:
        """Nakagami's shape [m] at these distances, or None where nothing fades."""
        return None

    def distance_m(self, more_db: FloatArray) -> FloatArray:
        """Where the loss is that much more than at nearest_m."""
        target = self.path_loss_db(np.array(self.nearest_m)) + more_db
        low = np.full(np.shape(more_db), np.log(self.nearest_m))
        high = np.full(np.shape(more_db), np.log(FARTHEST_M))
        for _ in range(64):  # bisection down to neighbouring numbers
            middle = (low + high) / 2
            nearer = self.path_loss_db(np.exp(middle)) <= target
            low, high = np.where(nearer, middle, low), np.where(nearer, high, middle)
        return np.exp(low)


class Friis(Propagation):
    """Free space."""

    def __init__(self, frequency_mhz: float) -> None:
        self._frequency_hz = frequency_mhz * 1e6
        self.nearest_m = LIGHT_MPS / (4 * np.pi * self._frequency_hz)

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        return friis(distance_m, self._frequency_hz)


class LogDistance(Propagation):
    """A loss at 1 m and an exponent."""

    def __init__(self, exponent: float = 3.0, reference_loss_db: float = 46.6777) -> None:
        self._exponent = exponent
        self._reference_loss_db = reference_loss_db

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        return log_distance(distance_m, self._exponent, self._reference_loss_db)

    def distance_m(self, more_db: FloatArray) -> FloatArray:
        return np.asarray(10 ** (more_db / (10 * self._exponent)))


class TwoRay(Friis):
    """Free space, and beyond the crossover the ground's reflection."""

    def __init__(self, frequency_mhz: float, height_m: tuple[float, float] = (1.5, 1.5)) -> None:
        super().__init__(frequency_mhz)
        self._height_m = height_m

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        return two_ray(distance_m, self._frequency_hz, self._height_m)


class ThreeLogDistance(Propagation):
    """An exponent of its own from each of three distances on."""

    def __init__(
        self,
        distances_m: tuple[float, float, float] = (1.0, 200.0, 500.0),
        exponents: tuple[float, float, float] = (1.9, 3.8, 3.8),
        reference_loss_db: float = 46.6777,
    ) -> None:
        self._distances_m = distances_m
        self._exponents = exponents
        self._reference_loss_db = reference_loss_db
        self.nearest_m = distances_m[0]

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        return three_log_distance(distance_m, self._distances_m, self._exponents, self._reference_loss_db)


class Nakagami(LogDistance):
    """Log-distance in the mean; every frame fades anew."""

    def __init__(
        self,
        exponent: float = 3.0,
        reference_loss_db: float = 46.6777,
        m: tuple[float, float, float] = (1.5, 0.75, 0.75),
        from_m: tuple[float, float] = (80.0, 200.0),
    ) -> None:
        super().__init__(exponent, reference_loss_db)
        self._m = m
        self._from_m = from_m

    def fading_m(self, distance_m: FloatArray) -> FloatArray:
        return nakagami_m(distance_m, self._m, self._from_m)


class UnderWater(Propagation):
    """Spreading, and Thorp's absorption."""

    def __init__(self, frequency_khz: float, spreading: float = 1.5) -> None:
        self._frequency_khz = frequency_khz
        self._spreading = spreading

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        return under_water(distance_m, self._frequency_khz, self._spreading)


# --- shadowing -----------------------------------------------------------------------------------------------


class Shadowing:
    """Log-normal shadowing that belongs to positions: a position that is good stays good, and so are those around it.

    A Gaussian field with correlation exp(−d/distance_m) (Gudmundson, 1991) as a sum of random plane waves, held
    constant within squares of distance_m/5. A link's shadowing is the sum of the field at its ends, scaled to the
    standard deviation `db`, in half decibels, and cut off at three standard deviations.
    """

    def __init__(self, db: float, distance_m: float, draw: Draw) -> None:
        waves = np.arange(WAVES)
        radius, angle, phase = draw(waves, np.zeros_like(waves), 3).T
        # The field's spectrum in the plane is (1 + (k·distance)²)^(−3/2); this is its radius' inverse distribution.
        wave_number = np.sqrt((1 - radius) ** -2 - 1) / distance_m
        self._waves = wave_number * np.stack([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)])  # [2,waves]
        self._phases = 2 * np.pi * phase
        self._db = db
        self._distance_m = distance_m
        self._cell_m = distance_m / CELLS
        self.most_db = MOST_SHADOW * db

    def loss_db(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Losses [m] of the links between a ([2] or [m,2]) and b [m,2]; negative where better than the mean."""
        a, b = self._cell_centre(np.broadcast_to(a, b.shape)), self._cell_centre(b)
        alike = np.exp(-np.hypot(*(b - a).T) / self._distance_m)
        both = (self.field(a) + self.field(b)) / np.sqrt(2 + 2 * alike)
        return np.clip(np.round(2 * self._db * both) / 2, -self.most_db, self.most_db)

    def field(self, positions: FloatArray) -> FloatArray:
        """The field [m] at positions [m,2]: mean 0, variance 1."""
        return np.sqrt(2 / WAVES) * np.cos(positions @ self._waves + self._phases).sum(axis=1)

    def changes(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Shares of the way start→end, in (0,1), where a link to one who walks it may change."""
        shares = [np.empty(0)]
        for here, there in zip(start / self._cell_m, end / self._cell_m, strict=True):
            borders = np.arange(np.ceil(min(here, there)), np.floor(max(here, there)) + 1)
            shares.append((borders - here) / (there - here) if there != here else np.empty(0))
        found = np.concatenate(shares)
        return found[(found > 0) & (found < 1)]

    def _cell_centre(self, positions: FloatArray) -> FloatArray:
        return (np.floor(positions / self._cell_m) + 0.5) * self._cell_m
