import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import Acoustic, Ble, LogDistance, Lora, WifiDirect, Zigbee
from ns3_figures import NS3_LOSS_DB, ns3_figures

from fedmule.radio.link import rates_bps, reach_m
from fedmule.radio.radios.acoustic import noise_db_per_hz
from fedmule.radio.radios.ble import packet_s
from fedmule.radio.radios.lora import time_on_air_s
from fedmule.radio.radios.zigbee import packet_error_rate

KINDS = [WifiDirect, Zigbee, Ble, Lora, Acoustic]


def seconds(radio, distance_m, size_bytes):
    return 8 * size_bytes / rates_bps(radio, np.array([float(distance_m)]), np.zeros(1))[0]


# --- all radios ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_errors_fall_with_the_snr(kind):
    radio = kind()
    for mode in radio.modes:
        per = radio.errors(mode, mode.min_snr_db + np.linspace(-6, 12, 200))
        assert (np.diff(per) <= 1e-15).all()
        assert per[0] > 0.7
        assert per[-1] < 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_more_power_reaches_farther(kind):
    power = "source_level_db" if kind is Acoustic else "tx_power_dbm"
    usual = kind().tx_power_dbm
    reach = [kind(**{power: usual + more}).range_m for more in (-6, -3, 0, 3, 6)]
    assert (np.diff(reach) > 0).all()


@pytest.mark.parametrize("kind", KINDS)
@given(range_m=st.floats(2, 3000), loss_db=st.floats(0.01, 15))
def test_range_and_obstacles(kind, range_m, loss_db):
    radio = kind(range_m)
    assert radio.range_m == pytest.approx(range_m, rel=1e-9)
    assert radio.budget(np.array([range_m])).goodput_bps[0] > 0
    assert radio.budget(np.array([range_m * 1.001])).goodput_bps[0] == 0
    behind = reach_m(radio.ladder(loss_db))
    assert behind < range_m
    if behind:
        received = radio.received_dbm(np.array([behind]), loss_db)
        assert received == pytest.approx(radio.received_dbm(np.array([range_m])), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_ladders_follow_the_budget(kind):
    radio = kind()
    budget = radio.budget(np.geomspace(1, radio.range_m * 0.999, 500))
    rates = radio.duty_cycle * rates_bps(radio, budget.distance_m, np.zeros(500))
    assert (rates > 0).all()
    easy = budget.per < 0.05
    assert easy.sum() > 200
    # Where a mode ends the step may lie between two points of the grid.
    assert np.median(np.abs(rates / budget.goodput_bps - 1)[easy]) < 0.05
    assert np.mean(np.abs(rates / budget.goodput_bps - 1)[easy] < 0.11) > 0.97
    assert len(radio.ladder(0.0).distances_m) < 80


@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_adds_up(kind):
    radio = kind()
    budget = radio.budget(np.array([1.0, 10.0, radio.range_m / 2, radio.range_m * 1.1]))
    assert budget.received_dbm == pytest.approx(radio.tx_power_dbm - budget.path_loss_db)
    assert (budget.goodput_bps <= budget.rate_bps).all()
    assert budget.mode[-1] == ""
    assert (budget.per[-1], budget.goodput_bps[-1], budget.rate_bps[-1]) == (1, 0, 0)
    assert all(budget.mode[:-1])


# --- 802.15.4 ----------------------------------------------------------------------------------------------------


def test_zigbee_transfers_as_in_ns3():
    zigbee = Zigbee(propagation=LogDistance(3.0, NS3_LOSS_DB))
    rows = ns3_figures("lrwpan_transfer.csv")
    near = [row for row in rows if float(row["distance_m"]) <= 90]
    assert len(near) >= 3
    for row in near:
        assert seconds(zigbee, row["distance_m"], float(row["bytes"])) == pytest.approx(float(row["time_s"]), rel=0.05)
    for row in rows:  # on the slope, where a metre makes a difference
        distance = np.array([float(row["distance_m"])])
        taken = 8 * float(row["bytes"]) / zigbee.budget(distance).goodput_bps[0]
        assert taken == pytest.approx(float(row["time_s"]), rel=0.1)


def test_zigbee_cut_off():
    assert 105 < Zigbee(propagation=LogDistance(3.0, NS3_LOSS_DB)).range_m < 118


def test_zigbee_errors_as_in_ns3():
    rows = ns3_figures("per_vs_snr.csv")
    snr = np.array([float(row["snr_db"]) for row in rows])
    expected = np.array([float(row["lrwpan_per_117B"]) for row in rows])
    assert packet_error_rate(snr) == pytest.approx(expected, abs=1e-5)


# --- WiFi --------------------------------------------------------------------------------------------------------


def test_wifi_errors_as_in_ns3():
    """The SNR at which a packet error rate is reached agrees to 0.3 dB."""
    rows = ns3_figures("per_vs_snr.csv")
    snr = np.array([float(row["snr_db"]) for row in rows])
    radio = WifiDirect()
    fine = np.linspace(-5, 30, 7001)
    for mode in radio.modes:
        expected = np.array([float(row[f"table_ht_{mode.name.lower()}_per1500B"]) for row in rows])
        modelled = radio.errors(mode, fine)
        for at, per in zip(snr, expected, strict=True):
            if 1e-3 < per < 0.95:
                assert fine[np.argmax(modelled <= per)] == pytest.approx(at, abs=0.3), mode.name


def test_ac_is_faster_at_short_range():
    n, ac = WifiDirect(standard="n"), WifiDirect(standard="ac")
    near = np.array([3.0])
    assert ac.budget(near).rate_bps[0] == 390e6
    assert 0.45 < ac.budget(near).goodput_bps[0] / 390e6 < 0.8
    assert ac.budget(near).goodput_bps[0] > 4 * n.budget(near).goodput_bps[0]
    # Four times the bandwidth, four times the noise; and a carrier that loses more on the first metre.
    weaker_db = 10 * np.log10(4) + 20 * np.log10(5180 / 2400)
    assert n.budget(near).snr_db[0] - ac.budget(near).snr_db[0] == pytest.approx(weaker_db)


# --- Bluetooth ---------------------------------------------------------------------------------------------------


def test_longest_packets_of_the_bluetooth_standard():
    """Core specification, vol. 6, part B, 4.5.10: with 255 bytes 2,120, 1,064, 4,542 and 17,040 µs."""
    longest = [1e6 * packet_s(phy, 255) for phy in ("1M", "2M", "coded_s2", "coded_s8")]
    assert longest == pytest.approx([2120, 1064, 4542, 17040])
    assert 1e6 * packet_s("1M", 0) == pytest.approx(80)


def test_bluetooth_rates():
    """At close range: 1.4 Mb/s over 2M and 0.8 over 1M, slightly less than 400 and 115 kb/s coded."""
    near = np.array([1.0])
    goodput = {phy: Ble(phys=(phy,)).budget(near).goodput_bps[0] for phy in ("2M", "1M", "coded_s2", "coded_s8")}
    assert goodput["2M"] == pytest.approx(1.40e6, rel=0.02)
    assert goodput["1M"] == pytest.approx(0.79e6, rel=0.02)
    assert goodput["coded_s2"] == pytest.approx(380e3, rel=0.05)
    assert goodput["coded_s8"] == pytest.approx(110e3, rel=0.05)


def test_slower_bluetooth_reaches_farther():
    reach = [Ble(phys=(phy,)).range_m for phy in ("2M", "1M", "coded_s2", "coded_s8")]
    assert (np.diff(reach) > 0).all()
    assert Ble().range_m == reach[-1]
    # 8 dB between 1M and S = 8 at exponent 3.
    assert reach[3] / reach[1] == pytest.approx(10 ** (8 / 30))
    modes = list(dict.fromkeys(Ble().budget(np.linspace(1, 125, 500)).mode))
    assert modes == ["2M", "1M", "coded_s2", "coded_s8"]


# --- LoRa --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size_bytes", "spreading_factor", "milliseconds"),
    [
        (13, 7, 46.336),
        (23, 7, 61.696),
        (23, 8, 113.152),
        (23, 9, 205.824),
        (23, 10, 370.688),
        (23, 12, 1482.752),
        (64, 12, 2793.472),
        (255, 7, 399.616),
    ],
)
def test_time_on_air_as_calculators_give_it(size_bytes, spreading_factor, milliseconds):
    assert 1e3 * time_on_air_s(size_bytes, spreading_factor) == pytest.approx(milliseconds, abs=0.01)


def test_time_on_air_with_other_settings():
    # SF9 on 500 kHz, code 4/8, no header, no check: 8 + ⌈(160 − 36 + 28 − 20)/36⌉·8 = 40 symbols of 1.024 ms.
    on_air = time_on_air_s(20, 9, 500e3, coding=4, preamble_symbols=6, explicit_header=False, checked=False)
    assert on_air == pytest.approx((6 + 4.25 + 40) * 512 / 500e3)


def test_lora_sensitivities_of_the_data_sheet():
    """SX1276, 125 kHz, high frequency band: −123, −126, −129, −132, −133, −136 dBm."""
    sheet = dict(zip(range(7, 13), [-123, -126, -129, -132, -133, -136], strict=True))
    for sf, dbm in sheet.items():
        radio = Lora(spreading_factors=(sf,))
        assert radio.received_dbm(np.array(radio.range_m)) == pytest.approx(dbm, abs=2)


def test_a_duty_cycle_causes_waiting():
    near = np.array([10.0])
    per_cent, ten = (Lora(duty_cycle=d).budget(near).goodput_bps[0] for d in (0.01, 0.1))
    assert per_cent == pytest.approx(0.01 * 8 * 242 / 0.399616)
    assert ten == pytest.approx(10 * per_cent)
    always = Lora(duty_cycle=1.0).budget(near).goodput_bps[0]  # then only the acknowledgement is waited for
    assert always == pytest.approx(8 * 242 / (0.399616 + 1 + 0.046336))


# --- under water -------------------------------------------------------------------------------------------------


def test_sound_is_slow():
    radio = Acoustic(latency_s=0.2)
    assert radio.delay_s(np.array([0.0, 750.0, 3000.0])) == pytest.approx([0.2, 0.7, 2.2])
    near, far = radio.budget(np.array([1.0, 1501.0])).goodput_bps
    # Packets of 2,048 bytes, answered two seconds later.
    assert 8 * 2048 / far - 8 * 2048 / near == pytest.approx(2.0, rel=1e-3)


def test_noise_of_the_sea():
    """Noise near 10 kHz, where wind dominates: it falls by some 18 dB per decade, and is higher in a storm."""
    calm, storm = noise_db_per_hz(10.0, wind_mps=0.0), noise_db_per_hz(10.0, wind_mps=20.0)
    assert 25 < calm < 35
    assert storm - calm > 20
    assert noise_db_per_hz(5.0, wind_mps=10.0) - noise_db_per_hz(50.0, wind_mps=10.0) == pytest.approx(18, abs=3)


def test_under_water_by_hand():
    radio = Acoustic(source_level_db=170.0, frequency_khz=25.0, spreading=1.5)
    absorbed = 0.11 * 625 / 626 + 44 * 625 / 4725 + 2.75e-4 * 625 + 0.003
    assert radio.received_dbm(np.array(2000.0)) == pytest.approx(170 - 15 * np.log10(2000) - 2 * absorbed)
