import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import LogDistance, Nakagami, ThreeLogDistance, TwoRay, Waypoint, WifiDirect, Zigbee
from ns3_figures import NS3_LOSS_DB, ns3_figures

from fedmule.mobility.terrain import Terrain
from fedmule.mobility.trajectory import Trajectories, Way, position_at
from fedmule.radio.link import link_over_time, linked, rates_bps
from fedmule.radio.obstruction import Obstruction
from fedmule.radio.propagation import (
    Friis,
    Shadowing,
    UnderWater,
    friis,
    log_distance,
    nakagami,
    nakagami_m,
    thorp_db_per_km,
    three_log_distance,
    two_ray,
)
from fedmule.simulator.streams import Streams

TX_DBM = 16.0


def reference():
    rows = ns3_figures("propagation.csv")
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def draws(count, seed=0):
    return Streams(seed).draw("fading")(np.arange(count), np.zeros(count, dtype=np.int64), 1)[:, 0]


def test_path_losses_as_in_ns3():
    table = reference()
    distance = table["distance_m"]
    assert len(distance) > 5
    models = {
        "friis_dbm": friis(distance, 2.4e9),
        "logdist3_dbm": log_distance(distance, 3.0, NS3_LOSS_DB),
        "tworay_h1.5_dbm": two_ray(distance, 2.4e9),
        "threelog_default_dbm": three_log_distance(distance, (1.0, 200.0, 500.0), (1.9, 3.8, 3.8), NS3_LOSS_DB),
    }
    for name, loss_db in models.items():
        assert TX_DBM - loss_db == pytest.approx(table[name], abs=1e-4), name


def test_fading_as_in_ns3():
    table = reference()
    for i, distance in enumerate(table["distance_m"]):
        gains = nakagami(draws(100_000, i), float(nakagami_m(np.array([distance]))[0]))
        assert 10 * np.log10(gains.mean()) == pytest.approx(table["nakagami_default_mean_dbm"][i], abs=0.1)
        p10, p50 = 10 * np.log10(np.percentile(gains, [10, 50]))
        assert p10 == pytest.approx(table["nakagami_p10_dbm"][i], abs=0.3)
        assert p50 == pytest.approx(table["nakagami_p50_dbm"][i], abs=0.3)
        assert (gains < 0.1).mean() == pytest.approx(table["nakagami_frac_below_minus10db"][i], abs=0.012)


@pytest.mark.parametrize("m", [0.5, 0.75, 1.0, 1.5, 4.0])
def test_fading_keeps_the_mean(m):
    gains = nakagami(draws(200_000), m)
    assert gains.mean() == pytest.approx(1, abs=0.01)
    assert gains.var() == pytest.approx(1 / m, rel=0.03)
    assert np.array_equal(gains, nakagami(draws(200_000), m))


def test_free_space_in_watts():
    """Pr/Pt = (λ / 4πd)²."""
    for frequency in (433e6, 868e6, 5.18e9):
        wavelength = 299_792_458 / frequency
        for distance in (3.0, 70.0, 12_345.0):
            expected = -10 * np.log10((wavelength / (4 * np.pi * distance)) ** 2)
            assert friis(np.array(distance), frequency) == pytest.approx(expected, abs=1e-9)
    assert friis(np.array([0.0, 1e-6]), 2.4e9).tolist() == [0, 0]


def test_two_ray_departs_from_free_space_at_the_crossover():
    crossover = 4 * np.pi * 2.0 * 10.0 * 868e6 / 299_792_458
    around = np.array([crossover * (1 - 1e-9), crossover * (1 + 1e-9)])
    assert np.diff(two_ray(around, 868e6, (2.0, 10.0)))[0] == pytest.approx(0, abs=1e-6)
    far = two_ray(np.array([5000.0, 10_000.0]), 868e6, (2.0, 10.0))
    assert far[0] == pytest.approx(-10 * np.log10(2.0**2 * 10.0**2 / 5000.0**4))
    assert np.diff(far)[0] == pytest.approx(40 * np.log10(2))


def test_three_exponents_in_sequence():
    loss = three_log_distance(np.array([0.5, 1.0, 10.0, 100.0, 1000.0]), (1.0, 10.0, 100.0), (2.0, 3.0, 4.0), 40.0)
    assert loss == pytest.approx([40, 40, 60, 90, 130])


@pytest.mark.parametrize(
    ("khz", "db_per_kiloyard"),
    [(f, 0.1 * f**2 / (1 + f**2) + 40 * f**2 / (4100 + f**2) + 2.75e-4 * f**2 + 0.003) for f in (1, 10, 25, 100)],
)
def test_absorption_by_thorp_in_yards(khz, db_per_kiloyard):
    assert thorp_db_per_km(khz) == pytest.approx(db_per_kiloyard * 1.0936, rel=0.03)


def test_absorption_in_figures():
    assert [round(thorp_db_per_km(f), 2) for f in (1.0, 10.0, 50.0, 100.0)] == [0.07, 1.19, 17.47, 34.07]


MODELS = [
    Friis(868.0),
    LogDistance(2.7, 40.0),
    TwoRay(2400.0),
    ThreeLogDistance(frequency_mhz=868.0),
    Nakagami(3.0, 46.0),
    UnderWater(25.0),
]


@given(st.sampled_from(MODELS), st.floats(0, 90))
def test_distances_match_losses(model, more_db):
    distance = model.distance_m(np.array([more_db]))
    assert distance[0] >= model.nearest_m * (1 - 1e-9)
    near = model.path_loss_db(np.array([model.nearest_m]))
    assert model.path_loss_db(distance) - near == pytest.approx(more_db, abs=1e-6)


@given(st.sampled_from(MODELS[:-1]), st.floats(5, 3000))
def test_range_sets_the_power_whatever_the_model(model, range_m):
    for radio in (Zigbee(range_m, propagation=model), WifiDirect(range_m, propagation=model)):
        assert radio.range_m == pytest.approx(range_m, rel=1e-9)
        rates = rates_bps(radio, range_m * np.array([1 - 1e-6, 1 + 1e-6]), np.zeros(2))
        assert rates[0] > 0
        assert rates[1] == 0


def test_fading_costs_retransmissions_but_not_the_range():
    still, fading = WifiDirect(), WifiDirect(propagation=Nakagami(3.0))
    assert fading.range_m == still.range_m
    distance = np.array([20.0, 30.0, 45.0])
    a, b = still.budget(distance), fading.budget(distance)
    assert (b.per > a.per).all()
    assert (b.goodput_bps < a.goodput_bps).all()
    assert (b.goodput_bps > 0.3 * a.goodput_bps).all()


# --- shadowing -------------------------------------------------------------------------------------------------


def shadowing(seed=0, db=6.0, distance_m=25.0):
    return Shadowing(db, distance_m, Streams(seed).draw("shadowing"))


def test_shadowing_has_the_given_deviation_and_correlation():
    """Over many fields: standard deviation `db`, and correlation exp(−d/distance_m) as one end moves by d."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 4000, (2, 400, 2))
    fields = [shadowing(seed) for seed in range(60)]
    here = np.array([f.loss_db(a, b) for f in fields])
    assert here.std() == pytest.approx(6, rel=0.05)
    assert abs(here.mean()) < 0.3
    direction = np.array([np.cos(0.7), np.sin(0.7)])
    for d in (5.0, 25.0, 75.0):
        one = np.array([f.field(b) for f in fields]).ravel()
        other = np.array([f.field(b + d * direction) for f in fields]).ravel()
        assert np.corrcoef(one, other)[0, 1] == pytest.approx(np.exp(-d / 25), abs=0.05)


def test_near_ends_are_not_shadowed_twice():
    rng = np.random.default_rng(1)
    a = rng.uniform(0, 4000, (500, 2))
    near = np.array([shadowing(seed).loss_db(a, a + 3.0) for seed in range(40)])
    assert near.std() == pytest.approx(6, rel=0.06)


def test_a_position_stays_good_or_bad():
    a, b = np.random.default_rng(2).uniform(0, 500, (2, 50, 2))
    field = shadowing()
    assert np.array_equal(field.loss_db(a, b), shadowing().loss_db(a, b))
    assert np.array_equal(field.loss_db(a, b), field.loss_db(b, a))
    assert not np.array_equal(field.loss_db(a, b), shadowing(1).loss_db(a, b))
    assert np.abs(field.loss_db(a, b)).max() <= field.most_db


def test_links_change_exactly_where_the_shadowing_does():
    radio = Zigbee(60.0, shadowing=shadowing(3, 8.0, 15.0))
    trajectories = Trajectories(Waypoint(Terrain((200.0, 200.0)), 4, Streams(0).draw("mobility")))
    position = np.array([100.0, 100.0])
    for client in range(4):
        start = 0.0
        for stretch in link_over_time(radio, Obstruction(), trajectories, Way.standing(position), client, 0.0):
            end = min(stretch.end_s, 300.0)
            times = np.linspace(start, end, 9)[1:-1]
            xy = position_at(*trajectories.path(client, 300.0), times)
            rates = rates_bps(radio, np.hypot(*(xy - position).T), radio.shadow_db(position, xy))
            if end - start > 1e-6:
                assert (rates == stretch.rate_bps).all()
                assert np.array_equal(linked(radio, Obstruction(), position, xy), rates > 0)
            start = stretch.end_s
            if start > 300:
                break


def test_the_most_favourable_links_are_found():
    radio = Zigbee(60.0, shadowing=shadowing(3, 8.0, 15.0))
    positions = np.random.default_rng(4).uniform(0, 1000, (3000, 2))
    position = np.array([500.0, 500.0])
    distance = np.hypot(*(positions - position).T)
    heard = linked(radio, Obstruction(), position, positions)
    assert 60 < distance[heard].max() <= radio.farthest_m
    assert not heard[distance < 60].all()
    assert radio.range_m == pytest.approx(60)


# --- carriers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mhz", [433.0, 868.0, 2400.0, 5180.0])
def test_the_reference_loss_is_that_of_free_space_at_the_carrier(mhz):
    """(4π·d₀/λ)² at the distance d₀ from which the exponent counts."""
    wave_m = 299.792458 / mhz
    at = {LogDistance(): 1.0, Nakagami(): 1.0, ThreeLogDistance(distances_m=(2.0, 50.0, 80.0)): 2.0}
    for model, reference_m in at.items():
        expected = 20 * np.log10(4 * np.pi * reference_m / wave_m)
        for tuned in (model.at_carrier(mhz), model.at_carrier(mhz).at_carrier(100.0)):  # the first carrier stays
            assert tuned.path_loss_db(np.array(reference_m)) == pytest.approx(expected, abs=1e-9)
    assert LogDistance(reference_loss_db=40.0).at_carrier(mhz).path_loss_db(np.array(1.0)) == 40
    with pytest.raises(ValueError, match="frequency_mhz"):
        LogDistance().path_loss_db(np.array(1.0))
