"""Zigbee: IEEE 802.15.4 at 2.4 GHz, O-QPSK at 250 kb/s, unslotted CSMA-CA with acknowledgements."""

from __future__ import annotations

from math import comb

import numpy as np

from fedmule.radio.link import FloatArray
from fedmule.radio.propagation import Propagation, Shadowing
from fedmule.radio.radios.physical import THERMAL_DBM_PER_HZ, Mode, PhysicalRadio

PHY_BPS = 250e3  # IEEE 802.15.4-2020, clause 12; the times below from its MAC and PHY constants
SYMBOL_S = 16e-6
BACKOFF_S = 20 * SYMBOL_S  # aUnitBackoffPeriod
MEAN_BACKOFFS = (2**3 - 1) / 2  # of the first attempt: 0 to 2^macMinBe − 1
CCA_S = 8 * SYMBOL_S  # listening before sending
TURNAROUND_S = 12 * SYMBOL_S  # aTurnaroundTime
ACK_WAIT_S = 54 * SYMBOL_S  # macAckWaitDuration
LONG_SPACE_S = 40 * SYMBOL_S  # macLifsPeriod, after a long frame
PAYLOAD_BYTES = 100
FRAME_BYTES = 6 + 9 + PAYLOAD_BYTES + 2  # preamble to length; header with short addresses; payload; checksum
ACK_BYTES = 6 + 5
# Noise over the channel spacing of 5 MHz with an ideal receiver, as in ns-3.44, where 30 kB took 2.75 s at 105 m and
# 41 s at 116 m; these figures give 2.64 s and 45 s.
NOISE_DBM = THERMAL_DBM_PER_HZ + 10 * np.log10(5e6)
MIN_SNR_DB = -1.65  # at which 95 % of frames are lost


def bit_error_rate(snr: FloatArray) -> FloatArray:
    """Bit error rate 1/30·Σₖ₌₂¹⁶ (−1)ᵏ·C(16,k)·exp(20·snr·(1/k − 1)), snr as a ratio (IEEE 802.15.4-2006, E.4.1)."""
    terms = ((-1) ** k * comb(16, k) * np.exp(20 * snr * (1 / k - 1)) for k in range(2, 17))
    return np.asarray(sum(terms) / np.array(30.0))


def packet_error_rate(snr_db: FloatArray, size_bytes: int = FRAME_BYTES) -> FloatArray:
    """Packet error rate 1 − (1 − bit error rate)^bits."""
    return np.asarray(-np.expm1(8 * size_bytes * np.log1p(-bit_error_rate(10 ** (snr_db / 10)))))


class Zigbee(PhysicalRadio):
    """Frames of 100 bytes, each acknowledged or sent again."""

    def __init__(
        self,
        range_m: float | None,
        tx_power_dbm: float,
        propagation: Propagation,
        shadowing: Shadowing | None,
        setup_s: float,
        latency_s: float,
    ) -> None:
        modes = (Mode("O-QPSK", PHY_BPS, float(NOISE_DBM), MIN_SNR_DB),)
        super().__init__(modes, propagation, range_m, tx_power_dbm, shadowing, setup_s=setup_s, latency_s=latency_s)

    def errors(self, mode: Mode, snr_db: FloatArray) -> FloatArray:
        """Error rates [m] of a full frame."""
        return packet_error_rate(snr_db)

    def mode_goodput_bps(self, mode: Mode, per: FloatArray, distance_m: FloatArray) -> FloatArray:
        """Useful bits per frame, over the expected number of failed attempts and one that is acknowledged."""
        sent_s = MEAN_BACKOFFS * BACKOFF_S + CCA_S + TURNAROUND_S + 8 * FRAME_BYTES / PHY_BPS
        success_s = sent_s + TURNAROUND_S + 8 * ACK_BYTES / PHY_BPS + LONG_SPACE_S
        failure_s = sent_s + ACK_WAIT_S
        acknowledged = (1 - per) ** (1 + ACK_BYTES / FRAME_BYTES)  # bits of both must get through
        return 8 * PAYLOAD_BYTES / (success_s + (1 / acknowledged - 1) * failure_s)
