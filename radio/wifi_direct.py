"""WiFi Direct: 802.11n on 20 MHz at 2.4 GHz, one stream, log-distance path loss."""

from __future__ import annotations

import numpy as np

from radio.link import FloatArray, Ladder, Radio

# HT MCS 0–7, 20 MHz, long guard interval (IEEE 802.11-2020, table 19-27), Mb/s.
PHY_MBPS = np.array([6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0])
# SNR in dB at which the packet error rate of 1,500 bytes falls to 1.2 % (a bit error rate of 1e-6, where ideal
# rate control steps up); read off ns-3.44's HT error tables.
MIN_SNR_DB = np.array([1.46, 4.47, 7.02, 10.39, 13.48, 17.90, 19.18, 20.43])
# Microseconds of air per useful bit of a TCP transfer = FIXED + SCALED / PHY rate, fitted to ns-3.44 transfers of 8 MB.
FIXED_US, SCALED = 0.001908, 1.1704

NOISE_DBM = -173.975 + 10 * np.log10(20e6) + 7.0  # thermal noise over 20 MHz and a noise figure of 7 dB


class WifiDirect(Radio):
    """The rate follows the SNR up the 802.11n ladder; below `cutoff_dbm` nothing is heard.

    Received power is tx_power_dbm − reference_loss_db − 10·exponent·log10(distance) − obstacle losses. `range_m`, if
    given, sets the transmit power so that an unobstructed link just closes there.
    """

    def __init__(
        self,
        range_m: float | None = None,
        tx_power_dbm: float = 16.0,
        exponent: float = 3.0,
        reference_loss_db: float = 46.6777,
        cutoff_dbm: float = -82.0,
        setup_s: float = 3.0,
        latency_s: float = 0.002,
    ) -> None:
        self.setup_s = setup_s
        self.latency_s = latency_s
        self._exponent = exponent
        self._reference_loss_db = reference_loss_db
        self._cutoff_dbm = cutoff_dbm
        self.tx_power_dbm = tx_power_dbm
        if range_m is not None:
            weakest_dbm = max(cutoff_dbm, float(NOISE_DBM + MIN_SNR_DB[0]))
            self.tx_power_dbm = weakest_dbm + float(self.path_loss_db(np.array(range_m)))
        self._ladders: dict[float, Ladder] = {}  # by obstacle loss, of which there are few

    def path_loss_db(self, distance_m: FloatArray) -> FloatArray:
        """Log-distance path loss; the loss at 1 m holds below it."""
        return self._reference_loss_db + 10 * self._exponent * np.log10(np.maximum(distance_m, 1.0))

    def received_dbm(self, distance_m: FloatArray, loss_db: float = 0.0) -> FloatArray:
        return self.tx_power_dbm - self.path_loss_db(distance_m) - loss_db

    def ladder(self, loss_db: float) -> Ladder:
        if loss_db not in self._ladders:
            self._ladders[loss_db] = self._make_ladder(loss_db)
        return self._ladders[loss_db]

    def _make_ladder(self, loss_db: float) -> Ladder:
        needed_dbm = np.maximum(NOISE_DBM + MIN_SNR_DB, self._cutoff_dbm)
        # A hair more than the formula, so that rounding does not cut off a client at exactly the range.
        margin_db = self.received_dbm(np.array(1.0), loss_db) - needed_dbm + 1e-9
        distances = 10 ** (margin_db / (10 * self._exponent))
        best = np.flatnonzero((margin_db >= 0) & (distances > np.append(distances[1:], 0.0)))[::-1]
        return Ladder(distances[best], 1e6 / (FIXED_US + SCALED / PHY_MBPS[best]))
