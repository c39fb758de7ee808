"""Figures of the radios at various distances, sizes and settings, each computed a second time independently."""

from decimal import Decimal, getcontext
from math import comb

import numpy as np
import pytest
from making import Acoustic, Ble, LogDistance, Lora, Nakagami, ThreeLogDistance, TwoRay, WifiDirect, Zigbee
from scipy import stats

from fedmule.radio.propagation import Shadowing, nakagami, thorp_db_per_km
from fedmule.radio.radios.acoustic import noise_db_per_hz
from fedmule.radio.radios.lora import time_on_air_s
from fedmule.radio.radios.physical import FADES
from fedmule.radio.radios.zigbee import packet_error_rate
from fedmule.simulator.streams import Streams

getcontext().prec = 60


def budget(radio, *distances):
    return radio.budget(np.array(distances, dtype=float))


# --- propagation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [1.6, 2.0, 2.7, 3.5, 5.0])
def test_ranges_follow_from_power_and_exponent(exponent):
    """d = 10^((P − L₁ − sensitivity) / 10n): −82 dBm for WiFi, −103 for coded Bluetooth, SF12 for LoRa."""
    path = LogDistance(exponent, 41.0)
    assert WifiDirect(tx_power_dbm=11.0, propagation=path).range_m == pytest.approx(
        10 ** ((11 - 41 + 82) / 10 / exponent)
    )
    assert Ble(tx_power_dbm=8.0, propagation=path).range_m == pytest.approx(10 ** ((8 - 41 + 103) / 10 / exponent))
    sensitivity = -174 + 10 * np.log10(125e3) + 6 - 20
    assert Lora(propagation=path).range_m == pytest.approx(10 ** ((14 - 41 - sensitivity) / 10 / exponent))


@pytest.mark.parametrize("mhz", [433.0, 868.0, 2400.0, 5180.0])
@pytest.mark.parametrize("heights", [(1.0, 1.0), (1.5, 6.0), (0.3, 30.0)])
def test_two_ray_in_watts(mhz, heights):
    """Pr/Pt = (λ/4πd)² up to 4π·h₁h₂/λ, then h₁²h₂²/d⁴; the larger loss of the two beyond it, the same at it."""
    wave = 299.792458 / mhz
    crossover = 4 * np.pi * heights[0] * heights[1] / wave
    for d in crossover * np.array([0.3, 0.999, 1.001, 5.0]):
        near, far = (wave / (4 * np.pi * d)) ** 2, (heights[0] * heights[1]) ** 2 / d**4
        loss = TwoRay(mhz, heights).path_loss_db(np.array(max(d, 0.1)))
        if d > 0.1:
            assert loss == pytest.approx(-10 * np.log10(near if d < crossover else far), abs=1e-9)


def test_three_segments_add_up():
    """46.6777 dB at 1 m, 19 dB a decade up to 200 m, 38 from there, computed segment by segment."""
    model = ThreeLogDistance(reference_loss_db=46.6777)
    at_200 = 46.6777 + 19 * np.log10(200)
    expected = {
        17.0: 46.6777 + 19 * np.log10(17),
        333.0: at_200 + 38 * np.log10(1.665),
        4000.0: at_200 + 38 * np.log10(20),
    }
    for d, loss in expected.items():
        assert model.path_loss_db(np.array(d)) == pytest.approx(loss, abs=1e-9)


@pytest.mark.parametrize("m", [0.5, 0.75, 1.0, 1.5, 3.0])
def test_fades_are_gamma_distributed(m):
    law = stats.gamma(m, scale=1 / m)
    for p in (0.01, 0.1, 0.5, 0.9, 0.999):
        assert law.cdf(nakagami(np.array([p]), m)[0]) == pytest.approx(p, rel=1e-6)
    # As frames are averaged over: mean power that of the distance law to 0.1 dB.
    assert abs(10 * np.log10(nakagami(FADES, m).mean())) < 0.1


def test_fading_loses_frames_below_the_threshold():
    """Rayleigh: a frame with a sharp threshold s₀ is lost with probability 1 − exp(−s₀/s)."""
    path = Nakagami(2.5, 40.0, m=(1.0, 1.0, 1.0))
    radio = WifiDirect(tx_power_dbm=0.0, propagation=path, cutoff_dbm=-200.0)
    at = budget(radio, 30.0)
    mode = radio.modes[0]
    per = radio._mean_errors(mode, np.array([20.0]), np.array([30.0]))[0]
    thresholds = np.linspace(-6, 6, 2001)
    half = thresholds[np.argmax(radio.errors(mode, thresholds) < 0.5)]
    assert per == pytest.approx(1 - np.exp(-(10 ** ((half - 20) / 10))), abs=0.006)
    assert at.path_loss_db[0] == pytest.approx(40 + 25 * np.log10(30))


@pytest.mark.parametrize("distance_m", [10.0, 50.0])
def test_shadowing_of_links_by_distance_moved(distance_m):
    """One end stays far away while the other moves by d: the correlation of the link is (1 + exp(−d/D)) / 2."""
    here, fixed = np.random.default_rng(3).uniform(0, 5000, (2, 300, 2))
    fixed += 1e5
    for d in (0.4, 1.5):
        moved = here + d * distance_m * np.array([0.6, 0.8])
        fields = [Shadowing(5.0, distance_m, Streams(seed).draw("shadowing")) for seed in range(80)]
        a, b = (np.concatenate([f.loss_db(fixed, xy) for f in fields]) for xy in (here, moved))
        assert a.std() == pytest.approx(5, rel=0.05)
        assert np.corrcoef(a, b)[0, 1] == pytest.approx((1 + np.exp(-d)) / 2, abs=0.05)


# --- 802.15.4 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size_bytes", [11, 20, 60, 127])
def test_zigbee_errors_to_many_digits(size_bytes):
    for snr_db in np.arange(-6.0, 8.0, 0.7):
        snr = Decimal(float(10 ** (snr_db / 10)))
        terms = [(-1) ** k * comb(16, k) * (20 * snr * (1 / Decimal(k) - 1)).exp() for k in range(2, 17)]
        ber = sum(terms) * 8 / 15 / 16
        expected = 1 - (1 - ber) ** (8 * size_bytes)
        assert packet_error_rate(np.array([snr_db]), size_bytes)[0] == pytest.approx(
            float(expected), rel=1e-6, abs=1e-30
        )


def test_zigbee_goodput_symbol_by_symbol():
    """100 bytes: back-off 3.5·20, sensing 8, turn 12, 117 bytes of 2 symbols, turn 12, acknowledgement 22, space 40."""
    symbols = 70 + 8 + 12 + 2 * 117 + 12 + 2 * 11 + 40
    assert budget(Zigbee(), 5.0).goodput_bps[0] == pytest.approx(800 / (symbols * 16e-6), rel=1e-9)
    for dbm, exponent in ((-5.0, 2.2), (10.0, 3.4)):
        radio = Zigbee(tx_power_dbm=dbm, propagation=LogDistance(exponent, 40.2))
        noise = 10 * np.log10(1.380649e-23 * 290 * 5e6 * 1e3)
        assert radio.range_m == pytest.approx(10 ** ((dbm - 40.2 - noise + 1.65) / 10 / exponent), rel=2e-3)


# --- Bluetooth ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phy", "microseconds"),
    [
        ("1M", 8 * (1 + 4 + 2 + 251 + 3) + 150 + 80 + 150),
        ("2M", 4 * (2 + 4 + 2 + 251 + 3) + 150 + 44 + 150),
        ("coded_s2", 376 + 2 * (8 * 256 + 3) + 150 + 376 + 2 * 43 + 150),
        ("coded_s8", 376 + 8 * (8 * 256 + 3) + 150 + 376 + 8 * 43 + 150),
    ],
)
def test_bluetooth_throughput_of_full_packets(phy, microseconds):
    """244 useful bytes of a payload of 251, acknowledged by an empty packet: 791 kb/s over 1M, 1,402 over 2M."""
    assert budget(Ble(phys=(phy,)), 1.0).goodput_bps[0] == pytest.approx(8 * 244 / microseconds * 1e6)


# --- LoRa --------------------------------------------------------------------------------------------------------


def test_lora_time_on_air_in_whole_numbers():
    """Semtech's formula in quarters of symbols, all spreading factors, bandwidths, codes and many sizes."""
    for sf in range(7, 13):
        for khz in (125, 250, 500):
            slow = 2**sf > 16 * khz  # symbols longer than 16 ms
            for coding in range(1, 5):
                for size in (0, 1, 12, 13, 51, 64, 100, 222, 255):
                    blocks = -(-max(8 * size - 4 * sf + 44, 0) // (4 * (sf - 2 * slow)))
                    quarters = 4 * (8 + 8 + blocks * (4 + coding)) + 17
                    assert time_on_air_s(size, sf, 1e3 * khz, coding) == pytest.approx(quarters * 2**sf / 4e3 / khz)


@pytest.mark.parametrize(
    ("sf", "bit_rate"), [(7, 5468.75), (8, 3125.0), (9, 1757.8), (10, 976.6), (11, 537.1), (12, 293.0)]
)
def test_lora_bit_rates(sf, bit_rate):
    """SF · BW/2^SF · 4/5."""
    assert budget(Lora(spreading_factors=(sf,)), 10.0).rate_bps[0] == pytest.approx(bit_rate, abs=0.1)


# --- under water -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("khz", "db_per_km"), [(0.1, 0.0032), (0.3, 0.0121), (2.0, 0.1349), (12.0, 1.6448), (30.0, 8.2804)]
)
def test_absorption_at_other_frequencies(khz, db_per_km):
    assert thorp_db_per_km(khz) == pytest.approx(db_per_km, abs=1e-4)


def test_noise_adds_up_in_powers():
    """10 kHz, 8 m/s of wind, few ships: turbulence, shipping, wind and thermal noise, added as powers."""
    turbulence, heat = 17 - 30, -15 + 20
    ships = 40 - 6 + 26 - 60 * np.log10(10.03)
    wind = 50 + 7.5 * np.sqrt(8) + 20 - 40 * np.log10(10.4)
    expected = 10 * np.log10(sum(10 ** (v / 10) for v in (turbulence, ships, wind, heat)))
    assert noise_db_per_hz(10.0, shipping=0.2, wind_mps=8.0) == pytest.approx(expected)
    assert wind < expected < wind + 0.1


def test_sonar_equation():
    """SL − TL − (NL + 10·log10 B) at 700 m, and the goodput of the packets of the mode in use."""
    radio = Acoustic(source_level_db=165.0, frequency_khz=20.0, bandwidth_khz=5.0, spreading=1.8, wind_mps=3.0)
    loss = 18 * np.log10(700) + 0.7 * thorp_db_per_km(20.0)
    noise = noise_db_per_hz(20.0, 0.5, 3.0) + 10 * np.log10(5000)
    at = budget(radio, 700.0)
    assert at.path_loss_db[0] == pytest.approx(loss)
    assert at.snr_db[0] == pytest.approx(165 - loss - noise)
    assert at.mode == ("psk5",)
    cycle_s = (8 * 2048 + 72) / 5300 + 2 * (0.3 + 0.1 + 700 / 1500)
    assert at.goodput_bps[0] == pytest.approx(8 * 2048 * (1 - at.per[0]) / cycle_s)
