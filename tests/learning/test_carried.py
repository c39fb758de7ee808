"""Several vehicles, each with a token, against numpy that stores every client's contribution separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fedmule.learning.tokens import AddedUp, Carried, carried_by

STEPS, ETA, BETA, KAPPA = 3, 0.1, 0.5, 0.5
SETTINGS = {"local_steps": STEPS, "step_size": ETA, "beta": BETA, "kappa": KAPPA, "eps": 0.0, "open_at": 1.0}
merges = pytest.mark.parametrize("merge", ["add_up", "average"])
W = 3
PERSONAL = ("fedper", "fedrep", "fedbabu", "fedrod", "fedala", "feddbe")
FEDEX = ("fedex_sync", "fedex_async")


def events(contacts: Callable[..., Any], clients: int, visits: int) -> list[Any]:
    """Contacts of random vehicles, and occasional meetings of two."""
    draw, made = np.random.default_rng(5), []
    for contact in contacts(clients, visits, progress=0.0, most=2):
        made.append((int(draw.integers(W)), contact))
        if draw.random() < 0.4:
            made.append(tuple(draw.choice(W, 2, replace=False).tolist()))
    return made


def play(carried: Carried, made: list[Any]) -> None:
    for event in made:
        if isinstance(event[1], int):
            carried.meet(*event)
        else:
            carried.update(*event)


class PlainSlack:
    """Slack at eps = 0 for W vehicles, one client and one number at a time."""

    def __init__(self, start: np.ndarray, clients: int, replay: Any, merge: str, growing: bool) -> None:
        self.start, self.n, self.replay, self.merge, self.growing = start, clients, replay, merge, growing
        self.tokens = [start.copy() for _ in range(W)]
        self.dual, self.stored = np.zeros((clients, len(start))), np.tile(start, (clients, 1))
        self.seen: set[int] = set()
        # Every change: the vehicle that made it, and its size; each vehicle knows some of them.
        self.changes: list[np.ndarray] = []
        self.knows: list[set[int]] = [set() for _ in range(W)]
        self.counts: list[set[int]] = [set() for _ in range(W)]

    def contact(self, v: int, clients: np.ndarray) -> None:
        y, moved = self.tokens[v], np.zeros_like(self.start)
        for i, rows in zip(clients.tolist(), self.replay.batches(clients), strict=True):
            x = y.copy()
            for batch in rows:
                x0 = x - ETA * self.replay.gradient(x, batch)
                x = x0 - ETA * BETA / (1 + ETA * BETA) * (x0 - y + self.dual[i] / BETA)
            self.dual[i] += KAPPA * BETA * (x - y)
            c = x + self.dual[i] / BETA
            first = i not in self.seen
            moved += c - (y if first and self.growing else self.stored[i])
            self.changes.append(c - (self.start if first else self.stored[i]))
            self.knows[v].add(len(self.changes) - 1)
            self.counts[v].add(i)
            self.seen.add(i)
            self.stored[i] = c
        if self.merge == "average":
            mean_over = len(self.seen) if self.growing else self.n
            self.tokens[v] = y + min(W / mean_over, 1 / len(clients)) * moved
        else:
            self.add_up(v)

    def add_up(self, v: int) -> None:
        over = len(self.counts[v]) if self.growing else self.n
        self.tokens[v] = self.start + sum(self.changes[k] for k in self.knows[v]) / max(over, 1)

    def meet(self, a: int, b: int) -> None:
        if self.merge == "average":
            self.tokens[a] = self.tokens[b] = (self.tokens[a] + self.tokens[b]) / 2
            return
        knows, counts = self.knows[a] | self.knows[b], self.counts[a] | self.counts[b]
        for v in (a, b):
            self.knows[v], self.counts[v] = set(knows), set(counts)
            self.add_up(v)


@merges
@pytest.mark.parametrize("growing_mean", [True, False])
def test_several_vehicles_follow_the_equations(problem, plain, contacts, merge: str, growing_mean: bool) -> None:
    made = problem()
    slack = made.build("slack", growing_mean=growing_mean, merge=merge, **SETTINGS)
    replay = plain.Replay(made.build("slack", **SETTINGS))
    expected = PlainSlack(made.start.numpy(), made.data.clients, replay, merge, growing_mean)
    carried = carried_by(W, slack)
    for event in events(contacts, made.data.clients, 60):
        if isinstance(event[1], int):
            carried.meet(*event)
            expected.meet(*event)
        else:
            carried.update(*event)
            expected.contact(event[0], event[1].clients)
        for v in range(W):
            assert carried.of(v)["token"].numpy() == pytest.approx(expected.tokens[v], abs=1e-9)
    assert slack.contributions.numpy()[list(expected.seen)] == pytest.approx(
        expected.stored[list(expected.seen)], abs=1e-9
    )
    assert slack.token.numpy() == pytest.approx(np.mean(expected.tokens, axis=0), abs=1e-9)
    assert len({tuple(token.round(6)) for token in expected.tokens}) > 1


@pytest.mark.parametrize("kind", ["slack", "derived", "walkman"])
def test_once_everything_is_known_the_token_is_the_mean_of_the_contributions(problem, contacts, kind: str) -> None:
    for growing_mean in (True, False):
        made = problem()
        algorithm = made.build(kind, growing_mean=growing_mean, **SETTINGS)
        carried = carried_by(W, algorithm)
        play(carried, events(contacts, made.data.clients, 50))
        for a, b in ((0, 1), (1, 2), (0, 1)):
            carried.meet(a, b)
        seen = algorithm.participations > 0
        counted = seen if kind == "slack" and growing_mean else np.ones_like(seen)
        mean = algorithm.contributions[torch.from_numpy(np.flatnonzero(counted))].mean(dim=0).numpy()
        for v in range(W):
            assert carried.of(v)["token"].numpy() == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("kind", ["slack", "derived", "walkman"])
def test_averaged_tokens_keep_the_mean_of_all_contributions(problem, contacts, kind: str) -> None:
    """With the plain rule W·(1/n) of each change goes to one token of W: their mean is always that of contributions."""
    made = problem()
    algorithm = made.build(kind, growing_mean=False, merge="average", **SETTINGS)
    carried = carried_by(W, algorithm)
    play(carried, events(contacts, made.data.clients, 50))
    mean = algorithm.contributions.mean(dim=0).numpy()
    assert algorithm.token.numpy() == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize(
    "kind",
    [
        "slack",
        "relay",
        "rwsadmm",
        "fedavg",
        "ditto",
        "apfl",
        "pfedme",
        "per_fedavg",
        "walkman",
        "ifca",
        *PERSONAL,
        *FEDEX,
    ],
)
def test_one_vehicle_behaves_like_the_algorithm_alone(problem, contacts, kind: str) -> None:
    made = problem(kind=kind)
    alone, carried = made.build(kind, **SETTINGS), made.build(kind, **SETTINGS)
    by_one = carried_by(1, carried)
    for contact in contacts(made.data.clients, 20):
        assert alone.update(contact) == by_one.update(0, contact)
    assert torch.equal(alone.token, carried.token)
    assert torch.equal(alone.models, carried.models)


@pytest.mark.parametrize(
    "kind", ["fedavg", "ditto", "apfl", "pfedme", "per_fedavg", "ifca", "slack", *PERSONAL, "fedex_async"]
)
def test_tokens_that_cannot_be_added_up_are_averaged(problem, contact, kind: str) -> None:
    made = problem(kind=kind)
    pace = {"token_pace": 0.3} if kind == "slack" else {}
    algorithm = made.build(kind, **SETTINGS, **pace)
    carried = carried_by(2, algorithm)
    assert not isinstance(carried, AddedUp)
    carried.update(0, contact(0, 1))
    carried.update(1, contact(2))
    names = algorithm.carried
    before = [{name: carried.of(v)[name].clone() for name in names} for v in range(2)]
    alone = made.build(kind, **SETTINGS, **pace)
    alone.update(contact(0, 1))
    carried.meet(0, 1)
    for name in names:
        assert torch.equal(before[0][name], getattr(alone, name))  # the first vehicle acted as if it were alone
        assert not torch.equal(before[0][name], before[1][name])
        for v in range(2):
            assert torch.equal(carried.of(v)[name], (before[0][name] + before[1][name]) / 2)


def test_cost_of_a_meeting(problem, contact) -> None:
    made = problem()
    size = 4 * made.model.parameters
    averaged = carried_by(3, made.build("fedavg")).meeting(0, 1, 0.0)
    assert (averaged.bytes_down.tolist(), averaged.bytes_up.tolist()) == ([size], [size])
    ifca = carried_by(3, made.build("ifca", clusters=5)).meeting(0, 1, 0.0)
    assert ifca.bytes_down.tolist() == [5 * size]
    slack = carried_by(3, made.build("slack", open_at=0.75))
    overhead = 4 * 3 + 1  # counts of three vehicles' contacts, and a bit for each of seven clients

    def bytes_of(a: int, b: int, progress: float = 0.0) -> tuple[int, int]:
        exchange = slack.meeting(a, b, progress)
        return int(exchange.bytes_down[0]), int(exchange.bytes_up[0])

    assert bytes_of(0, 1) == (0, 0)  # nothing has happened yet
    slack.update(0, contact(1))
    assert bytes_of(0, 1) == (size + overhead, overhead)
    slack.meet(0, 1)
    assert bytes_of(0, 1) == (0, 0)
    slack.update(1, contact(2))
    assert bytes_of(1, 2) == (2 * size + overhead, overhead)  # it passes on changes it received
    assert bytes_of(1, 2, 0.8) == (0, 0)  # clients train alone
    local = carried_by(3, made.build("local"))
    local.update(0, contact(1))
    assert local.meeting(0, 1, 0.0).bytes_down.tolist() == [size + overhead]  # the cost of its reference
    assert not local.meeting(0, 1, 0.0).charged


def test_added_up_tokens_stay_bounded_without_meetings(problem, contacts) -> None:
    """Averaging counts each change W times, so tokens diverge without meetings; adding up does not."""
    made = problem(clients=12, double=False)
    spread = {}
    for merge in ("add_up", "average"):
        carried = carried_by(4, made.build("slack", merge=merge, **SETTINGS))
        draw = np.random.default_rng(0)
        for contact in contacts(12, 240, progress=0.0, most=1):
            carried.update(int(draw.integers(4)), contact)
        tokens = torch.stack([carried.of(v)["token"] for v in range(4)])
        spread[merge] = float((tokens - tokens.mean(dim=0)).norm())
    assert spread["add_up"] < spread["average"] / 10
