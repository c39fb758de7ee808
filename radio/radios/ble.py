"""Bluetooth Low Energy 5: the 1M, 2M and coded PHYs, with data in full packets over one connection."""

from __future__ import annotations

import numpy as np

from fedmule.radio.link import FloatArray
from fedmule.radio.propagation import Propagation, Shadowing
from fedmule.radio.radios.physical import Mode, PhysicalRadio

# Typical sensitivity in dBm at a bit error rate of 0.1 %, from the nRF52840 product specification (2.4 GHz radio).
SENSITIVITY_DBM = {"2M": -92.0, "1M": -95.0, "coded_s2": -99.0, "coded_s8": -103.0}
RATE_BPS = {"2M": 2e6, "1M": 1e6, "coded_s2": 500e3, "coded_s8": 125e3}
SENSITIVITY_BER = 1e-3
# Non-coherent frequency-shift keying: bit error rate = ½·exp(−snr/2) (Proakis, Digital Communications). The noise is
# set so that this is 0.1 % at the sensitivity, which includes the coding gain.
MIN_SNR_DB = 10 * np.log10(-2 * np.log(2 * SENSITIVITY_BER))
SPACE_S = 150e-6  # T_IFS between packets (Bluetooth Core 5.4, vol. 6, part B, 4.1.1)
PDU_BYTES = 251  # longest payload of a data packet (vol. 6, part B, 2.4)
HEADER_BYTES = 4 + 3  # L2CAP and attribute protocol, within that payload


def packet_s(mode: str, payload_bytes: int) -> float:
    """Airtime of a data packet (Bluetooth Core 5.4, vol. 6, part B, 2.1 and 2.2)."""
    pdu_and_check_bits = 8 * (2 + payload_bytes + 3)
    if mode.startswith("coded"):
        spread = int(mode[-1])
        first_block_s = (80 + 256 + 16 + 24) * 1e-6  # preamble, address, coding indicator and tail, always with S = 8
        return first_block_s + (pdu_and_check_bits + 3) * spread * 1e-6
    preamble_bits = 16 if mode == "2M" else 8
    return (preamble_bits + 32 + pdu_and_check_bits) / RATE_BPS[mode]


class Ble(PhysicalRadio):
    """Full packets back to back, each acknowledged by an empty one or sent again."""

    def __init__(
        self,
        range_m: float | None,
        tx_power_dbm: float,
        phys: tuple[str, ...],
        propagation: Propagation,
        shadowing: Shadowing | None,
        setup_s: float,
        latency_s: float,
    ) -> None:
        modes = tuple(
            Mode(phy, RATE_BPS[phy], SENSITIVITY_DBM[phy] - float(MIN_SNR_DB), float(MIN_SNR_DB)) for phy in phys
        )
        super().__init__(modes, propagation, range_m, tx_power_dbm, shadowing, setup_s=setup_s, latency_s=latency_s)

    def errors(self, mode: Mode, snr_db: FloatArray) -> FloatArray:
        """Error rates [m] of a full packet: address, header, payload and checksum."""
        bit_error_rate = np.exp(-(10 ** (snr_db / 10)) / 2) / 2
        return np.asarray(-np.expm1(8 * (4 + 2 + PDU_BYTES + 3) * np.log1p(-bit_error_rate)))

    def mode_goodput_bps(self, mode: Mode, per: FloatArray, distance_m: FloatArray) -> FloatArray:
        """Useful bits per cycle of packet, space, empty acknowledgement and space; lost packets are sent again."""
        cycle_s = packet_s(mode.name, PDU_BYTES) + packet_s(mode.name, 0) + 2 * SPACE_S
        return 8 * (PDU_BYTES - HEADER_BYTES) * (1 - per) / cycle_s
