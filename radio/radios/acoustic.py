"""Acoustic modems under water: spreading and absorption, ambient noise, and a significant propagation delay."""

from __future__ import annotations

import numpy as np

from fedmule.radio.link import FloatArray
from fedmule.radio.propagation import Shadowing, UnderWater
from fedmule.radio.radios.physical import Mode, PhysicalRadio

SOUND_MPS = 1500.0
# PSK modes of the WHOI Micro-Modem (Freitag et al., OCEANS 2005): data rates in b/s, and the number of frames in a
# packet, which are acknowledged together, with the bytes of each.
RATE_BPS = {"psk1": 250.0, "psk2": 500.0, "psk3": 1200.0, "psk5": 5300.0}
FRAMES = {"psk1": (3, 64), "psk2": (3, 64), "psk3": (2, 256), "psk5": (8, 256)}
# QPSK: bit error rate Q(√(2·Eb/N0)); the coding gain is assumed to cancel the loss by echoes. At this Eb/N0, 95 % of
# frames of 256 bytes are lost.
MIN_EB_N0_DB = 6.45
ACK_BYTES = 9  # assumed
PREAMBLE_S = 0.3  # the Micro-Modem's probe and silence before a packet
TURNAROUND_S = 0.1  # from receiving to sending, assumed


def noise_db_per_hz(frequency_khz: float, shipping: float = 0.5, wind_mps: float = 5.0) -> float:
    """Ambient noise in dB re 1 µPa²/Hz: turbulence, shipping, wind and thermal (Coates; Stojanovic, WUWNet 2006)."""
    f = frequency_khz
    parts_db = np.array(
        [
            17 - 30 * np.log10(f),
            40 + 20 * (shipping - 0.5) + 26 * np.log10(f) - 60 * np.log10(f + 0.03),
            50 + 7.5 * np.sqrt(wind_mps) + 20 * np.log10(f) - 40 * np.log10(f + 0.4),
            -15 + 20 * np.log10(f),
        ]
    )
    return float(10 * np.log10((10 ** (parts_db / 10)).sum()))


class Acoustic(PhysicalRadio):
    """Packets of frames, acknowledged after the round trip; lost frames are sent again.

    Levels are in dB re 1 µPa, that of the source at 1 m.
    """

    level = "dB re 1 µPa"

    def __init__(
        self,
        range_m: float | None,
        source_level_db: float,
        frequency_khz: float,
        bandwidth_khz: float,
        spreading: float,
        shipping: float,
        wind_mps: float,
        shadowing: Shadowing | None,
        setup_s: float,
        latency_s: float,
    ) -> None:
        self._bandwidth_hz = 1e3 * bandwidth_khz
        noise_db = noise_db_per_hz(frequency_khz, shipping, wind_mps) + 10 * float(np.log10(self._bandwidth_hz))
        modes = tuple(
            Mode(name, bps, noise_db, MIN_EB_N0_DB + 10 * float(np.log10(bps / self._bandwidth_hz)))
            for name, bps in RATE_BPS.items()
        )
        path = UnderWater(frequency_khz, spreading)
        super().__init__(modes, path, range_m, source_level_db, shadowing, setup_s=setup_s, latency_s=latency_s)

    def delay_s(self, distance_m: FloatArray) -> FloatArray:
        """Latency and the travel time of sound, s [m]."""
        return self.latency_s + distance_m / SOUND_MPS

    def errors(self, mode: Mode, snr_db: FloatArray) -> FloatArray:
        """Error rates [m] of one frame, with Eb/N0 = snr·bandwidth/rate."""
        from scipy.special import ndtr

        bit_error_rate = ndtr(-np.sqrt(2 * 10 ** (snr_db / 10) * self._bandwidth_hz / mode.phy_bps))
        return np.asarray(-np.expm1(8 * FRAMES[mode.name][1] * np.log1p(-bit_error_rate)))

    def mode_goodput_bps(self, mode: Mode, per: FloatArray, distance_m: FloatArray) -> FloatArray:
        """Useful bits of a packet per packet, acknowledgement and round trip."""
        sent_bits = 8 * FRAMES[mode.name][0] * FRAMES[mode.name][1]
        round_trip_s = 2 * (PREAMBLE_S + TURNAROUND_S + distance_m / SOUND_MPS)
        return sent_bits * (1 - per) / ((sent_bits + 8 * ACK_BYTES) / mode.phy_bps + round_trip_s)
