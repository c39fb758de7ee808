import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Disc, LogDistance, WifiDirect
from ns3_figures import NS3_LOSS_DB, ns3_figures

from fedmule.radio.link import rates_bps, reach_m


def rate_at(radio, distance_m, loss_db=0.0):
    return float(rates_bps(radio, np.array([float(distance_m)]), np.array([float(loss_db)]))[0])


AS_NS3 = LogDistance(3.0, NS3_LOSS_DB)


def test_received_power_as_in_ns3():
    radio = WifiDirect(tx_power_dbm=16.0, propagation=AS_NS3)
    rows = ns3_figures("propagation.csv")
    distance = np.array([float(row["distance_m"]) for row in rows])
    expected = [float(row["logdist3_dbm"]) for row in rows]
    assert len(rows) > 5
    assert radio.received_dbm(distance) == pytest.approx(expected, abs=1e-4)


def test_transfers_as_in_ns3():
    radio = WifiDirect(propagation=AS_NS3)
    rows = ns3_figures("wifi_80211n_tcp_transfer.csv")
    assert len(rows) > 5
    for row in rows:
        rate = rate_at(radio, row["d"])
        if row["done"] == "1":
            assert 8 * float(row["bytes"]) / rate == pytest.approx(float(row["time_s"]), rel=0.1)
        else:
            assert rate == 0


def test_range_as_in_ns3():
    assert WifiDirect(propagation=AS_NS3).range_m == pytest.approx(51.4, abs=1)


@pytest.mark.parametrize(("standard", "hz"), [("n", 2.4e9), ("ac", 5.18e9)])
def test_range_in_the_open_follows_from_the_carrier(standard, hz):
    """16 dBm sent, −82 dBm heard: (4π·f/c)² at 1 m and d³ from there leave 98 dB."""
    expected = (10**9.8 / (4 * np.pi * hz / 299_792_458) ** 2) ** (1 / 3)
    assert WifiDirect(standard=standard).range_m == pytest.approx(expected, rel=1e-9)
    assert expected == pytest.approx({"n": 85.4, "ac": 51.2}[standard], abs=0.1)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    range_m=st.floats(1.01, 5000),
    exponent=st.floats(1.6, 5),
    reference_loss_db=st.floats(20, 80),
    cutoff_dbm=st.floats(-110, -50),
)
def test_range_sets_the_power(range_m, exponent, reference_loss_db, cutoff_dbm):
    radio = WifiDirect(range_m, propagation=LogDistance(exponent, reference_loss_db), cutoff_dbm=cutoff_dbm)
    assert radio.range_m == pytest.approx(range_m, rel=1e-9)
    assert rate_at(radio, range_m * (1 - 1e-6)) > 0
    assert rate_at(radio, range_m * (1 + 1e-6)) == 0


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.floats(0, 40), st.floats(10, 400), st.floats(1.8, 4))
def test_an_obstacle_shortens_the_range(loss_db, range_m, exponent):
    radio = WifiDirect(range_m, propagation=LogDistance(exponent))
    expected = range_m * 10 ** (-loss_db / (10 * exponent))
    reach = reach_m(radio.ladder(loss_db))
    if expected >= 1.0 + 1e-9:
        assert reach == pytest.approx(expected, rel=1e-9)
    elif expected < 1.0 - 1e-9:  # not even at the closest
        assert reach == 0
        assert rate_at(radio, 0.0, loss_db) == 0


def test_rates_fall_with_distance_and_loss():
    radio = WifiDirect(tx_power_dbm=16.0)
    distance = np.linspace(0, 60, 601)
    rates = rates_bps(radio, distance, np.zeros(601))
    assert (np.diff(rates) <= 0).all()
    assert rates[0] == rates[10]  # below 1 m as at 1 m
    # A loss is as good as distance: 9.03 dB double it at exponent 3.
    doubled = rates_bps(radio, distance / 2, np.full(601, 30 * np.log10(2)))
    away = (distance > 2.1) & (np.abs(distance[:, None] - radio.ladder(0.0).distances_m).min(axis=1) > 0.01)
    assert np.array_equal(rates[away], doubled[away])


def test_ladder_steps_where_the_snr_suffices():
    """No cut-off: each rate up to where its SNR is reached over thermal noise and a noise figure of 7 dB."""
    radio = WifiDirect(tx_power_dbm=16.0, cutoff_dbm=-200.0, propagation=AS_NS3)
    noise_dbm = 10 * np.log10(1.380649e-23 * 290 * 20e6 * 1000) + 7
    ladder = radio.ladder(0.0)
    assert len(ladder.distances_m) == 8
    assert (np.diff(ladder.distances_m) > 0).all()
    assert (np.diff(ladder.rates_bps) < 0).all()
    snr = 16 - NS3_LOSS_DB - 30 * np.log10(ladder.distances_m) - noise_dbm
    # From the top: MCS 7 … 0 as in ns-3's error tables at a packet error rate of 1.2 %.
    assert snr == pytest.approx([20.43, 19.18, 17.90, 13.48, 10.39, 7.02, 4.47, 1.46], abs=0.02)
    goodput = ladder.rates_bps / 1e6 / np.array([65, 58.5, 52, 39, 26, 19.5, 13, 6.5])
    assert goodput == pytest.approx([0.8] * 8, abs=0.06)


def test_required_snr_from_the_error_tables():
    """Each step's SNR lies where the packet error rate of the reference falls through one per cent."""
    rows = ns3_figures("per_vs_snr.csv")
    ladder = WifiDirect(tx_power_dbm=16.0, cutoff_dbm=-200.0, propagation=AS_NS3).ladder(0.0)
    noise_dbm = 10 * np.log10(1.380649e-23 * 290 * 20e6 * 1000) + 7
    snr = (16 - NS3_LOSS_DB - 30 * np.log10(ladder.distances_m) - noise_dbm)[::-1]
    for mcs in range(8):
        column = next(name for name in rows[0] if f"mcs{mcs}" in name.lower())
        per = np.array([float(row[column]) for row in rows])
        at = np.array([float(row["snr_db"]) for row in rows])
        assert per[at >= snr[mcs] + 1].max(initial=0.0) < 0.02
        assert per[at <= snr[mcs] - 1].min(initial=1.0) > 0.01


def test_disc():
    radio = Disc(range_m=30.0, rate_mbps=4.0, latency_s=0.5, setup_s=2.0)
    assert radio.range_m == 30
    assert (radio.latency_s, radio.setup_s) == (0.5, 2.0)
    assert rates_bps(radio, np.array([0.0, 30.0, 30.001, 5.0]), np.array([0.0, 0, 0, 0.1])).tolist() == [4e6, 4e6, 0, 0]
