"""LoRa at 868 MHz: spreading factors 7 to 12, time on air, and the silence that a duty cycle requires."""

from __future__ import annotations

from math import ceil

import numpy as np

from fedmule.radio.link import FloatArray
from fedmule.radio.propagation import Propagation, Shadowing
from fedmule.radio.radios.physical import Mode, PhysicalRadio

# Lowest SNR in dB at which each spreading factor is demodulated (Semtech SX1276 data sheet, table 13).
MIN_SNR_DB = {7: -7.5, 8: -10.0, 9: -12.5, 10: -15.0, 11: -17.5, 12: -20.0}
NOISE_DBM_PER_HZ, NOISE_FIGURE_DB = -174.0, 6.0  # Semtech AN1200.22, section 6
# Longest frames in bytes, headers included, and the headers (LoRaWAN regional parameters RP002, EU863-870).
FRAME_BYTES = {7: 255, 8: 255, 9: 128, 10: 64, 11: 64, 12: 64}
HEADER_BYTES = 13
ACK_DELAY_S = 1.0  # RECEIVE_DELAY1: time from the end of a frame to the start of its acknowledgement


def time_on_air_s(
    size_bytes: int,
    spreading_factor: int,
    bandwidth_hz: float = 125e3,
    coding: int = 1,
    preamble_symbols: int = 8,
    explicit_header: bool = True,
    checked: bool = True,
) -> float:
    """Time on air by Semtech's formula (SX1276 data sheet, 4.1.1.7).

    Symbols longer than 16 ms use low data rate optimisation.
    """
    symbol_s = 2**spreading_factor / bandwidth_hz
    slow = 2 if symbol_s > 0.016 else 0
    bits = 8 * size_bytes - 4 * spreading_factor + 28 + 16 * checked - 20 * (not explicit_header)
    symbols = 8 + max(ceil(bits / (4 * (spreading_factor - slow))) * (coding + 4), 0)
    return float((preamble_symbols + 4.25 + symbols) * symbol_s)


def bit_error_rate(spreading_factor: int, snr_db: FloatArray) -> FloatArray:
    """Bit error rate ½·Q(√(2^(SF+1)·snr) − √(1.386·SF + 1.154)) (Elshabrawy, Robert: IEEE Comm. Lett. 22(9), 2018)."""
    from scipy.special import ndtr

    apart = np.sqrt(2 ** (spreading_factor + 1) * 10 ** (snr_db / 10))
    return np.asarray(ndtr(np.sqrt(1.386 * spreading_factor + 1.154) - apart) / 2)


class Lora(PhysicalRadio):
    """Frames of maximum length, each acknowledged or sent again, with the silence that the duty cycle requires."""

    carrier_mhz = 868.0

    def __init__(
        self,
        range_m: float | None,
        tx_power_dbm: float,
        spreading_factors: tuple[int, ...],
        bandwidth_khz: float,
        duty_cycle: float,
        propagation: Propagation,
        shadowing: Shadowing | None,
        setup_s: float,
        latency_s: float,
    ) -> None:
        self._bandwidth_hz = 1e3 * bandwidth_khz
        self.duty_cycle = duty_cycle
        noise_dbm = NOISE_DBM_PER_HZ + 10 * float(np.log10(self._bandwidth_hz)) + NOISE_FIGURE_DB
        # A symbol carries SF bits, four fifths of them data.
        modes = tuple(
            Mode(f"SF{sf}", 0.8 * sf * self._bandwidth_hz / 2**sf, noise_dbm, MIN_SNR_DB[sf])
            for sf in spreading_factors
        )
        super().__init__(modes, propagation, range_m, tx_power_dbm, shadowing, setup_s=setup_s, latency_s=latency_s)

    def errors(self, mode: Mode, snr_db: FloatArray) -> FloatArray:
        """Error rates [m] of a full frame; the code 4/5 detects errors but corrects none."""
        sf = int(mode.name[2:])
        return np.asarray(-np.expm1(8 * FRAME_BYTES[sf] * np.log1p(-bit_error_rate(sf, snr_db))))

    def mode_goodput_bps(self, mode: Mode, per: FloatArray, distance_m: FloatArray) -> FloatArray:
        """Useful bits per frame while sending; the acknowledgement usually fits into the silence after the frame."""
        sf = int(mode.name[2:])
        frame_s = time_on_air_s(FRAME_BYTES[sf], sf, self._bandwidth_hz)
        acknowledged_s = frame_s + ACK_DELAY_S + time_on_air_s(HEADER_BYTES, sf, self._bandwidth_hz)
        return 8 * (FRAME_BYTES[sf] - HEADER_BYTES) * (1 - per) / max(frame_s, self.duty_cycle * acknowledged_s)
