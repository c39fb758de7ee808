"""WiFi Direct: 802.11n on 20 MHz at 2.4 GHz, or 802.11ac on 80 MHz at 5 GHz, with one stream."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedmule.radio.link import FloatArray
from fedmule.radio.propagation import Propagation, Shadowing
from fedmule.radio.radios.physical import THERMAL_DBM_PER_HZ, Mode, PhysicalRadio

# One stream, long guard interval, Mb/s: HT MCS 0–7 on 20 MHz and VHT MCS 0–9 on 80 MHz (IEEE 802.11-2020, 19.5 and
# 21.5).
PHY_MBPS = {
    "n": np.array([6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0]),
    "ac": np.array([29.3, 58.5, 87.8, 117.0, 175.5, 234.0, 263.3, 292.5, 351.0, 390.0]),
}
BANDWIDTH_HZ = {"n": 20e6, "ac": 80e6}
CARRIER_MHZ = {"n": 2400.0, "ac": 5180.0}
# SNR in dB at which the packet error rate of 1,500 bytes falls to 1.2 % (a bit error rate of 1e-6, at which ideal rate
# control steps up), from the HT error tables of ns-3.44. MCS 8 and 9 are as far above MCS 7 as the minimum
# sensitivities of the standard (IEEE 802.11-2020, 21.3.18.1).
MIN_SNR_DB = np.array([1.46, 4.47, 7.02, 10.39, 13.48, 17.90, 19.18, 20.43, 25.43, 27.43])
MIN_SNR_PER = 0.012
# How steeply errors fall with the SNR, fitted to the same tables: 1,500 bytes suffer on average
# −ln(1 − 1.2 %)·exp(STEEP·(1 − snr/min_snr)) uncorrected errors.
STEEP = np.array([17.1, 17.0, 16.0, 14.1, 12.3, 11.8, 12.6, 13.0, 13.0, 13.0])
# Microseconds of airtime per useful bit of a TCP transfer = FIXED + SCALED / PHY rate, fitted to ns-3.44 transfers of
# 8 MB over 802.11n, including the packet errors of ideal rate control.
FIXED_US, SCALED = 0.001908, 1.1704

NOISE_FIGURE_DB = 7.0  # ns-3's default for WiFi


class WifiDirect(PhysicalRadio):
    """802.11n or ac with a rate that follows the SNR; below `cutoff_dbm` nothing is received."""

    def __init__(
        self,
        range_m: float | None,
        tx_power_dbm: float,
        cutoff_dbm: float,
        setup_s: float,
        latency_s: float,
        standard: Literal["n", "ac"],
        propagation: Propagation,
        shadowing: Shadowing | None,
    ) -> None:
        noise_dbm = THERMAL_DBM_PER_HZ + 10 * np.log10(BANDWIDTH_HZ[standard]) + NOISE_FIGURE_DB
        modes = tuple(
            Mode(f"MCS{k}", 1e6 * float(mbps), noise_dbm, float(MIN_SNR_DB[k]))
            for k, mbps in enumerate(PHY_MBPS[standard])
        )
        self.carrier_mhz = CARRIER_MHZ[standard]
        super().__init__(modes, propagation, range_m, tx_power_dbm, shadowing, cutoff_dbm, setup_s, latency_s)

    def errors(self, mode: Mode, snr_db: FloatArray) -> FloatArray:
        """Error rates [m] of packets of 1,500 bytes."""
        above = 1 - 10 ** ((snr_db - mode.min_snr_db) / 10)
        return np.asarray(-np.expm1(np.log1p(-MIN_SNR_PER) * np.exp(STEEP[self.modes.index(mode)] * above)))

    def mode_goodput_bps(self, mode: Mode, per: FloatArray, distance_m: FloatArray) -> FloatArray:
        """Goodput of the fit; packets lost beyond the errors included in it are sent again."""
        return 1e6 / (FIXED_US + SCALED / (mode.phy_bps / 1e6)) * (1 - np.maximum(per - MIN_SNR_PER, 0.0))
