"""The mean of the tokens before the opening, which clients take then, and the step size from then on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Contact
from fedmule.learning.algorithms.fedavg import FedAvg, FineTuned
from fedmule.learning.evaluate import Evaluator
from fedmule.learning.learner import Learner
from fedmule.learning.tokens import AddedUp, carried_by
from fedmule.simulator.runs.state import load_state, save_state

KEYS = {"fine_tune": True, "open_at": 0.6, "local_steps": 3, "batch_size": 6}


def test_both_options_off_give_the_same_bits_as_without_them(problem: Any, contacts: Any, state: Any) -> None:
    small = problem(double=False)
    ours = small.build("fedavg", **KEYS)
    plain = small.build("fedavg", **{**KEYS, "fine_tune": False})
    assert (type(ours), type(plain)) == (FineTuned, FedAvg)
    plain.fine_tune = True
    for contact in contacts(7, 30):
        assert ours.update(contact) == plain.update(contact)
    other = state(plain)
    for name, value in state(ours).items():
        np.testing.assert_array_equal(value, other[name])
    assert ours.carried == ("token",)


def test_clients_take_the_mean_of_the_late_tokens(problem: Any, plain: Any, contacts: Any) -> None:
    small = problem()
    keys = {**KEYS, "token_mean": 0.5, "fine_tune_step_size": 0.02}
    algorithm, replay, late = small.build("fedavg", **keys), plain.Replay(small.build("fedavg", **keys)), []
    own: dict[int, np.ndarray] = {}
    for contact in contacts(7, 40):
        batches = replay.batches(contact.clients)
        if contact.progress < 0.6:
            algorithm.update(contact)
            late += [algorithm.token.numpy().copy()] if contact.progress >= 0.3 else []
            assert torch.equal(algorithm.tokens(contact.clients), algorithm.token)
            continue
        last = algorithm.token.clone()
        algorithm.update(contact)
        for client, rows in zip(contact.clients.tolist(), batches, strict=True):
            x = own.get(client, np.mean(late, axis=0))
            for batch in rows:
                x = x - 0.02 * replay.gradient(x, batch)
            own[client] = x
            np.testing.assert_allclose(algorithm.models[client].numpy(), x, atol=1e-10)
        assert torch.equal(algorithm.token, last)
        np.testing.assert_allclose(algorithm.tokens(contact.clients).numpy(), np.mean(late, axis=0), atol=1e-12)
    assert len(late) == 12
    assert len(own) == 7


def test_without_a_late_contact_clients_take_the_last_token(problem: Any, contact: Any) -> None:
    algorithm = problem().build("fedavg", **{**KEYS, "token_mean": 0.1})
    algorithm.update(contact(0, 1, progress=0.2))
    assert torch.equal(algorithm.send(np.array([3]), 0.7)[0]["token"], algorithm.token)


def test_a_step_size_of_zero_leaves_clients_with_the_token(problem: Any, contact: Any) -> None:
    algorithm = problem().build("fedavg", **{**KEYS, "fine_tune_step_size": 0.0})
    algorithm.update(contact(0, 1, progress=0.2))
    algorithm.update(contact(0, 4, progress=0.7))
    assert torch.equal(algorithm.models[4], algorithm.token)


def test_several_vehicles_pool_their_late_tokens(problem: Any, contact: Any) -> None:
    """Vehicle 0 has notes of two tokens, vehicle 1 of one; after they meet both have the mean over all three."""
    algorithm = problem().build("fedavg", **{**KEYS, "token_mean": 0.5})
    carried, late = carried_by(3, algorithm), []
    for vehicle, clients in ((0, (0, 1)), (1, (2,)), (0, (3,))):
        carried.update(vehicle, contact(*clients, progress=0.4))
        late.append(carried.of(vehicle)["token"].clone())
    carried.meet(0, 1)
    carried.update(2, contact(5, progress=0.1))  # too early to count
    for vehicle, expected in ((0, torch.stack(late).mean(dim=0)), (1, torch.stack(late).mean(dim=0))):
        with carried.held_by(vehicle):
            torch.testing.assert_close(algorithm.send(np.array([4]), 0.7)[0]["token"], expected)
    with carried.held_by(2):
        assert torch.equal(algorithm.send(np.array([4]), 0.7)[0]["token"], algorithm.token)
    carried.update(1, contact(4, progress=0.7))
    torch.testing.assert_close(algorithm.tokens(np.array([6])), torch.stack(late).mean(dim=0))  # what is evaluated


def test_cost_of_a_meeting_while_tokens_are_averaged(problem: Any, contact: Any) -> None:
    carried, size = carried_by(2, problem().build("fedavg", **{**KEYS, "token_mean": 0.5})), 4 * 18
    assert [carried.meeting(0, 1, at).bytes_down.tolist() for at in (0.2, 0.4, 0.7)] == [[size], [2 * size], [0]]
    slack = problem().build("slack", open_at=0.6)
    slack.average_tokens(0.5)
    added = carried_by(3, slack)
    assert isinstance(added, AddedUp)
    added.update(0, contact(1, progress=0.4))
    added.meet(0, 1)
    added.update(1, contact(2, progress=0.5))
    overhead = 4 * 3 + 1
    assert added.meeting(1, 2, 0.5).bytes_down.tolist() == [3 * size + overhead]  # two vehicles' changes and the sum


def test_slack_can_average_its_tokens_too(problem: Any, contacts: Any) -> None:
    slack, late = problem().build("slack", open_at=0.6), []
    slack.average_tokens(0.5)
    carried = carried_by(2, slack)
    for contact in contacts(7, 30):
        carried.update(0, contact)
        late += [carried.of(0)["token"].clone()] if 0.3 <= contact.progress < 0.6 else []
    assert len(late) == 9
    with carried.held_by(0):
        torch.testing.assert_close(slack.send(np.array([0]), 0.7)[0]["token"], torch.stack(late).mean(dim=0))


@pytest.mark.parametrize("vehicles", [1, 2])
def test_a_checkpoint_keeps_the_mean(problem: Any, tmp_path: Any, vehicles: int) -> None:
    def learner() -> Learner:
        algorithm = problem().build("fedavg", **{**KEYS, "token_mean": 0.9})
        return Learner(algorithm, carried_by(vehicles, algorithm), Evaluator(algorithm), torch.device("cpu"), 0)

    def play(one: Learner, first: int, last: int) -> None:
        for number in range(first, last):
            clients, progress = np.array([number % 7]), number / 20
            one.begin(number % vehicles, clients, progress, float(number))
            one.update(number % vehicles, Contact(clients, 1, progress, ended_s=number + 0.5))

    one, again = learner(), learner()
    play(one, 0, 9)
    save_state(tmp_path / "state.npz", one.state(), one.constants())
    load_state(tmp_path / "state.npz", again.state())
    for each in (one, again):
        play(each, 9, 20)
    assert torch.equal(one.algorithm.models, again.algorithm.models)
    assert torch.equal(one.algorithm.last_token(), again.algorithm.last_token())
    assert not torch.equal(one.algorithm.last_token(), one.algorithm.token)
