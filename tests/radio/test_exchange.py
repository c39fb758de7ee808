import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedmule.radio.channel import Load, Outcome
from fedmule.radio.exchange import run_exchange as run_with_delays
from fedmule.radio.link import Stretch

MB = 1_000_000  # bytes: 8 seconds at 1 Mb/s


def link(*stretches):
    """Stretches (duration in s, rate in Mb/s), the last of which never ends."""
    t = 0.0
    for lasts, rate in stretches:
        t += lasts
        yield Stretch(t, rate * 1e6)
    while True:
        t += 1e6
        yield Stretch(t, stretches[-1][1] * 1e6)


def steady(rate):
    return link((1e6, rate))


def breaks(rate, at):
    return link((at, rate), (1e6, 0.0))


def load(down, compute, up, broadcast=True):
    m = len(down)
    return Load(np.array(down), np.array(compute, float) * np.ones(m), np.array(up), broadcast)


def run_exchange(links, what, start_s, setup_s, latency_s, duty_cycle=1.0) -> Outcome:
    """Exchange with one constant delay for all, or one for each."""
    delays = [lambda t, delay=float(delay): delay for delay in latency_s * np.ones(len(links))]
    return run_with_delays(links, what, start_s, setup_s, delays, duty_cycle)


def test_one_client():
    out = run_exchange([steady(8)], load([MB], 3, [2 * MB]), start_s=0.0, setup_s=5.0, latency_s=0.25)
    assert out.end_s == pytest.approx(5 + 1 + 0.25 + 3 + 2 + 0.25)
    assert out.airtime_s == pytest.approx(3)
    assert out.delivered.tolist() == [True]
    assert (out.bytes_down.tolist(), out.bytes_up.tolist()) == ([MB], [2 * MB])
    assert (out.air_bytes_down, out.air_bytes_up) == (MB, 2 * MB)
    assert out.compute_s == 3


def test_starts_at_the_given_time():
    def later():
        yield Stretch(107.0, 8e6)
        yield Stretch(np.inf, 4e6)

    out = run_exchange([later()], load([4 * MB], 1, [2 * MB]), start_s=100.0, setup_s=0.0, latency_s=0.0)
    assert out.end_s == pytest.approx(100 + 4 + 1 + 2)  # the last byte as the rate changes
    out = run_exchange([later()], load([4 * MB], 1, [4 * MB]), start_s=100.0, setup_s=0.0, latency_s=0.0)
    assert out.end_s == pytest.approx(107 + 4)


def test_broadcast_goes_once_at_the_slowest_rate():
    out = run_exchange([steady(8), steady(2), steady(4)], load([MB] * 3, 0, [0] * 3), 0.0, 0.0, 0.0)
    assert out.end_s == pytest.approx(4)
    assert out.bytes_down.tolist() == [MB] * 3
    assert out.air_bytes_down == MB
    assert out.airtime_s == pytest.approx(4)


def test_unicast_down_shares_the_channel():
    # Three at 8 Mb/s each get a third; the first needs 1 MB, the others 2 MB.
    out = run_exchange([steady(8)] * 1 + [steady(8), steady(8)], load([MB, 2 * MB, 2 * MB], 0, [0] * 3, False), 0, 0, 0)
    assert out.end_s == pytest.approx(5)
    assert out.air_bytes_down == 5 * MB
    # Equal shares of time, so a slow one does not slow the bytes of a fast one.
    out = run_exchange([steady(8), steady(2)], load([MB, MB], 0, [0, 0], False), 0.0, 0.0, 0.0)
    assert out.end_s == pytest.approx(2 + 3)
    assert out.airtime_s == pytest.approx(5)


def test_two_share_the_channel_up():
    # Up begins at 1 and at 3: alone 1–3 (2 MB done of 3), shared from 3: 1 MB in 2 s, then alone 2 MB in 2 s.
    out = run_exchange([steady(8), steady(8)], load([0, 0], [1, 3], [3 * MB, 3 * MB]), 0.0, 0.0, 0.0)
    assert out.end_s == pytest.approx(7)
    assert out.airtime_s == pytest.approx(6)
    assert out.air_bytes_up == 6 * MB
    assert out.compute_s == 3


def test_up_and_broadcast_share_the_channel():
    # The first gets nothing down and sends 2 MB while the second and third listen to 1 MB at 4 Mb/s.
    out = run_exchange([steady(8), steady(4), steady(8)], load([0, MB, MB], 0, [2 * MB, 0, 0]), 0.0, 0.0, 0.0)
    # Two transfers: both need 2 s alone, so 4 s together.
    assert out.end_s == pytest.approx(4)
    assert out.airtime_s == pytest.approx(4)
    assert (out.air_bytes_down, out.air_bytes_up) == (MB, 2 * MB)


def test_latency_only_with_bytes():
    assert run_exchange([steady(8)], load([0], 2, [0]), 0.0, 1.0, 9.0).end_s == pytest.approx(3)
    assert run_exchange([steady(8)], load([MB], 2, [0]), 0.0, 1.0, 9.0).end_s == pytest.approx(1 + 1 + 9 + 2)
    assert run_exchange([steady(8)], load([0], 2, [MB]), 0.0, 1.0, 9.0).end_s == pytest.approx(1 + 2 + 1 + 9)


def test_nobody():
    out = run_exchange([], load([], 0, []), 4.0, 3.0, 1.0)
    assert (out.end_s, out.air_bytes_down, out.air_bytes_up, out.airtime_s) == (4.0, 0, 0, 0.0)


def test_no_link_from_the_beginning():
    out = run_exchange([steady(0), steady(8)], load([MB, MB], 1, [MB, MB]), 0.0, 1.0, 0.0)
    assert out.delivered.tolist() == [False, True]
    assert out.end_s == pytest.approx(4)
    assert (out.bytes_down.tolist(), out.bytes_up.tolist()) == ([0, MB], [0, MB])


# Alone at 8 Mb/s: setup 0–2, down 2–3, latency and compute 3–7.5, up 7.5–9.5, latency until 10.
ALONE = {"start_s": 0.0, "setup_s": 2.0, "latency_s": 0.5}


@pytest.mark.parametrize(
    ("at", "down", "up", "computed"),
    [
        (1.0, 0, 0, 0),  # during the set-up
        (2.25, MB // 4, 0, 0),  # down
        (2.0 + 1e-6, 1, 0, 0),  # with the first byte down
        (3.0 - 1e-6, MB - 1, 0, 0),  # with the last
        (3.25, MB, 0, 0),  # the last byte is on its way down
        (5.0, MB, 0, 4),  # computing
        (7.5 + 1e-6, MB, 1, 4),  # with the first byte up
        (8.5, MB, MB, 4),  # up
        (9.75, MB, 2 * MB, 4),  # all sent, not yet arrived
    ],
)
def test_leaving_at_any_stage(at, down, up, computed):
    out = run_exchange([breaks(8, at)], load([MB], 4, [2 * MB]), **ALONE)
    assert out.delivered.tolist() == [False]
    assert out.end_s == pytest.approx(at)
    assert (out.bytes_down[0], out.bytes_up[0]) == (down, up)
    assert (out.air_bytes_down, out.air_bytes_up) == (down, up)
    assert out.compute_s == computed
    # With another client that stays and shares the channel with those still present.
    both = run_exchange([breaks(8, at), steady(8)], load([MB, MB], 4, [2 * MB, 2 * MB]), **ALONE)
    assert both.delivered.tolist() == [False, True]
    assert (both.bytes_down[1], both.bytes_up[1]) == (MB, 2 * MB)
    assert both.bytes_down[0] == down
    shared_s = max(0.0, min(at, 11.5) - 7.5)  # both up at half speed until the first leaves
    assert both.end_s == pytest.approx(10 + shared_s / 2)
    assert both.bytes_up[0] == pytest.approx(shared_s / 2 * MB, abs=1)
    assert both.air_bytes_up == pytest.approx(2 * MB + shared_s / 2 * MB, abs=1)


def test_leaving_as_the_last_byte_arrives_is_in_time():
    assert run_exchange([breaks(8, 10.0)], load([MB], 4, [2 * MB]), **ALONE).delivered.tolist() == [True]
    assert run_exchange([breaks(8, 10.0 - 1e-6)], load([MB], 4, [2 * MB]), **ALONE).delivered.tolist() == [False]


def test_the_slowest_listener_leaves_and_the_rest_speeds_up():
    out = run_exchange([breaks(1, 2.0), steady(8)], load([2 * MB] * 2, 0, [0, 0]), 0.0, 0.0, 0.0)
    # 2 s at 1 Mb/s, then the remaining 1.75 MB at 8 Mb/s.
    assert out.end_s == pytest.approx(2 + 1.75)
    assert out.bytes_down.tolist() == [MB // 4, 2 * MB]
    assert out.air_bytes_down == 2 * MB


def test_others_get_faster_when_one_leaves():
    out = run_exchange([breaks(8, 1.0), steady(8)], load([0, 0], 0, [2 * MB, 2 * MB]), 0.0, 0.0, 0.0)
    assert out.end_s == pytest.approx(1 + 1.5)
    assert out.bytes_up.tolist() == [MB // 2, 2 * MB]
    assert out.airtime_s == pytest.approx(2.5)


def test_rates_that_change():
    out = run_exchange([link((1, 8), (2, 2), (9, 8))], load([0], 0, [3 * MB]), 0.0, 0.0, 0.0)
    assert out.end_s == pytest.approx(1 + 2 + 1.5)


def shares(wanted, duty_cycle):
    """Shares of the channel's time by filling up: all transfers grow equally until a limit holds them.

    `wanted` names the sender of each transfer; one sender has at most its duty cycle for all of its own.
    """
    found, growing, step = [0.0] * len(wanted), set(range(len(wanted))), 1e-3
    while growing:
        for k in sorted(growing):
            own = sum(found[j] for j in range(len(wanted)) if wanted[j] == wanted[k])
            if sum(found) + step > 1 + 1e-9 or own + step > duty_cycle + 1e-9:
                growing.discard(k)
            else:
                found[k] += step
    return found


def play_in_small_steps(links, what, setup_s, latency_s, duty_cycle=1.0, dt=1e-3):
    """The same rules, step by step in time; links are lists of (until, Mb/s)."""
    m = len(links)
    left = [
        [setup_s, 8.0 * what.bytes_down[i], latency_s * bool(what.bytes_down[i]), what.compute_s[i],
         8.0 * what.bytes_up[i], latency_s * bool(what.bytes_up[i])]
        for i in range(m)
    ]  # fmt: skip
    bits = np.zeros((m, 2))  # down and up
    ended = [None] * m  # when each finished, or was lost
    delivered = [False] * m
    air, margin, n, known = 0.0, np.inf, 0, {}
    while any(end is None for end in ended):
        t = n * dt
        rate = [next((r for until, r in links[i] if t < until), links[i][-1][1]) * 1e6 for i in range(m)]
        stage = []
        for i in range(m):
            while left[i] and left[i][0] <= 1e-9:
                left[i].pop(0)
            if ended[i] is None and not left[i]:
                ended[i], delivered[i] = t, True
            if ended[i] is None and rate[i] == 0:
                ended[i] = t
                # How long it would still have needed at least: a near miss is no fair comparison.
                steps = dict(zip([5, 4, 3, 2, 1, 0], reversed(left[i]), strict=False))
                needs = sum(v / 8e6 if k in (1, 4) else v for k, v in steps.items())
                margin = min(margin, needs)
            stage.append(6 - len(left[i]) if ended[i] is None else None)
        down, up = [i for i in range(m) if stage[i] == 1], [i for i in range(m) if stage[i] == 4]
        senders = tuple(up) + ("vehicle",) * (bool(down) if what.broadcast else len(down))
        if senders not in known:
            known[senders] = shares(senders, duty_cycle)
        share = known[senders]
        for i in range(m):
            if stage[i] in (0, 2, 3, 5):
                left[i][0] -= dt
            elif stage[i] is not None:
                pace = min(rate[j] for j in down) if stage[i] == 1 and what.broadcast else rate[i]
                sent = min(left[i][0], pace * share[up.index(i) if stage[i] == 4 else -1] * dt)
                left[i][0] -= sent
                bits[i, int(stage[i] == 4)] += sent
        air += dt * sum(share)
        n += 1
    for i in range(m):
        if delivered[i]:
            zeros = [until for (until, _), (_, r) in zip(links[i][:-1], links[i][1:], strict=True) if r == 0]
            margin = min([margin] + [until - ended[i] for until in zeros])
    return max(ended), delivered, air, bits / 8, margin


rates = st.sampled_from([0.0, 1.0, 2.0, 4.0, 8.0])
stretch_lists = st.lists(st.tuples(st.floats(0.1, 3), rates), min_size=1, max_size=4)
sizes = st.sampled_from([0, 50_000, 200_000, 400_000])


@st.composite
def exchanges(draw):
    m = draw(st.integers(1, 4))
    links = [draw(stretch_lists) for _ in range(m)]
    links = [[(lasts, 8.0 if k == 0 and rate == 0 else rate) for k, (lasts, rate) in enumerate(one)] for one in links]
    size = draw(sizes)
    broadcast = draw(st.booleans())
    down = [draw(st.sampled_from([0, size])) if broadcast else draw(sizes) for _ in range(m)]
    compute = [draw(st.sampled_from([0.0, 0.1, 0.5, 1.3])) for _ in range(m)]
    up = [draw(sizes) for _ in range(m)]
    return (
        links,
        load(down, compute, up, broadcast),
        draw(st.sampled_from([0.0, 0.4])),
        draw(st.sampled_from([0.0, 0.07])),
        draw(st.sampled_from([1.0, 1.0, 0.5, 0.3])),
    )


@settings(deadline=None, max_examples=60, derandomize=True)
@given(exchanges())
def test_against_small_steps_of_time(case):
    links, what, setup_s, latency_s, duty_cycle = case
    out = run_exchange([link(*one) for one in links], what, 0.0, setup_s, latency_s, duty_cycle)
    timed = [
        [(float(t), rate) for t, (_, rate) in zip(np.cumsum([x for x, _ in one]), one, strict=True)] for one in links
    ]
    end_s, delivered, air, moved, margin = play_in_small_steps(timed, what, setup_s, latency_s, duty_cycle)
    # Delivered clients got everything; nobody gets more than intended; everything sent is charged.
    assert np.array_equal(out.bytes_down[out.delivered], what.bytes_down[out.delivered])
    assert np.array_equal(out.bytes_up[out.delivered], what.bytes_up[out.delivered])
    assert (out.bytes_down <= what.bytes_down).all()
    assert (out.bytes_up <= what.bytes_up).all()
    assert (out.bytes_up[out.bytes_down < what.bytes_down] == 0).all()
    assert out.air_bytes_up == out.bytes_up.sum()
    assert out.air_bytes_down == (out.bytes_down.max() if what.broadcast else out.bytes_down.sum())
    assume(margin > 0.05)
    assert out.delivered.tolist() == delivered
    assert out.end_s == pytest.approx(end_s, abs=0.04)
    assert out.airtime_s == pytest.approx(air, abs=0.04)
    # A step at 8 Mb/s carries 1 kB, and each change may be a step late.
    assert np.abs(np.stack([out.bytes_down, out.bytes_up], axis=1) - moved).max() < 8_000


def test_each_client_may_have_its_own_delay():
    out = run_exchange([steady(8), steady(8)], load([MB, MB], 0, [0, 0]), 0.0, 0.0, np.array([0.5, 2.0]))
    assert out.end_s == pytest.approx(1 + 2)
    out = run_exchange([steady(8), breaks(8, 2.5)], load([MB, MB], 0, [0, 0]), 0.0, 0.0, np.array([0.5, 2.0]))
    assert out.delivered.tolist() == [True, False]


def test_senders_wait_for_their_duty_cycle_in_parallel():
    # At a tenth each, three clients send 1 MB at 8 Mb/s in 10 s, together: the channel has room for ten.
    links = [steady(8) for _ in range(3)]
    out = run_exchange(links, load([0] * 3, 0, [MB] * 3), 0.0, 0.0, 0.0, duty_cycle=0.1)
    assert out.end_s == pytest.approx(10)
    assert out.airtime_s == pytest.approx(3)
    # Twenty of them do not fit: the channel's time is shared.
    links = [steady(8) for _ in range(20)]
    out = run_exchange(links, load([0] * 20, 0, [MB] * 20), 0.0, 0.0, 0.0, duty_cycle=0.1)
    assert out.end_s == pytest.approx(20)
    assert out.airtime_s == pytest.approx(20)


def test_the_vehicle_is_one_sender():
    # Two times 1 MB down, its own to send, at a tenth: 20 s.
    links = [steady(8), steady(8)]
    out = run_exchange(links, load([MB, MB], 0, [0, 0], broadcast=False), 0.0, 0.0, 0.0, duty_cycle=0.1)
    assert out.end_s == pytest.approx(20)
    assert out.airtime_s == pytest.approx(2)


def test_clients_use_the_time_that_a_duty_cycle_denies_the_vehicle():
    # Two downs and an up at 8 Mb/s: the vehicle has 0.4 for both, the client 0.4 of its own.
    links = [steady(8), steady(8), steady(8)]
    out = run_exchange(links, load([2 * MB, 2 * MB, 0], 0, [0, 0, MB], broadcast=False), 0.0, 0.0, 0.0, duty_cycle=0.4)
    assert out.airtime_s == pytest.approx(5)
    assert out.end_s == pytest.approx(4 / 0.4)
    alone = run_exchange([steady(8)], load([0], 0, [MB]), 0.0, 0.0, 0.0, duty_cycle=0.4).end_s
    links = [steady(8), steady(8), breaks(8, alone - 1e-6)]
    out = run_exchange(links, load([2 * MB, 2 * MB, 0], 0, [0, 0, MB], broadcast=False), 0.0, 0.0, 0.0, duty_cycle=0.4)
    assert out.bytes_up[2] == MB - 1


def test_a_delay_is_that_of_the_moment_the_last_byte_leaves():
    # The client walks away: the delay grows by 0.1 s per second. Down until 1, there at 1.1; computing until 3.1; up
    # until 5.1, there at 5.61.
    out = run_with_delays([steady(8)], load([MB], 2, [2 * MB]), 0.0, 0.0, [lambda t: 0.1 * t])
    assert out.end_s == pytest.approx(5.1 + 0.51)
