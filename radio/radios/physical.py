"""Radios with a link budget: from distance to received power, SNR, rate, errors, retransmissions and goodput."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmule.radio.budget import Budget
from fedmule.radio.link import FloatArray, Ladder, Radio
from fedmule.radio.propagation import FARTHEST_M, Propagation, Shadowing, nakagami

THERMAL_DBM_PER_HZ = -173.975  # Boltzmann's constant times 290 K
GRID = 1.01  # ratio of adjacent distances at which a ladder is computed
STEP = 0.1  # largest relative change of a mode's goodput within a step of a ladder, which has the goodput of its middle
FADES = (np.arange(64) + 0.5) / 64  # quantiles of the equally likely gains over which fading is averaged


@dataclass(frozen=True)
class Mode:
    """A combination of modulation, code and spreading factor."""

    name: str
    phy_bps: float
    noise_dbm: float  # in its bandwidth, including the receiver's
    min_snr_db: float  # there is no link below this


class PhysicalRadio(Radio):
    """Base class of radios with a link budget; the usable mode with the highest goodput is used.

    Received power is tx_power_dbm − path loss − obstruction. `range_m`, if given, sets the transmit power so that the
    mean unobstructed link just closes there. Subclass and override `errors` and `mode_goodput_bps`.
    """

    carrier_mhz = 2400.0  # for propagation models that name no other

    def __init__(
        self,
        modes: tuple[Mode, ...],
        propagation: Propagation,
        range_m: float | None,
        tx_power_dbm: float,
        shadowing: Shadowing | None = None,
        cutoff_dbm: float = -np.inf,
        setup_s: float = 0.0,
        latency_s: float = 0.0,
    ) -> None:
        self.modes = modes
        self.setup_s = setup_s
        self.latency_s = latency_s
        self.tx_power_dbm = tx_power_dbm
        self._propagation = propagation.at_carrier(self.carrier_mhz)
        self.shadowing = shadowing
        self._noise_dbm = np.array([mode.noise_dbm for mode in modes])
        self._needed_dbm = np.maximum(self._noise_dbm + [mode.min_snr_db for mode in modes], cutoff_dbm)
        if range_m is not None:
            self.tx_power_dbm = float(self._needed_dbm.min()) + float(self.path_loss_db(np.array(range_m)))
        self._ladders: dict[float, Ladder] = {}  # by loss; few values occur

    def errors(self, mode: Mode, snr_db: FloatArray) -> FloatArray:
        """Packet error rates [m] of a mode at these SNRs [m]."""
        raise NotImplementedError

    def mode_goodput_bps(self, mode: Mode, per: FloatArray, distance_m: FloatArray) -> FloatArray:
        """Useful bits per second [m] while sending in a mode, at packet error rates [m], net of retransmissions."""
        raise NotImplementedError

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        """Mean path loss [m] at these distances [m]."""
        return self._propagation.path_loss_db(distance_m)

    def received_dbm(self, distance_m: FloatArray, loss_db: float = 0.0) -> FloatArray:
        """Mean received power [m] at these distances [m] with `loss_db` of obstruction."""
        return self.tx_power_dbm - self.path_loss_db(distance_m) - loss_db

    def budget(self, distance_m: FloatArray, loss_db: float = 0.0) -> Budget:
        """Link budget at these distances [m] with `loss_db` of obstruction."""
        received_dbm = self.received_dbm(distance_m, loss_db)
        usable = received_dbm + 2e-9 >= self._needed_dbm[:, None]
        per, goodput = np.ones(usable.shape), np.zeros(usable.shape)
        for k, mode in enumerate(self.modes):
            here = usable[k]
            per[k, here] = self._mean_errors(mode, received_dbm[here] - mode.noise_dbm, distance_m[here])
            goodput[k, here] = self.mode_goodput_bps(mode, per[k, here], distance_m[here])
        best = np.where(usable.any(axis=0), goodput.argmax(axis=0), self._needed_dbm.argmin())
        linked = np.take_along_axis(usable, best[None], axis=0)[0]
        rate = np.where(linked, np.array([mode.phy_bps for mode in self.modes])[best], 0.0)
        return Budget(
            distance_m=distance_m,
            path_loss_db=self.path_loss_db(distance_m) + loss_db,
            received_dbm=received_dbm,
            snr_db=received_dbm - self._noise_dbm[best],
            mode=tuple(self.modes[k].name if there else "" for k, there in zip(best, linked, strict=True)),
            rate_bps=rate,
            per=np.take_along_axis(per, best[None], axis=0)[0],
            goodput_bps=self.duty_cycle * np.take_along_axis(goodput, best[None], axis=0)[0],
        )

    def ladder(self, loss_db: float) -> Ladder:
        """Goodput by distance, in steps within which it changes by at most a tenth."""
        if loss_db not in self._ladders:
            self._ladders[loss_db] = self._make_ladder(loss_db)
        return self._ladders[loss_db]

    @property
    def farthest_m(self) -> float:
        """Reach of a link with the most favourable shadowing."""
        luck_db = self.shadowing.most_db if self.shadowing else 0.0
        distances_m = self.ladder(-luck_db).distances_m
        return float(distances_m[-1]) if len(distances_m) else 0.0

    def _mean_errors(self, mode: Mode, snr_db: FloatArray, distance_m: FloatArray) -> FloatArray:
        """Packet error rates [m] of a mode, averaged over fading if there is any."""
        m = self._propagation.fading_m(distance_m)
        if m is None:
            return self.errors(mode, snr_db)
        gains_db = {shape: 10 * np.log10(nakagami(FADES, shape)) for shape in np.unique(m)}
        per = np.empty(len(m))
        for shape, gain_db in gains_db.items():
            same = m == shape
            faded = (snr_db[same, None] + gain_db).ravel()
            per[same] = self.errors(mode, faded).reshape(-1, len(FADES)).mean(axis=1)
        return per

    def _make_ladder(self, loss_db: float) -> Ladder:
        near = self._propagation.nearest_m
        # Slightly more than the formula, so that rounding does not exclude a client at exactly the range.
        margin_db = self.received_dbm(np.array(near), loss_db) - self._needed_dbm + 1e-9
        if not (margin_db >= 0).any():
            return Ladder(np.empty(0), np.empty(0))
        # Distances at which the link of each mode closes.
        closing = np.minimum(self._propagation.distance_m(margin_db[margin_db >= 0]), FARTHEST_M)
        grid = near * GRID ** np.arange(1, np.ceil(np.log(closing.max() / near) / np.log(GRID)))
        edges = np.unique(np.concatenate([closing, grid[grid < closing.max()]]))
        middles = np.sqrt(edges * np.concatenate([[near], edges[:-1]]))
        budget = self.budget(middles, loss_db)
        rates = budget.goodput_bps / self.duty_cycle
        starts = [0]
        for k, (rate, mode) in enumerate(zip(rates, budget.mode, strict=True)):
            first = starts[-1]
            if mode != budget.mode[first] or abs(rate - rates[first]) > STEP * rates[first]:
                starts.append(k)
        ends = np.array([*starts[1:], len(rates)]) - 1
        return Ladder(edges[ends], rates[(starts + ends) // 2])
