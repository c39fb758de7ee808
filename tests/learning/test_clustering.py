"""FedAvg with several models: IFCA, and the oracle that knows the true clusters."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Contact

STATE = ("models", "token", "participations", "released", "last_step_sq")


def same(one, other):
    for name in STATE:
        assert np.array_equal(np.asarray(getattr(one, name)), np.asarray(getattr(other, name))), name


def at_sites(small, site):
    return replace(small, data=replace(small.data, site=np.array(site)))


def in_two(shared, seed, clients=12, samples=40):
    """Clients with one of two opposite linear rules, and which [n]."""
    small = shared(clients=clients, seed=seed, samples=samples)
    group = np.random.default_rng(seed).permutation(np.arange(clients) % 2)
    owner = torch.from_numpy(np.repeat(group, samples))
    labels = torch.where(owner == 1, small.data.classes - 1 - small.data.labels, small.data.labels)
    return replace(small, data=replace(small.data, labels=labels)), group


# --- IFCA --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fine_tune", [False, True])
@pytest.mark.parametrize("double", [True, False])
def test_with_one_cluster_it_is_fedavg_bit_for_bit(problem, contacts, fine_tune, double):
    small = problem(double=double)
    keys = {"fine_tune": fine_tune, "open_at": 0.6, "local_steps": 3}
    ifca, fedavg = small.build("ifca", clusters=1, **keys), small.build("fedavg", **keys)
    for contact in contacts(7, 30):
        assert ifca.update(contact) == fedavg.update(contact)
        same(ifca, fedavg)
    assert ifca.released.any() == fine_tune
    assert torch.equal(ifca.tokens(np.arange(7)), fedavg.token.repeat(7, 1))


def test_clusters_start_apart_with_the_same_distribution(problem):
    algorithm = problem(features=60).build("ifca", clusters=5)
    centres, start = algorithm.centres, algorithm.models[0]
    assert torch.equal(centres[0], start)
    assert torch.equal(centres.abs(), start.abs().repeat(5, 1))
    for i in range(5):
        for j in range(i):
            assert 0.3 < float((centres[i] != centres[j]).double().mean()) < 0.7
    again = problem(features=60).build("ifca", clusters=5)
    assert torch.equal(again.centres, centres)
    assert not torch.equal(problem(features=60, seed=2).build("ifca", clusters=5).centres.sign(), centres.sign())


def best(plain, algorithm, client):
    losses = [plain.train_loss(centre.numpy(), algorithm.data, client) for centre in algorithm.centres]
    return int(np.argmin(losses))


def test_clients_choose_the_cluster_of_lowest_loss_and_only_chosen_clusters_move(problem, plain, contacts):
    """Complete updates against numpy."""
    small = problem()
    keys = {"clusters": 4, "local_steps": 3, "batch_size": 6}
    algorithm, replay = small.build("ifca", **keys), plain.Replay(small.build("fedavg", **keys))
    seen, kept = set(), 0
    for contact in contacts(7, 25):
        before = algorithm.centres.clone()
        chosen = [best(plain, algorithm, int(i)) for i in contact.clients]
        assert torch.equal(algorithm.tokens(contact.clients), before[chosen])
        trained = []
        for k, batches in zip(chosen, replay.batches(contact.clients), strict=True):
            x = before[k].numpy()
            for rows in batches:
                x = x - 0.1 * replay.gradient(x, rows)
            trained.append(x)
        update = algorithm.update(contact)
        np.testing.assert_allclose(algorithm.models[contact.clients].numpy(), trained, atol=1e-10)
        np.testing.assert_array_equal(algorithm.cluster[contact.clients], chosen)
        counts = small.data.train_count[contact.clients]
        for k in range(4):
            members = [m for m, c in enumerate(chosen) if c == k]
            if members:
                mean = np.average([trained[m] for m in members], axis=0, weights=counts[members])
                np.testing.assert_allclose(algorithm.centres[k].numpy(), mean, atol=1e-10)
            else:
                assert torch.equal(algorithm.centres[k], before[k])
                kept += 1
        assert update.token_step_norm == pytest.approx(float((algorithm.centres - before).norm()))
        torch.testing.assert_close(algorithm.token, algorithm.centres.mean(dim=0))
        seen |= set(chosen)
    assert len(seen) > 1
    assert kept > 0


@pytest.mark.parametrize("seed", range(3))
def test_two_planted_groups_are_found(shared, seed):
    small, group = in_two(shared, seed)
    algorithm = small.build("ifca", clusters=2, local_steps=5)
    generator = np.random.default_rng(seed)
    for _ in range(60):
        algorithm.update(meet(np.sort(generator.choice(12, 4, replace=False))))
    cluster = algorithm.cluster if algorithm.cluster[0] == group[0] else 1 - algorithm.cluster
    np.testing.assert_array_equal(cluster, group)


def meet(clients, progress=0.0):
    return Contact(np.asarray(clients), len(clients), progress)


def test_a_client_never_met_would_receive_its_best_cluster(shared):
    small, group = in_two(shared, 0)
    algorithm = small.build("ifca", clusters=2, local_steps=5)
    for _ in range(25):
        algorithm.update(meet(np.arange(8)))
    mine = {g: int(algorithm.cluster[:8][group[:8] == g][0]) for g in (0, 1)}
    assert mine[0] != mine[1]
    expected = algorithm.centres[[mine[g] for g in group[8:]]]
    assert torch.equal(algorithm.tokens(np.arange(8, 12)), expected)
    assert not algorithm.participations[8:].any()
    assert not algorithm.cluster[8:].any()  # asking for tokens does not change the choice


def test_cost_of_an_exchange(problem, contact):
    small = problem()
    keys = {"fine_tune": True, "open_at": 0.5}
    algorithm, fedavg = small.build("ifca", clusters=3, **keys), small.build("fedavg", **keys)
    who, size = np.array([1, 2, 4]), 4 * 18
    trials = 3 * small.model.flops(1) / 3 * small.data.train_count[who]
    exchange, plainly = algorithm.exchange(who, 0.4), fedavg.exchange(who, 0.4)
    assert exchange.bytes_down.tolist() == [3 * size] * 3
    assert exchange.bytes_up.tolist() == [size + 4] * 3  # plus the index of the model
    np.testing.assert_allclose(exchange.flops, plainly.flops + trials)
    assert exchange.broadcast
    algorithm.update(contact(2, progress=0.5))
    exchange = algorithm.exchange(who, 0.6)
    assert exchange.bytes_down.tolist() == [3 * size, 0, 3 * size]
    assert exchange.bytes_up.tolist() == [0] * 3
    np.testing.assert_allclose(exchange.flops, plainly.flops + trials * [1, 0, 1])


def test_after_the_opening_clients_train_alone_from_their_cluster(problem, plain, contacts):
    small = problem()
    keys = {"clusters": 3, "fine_tune": True, "open_at": 0.5, "local_steps": 3}
    algorithm, twin = small.build("ifca", **keys), small.build("ifca", **keys)
    for contact in contacts(7, 15, progress=0.4):
        algorithm.update(contact)
        twin._batches(contact.clients)
    centres, replay, own = algorithm.centres.clone(), plain.Replay(twin), {}
    for contact in contacts(7, 20, seed=2, progress=0.6):
        first = {i: centres[best(plain, algorithm, i)].numpy() for i in contact.clients.tolist()}
        update = algorithm.update(contact)
        assert update.token_step_norm == 0
        for client, batches in zip(contact.clients.tolist(), replay.batches(contact.clients), strict=True):
            x = own.get(client, first[client])
            for rows in batches:
                x = x - 0.1 * replay.gradient(x, rows)
            own[client] = x
            np.testing.assert_allclose(algorithm.models[client].numpy(), x, atol=1e-10)
    assert torch.equal(algorithm.centres, centres)
    assert len(own) == 7


# --- the oracle --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fine_tune", [False, True])
def test_the_oracle_is_fedavg_within_each_site(problem, contacts, fine_tune):
    small = problem()
    site = np.array([0, 2, 1, 0, 2, 2, 1])
    keys = {"fine_tune": fine_tune, "open_at": 0.6, "local_steps": 3}
    oracle = at_sites(small, site).build("squad_oracle", **keys)
    apart = [small.build("fedavg", **keys) for _ in range(3)]
    for contact in contacts(7, 40):
        oracle.update(contact)
        for at, fedavg in enumerate(apart):
            mine = contact.clients[site[contact.clients] == at]
            if len(mine):
                fedavg.update(replace(contact, clients=mine))
    for client, at in enumerate(site):
        torch.testing.assert_close(oracle.models[client], apart[at].models[client], rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(oracle.tokens(np.array([client]))[0], apart[at].token, rtol=1e-12, atol=1e-13)
    assert oracle.released.any() == fine_tune


def test_the_oracle_gives_a_client_never_met_the_model_of_its_site(problem, contact):
    small = problem()
    oracle = at_sites(small, [0, 1, 1, 0, 0, 1, 1]).build("squad_oracle")
    oracle.update(contact(0, 1))
    assert torch.equal(oracle.tokens(np.array([3, 2])), oracle.centres)
    assert not torch.equal(*oracle.centres)


def test_the_oracle_follows_clients_that_move(problem, contact):
    oracle = at_sites(problem(), [0, 1, 1, 0, 0, 1, 1]).build("squad_oracle", step_size=1e-9, local_steps=1)
    oracle.centres[1] += 1.0
    oracle.data.site[0] = 1
    oracle.update(contact(0))
    torch.testing.assert_close(oracle.models[0], oracle.centres[1], atol=1e-6, rtol=0)


def test_the_oracle_sends_by_unicast(problem):
    oracle = at_sites(problem(), [0, 1, 1, 0, 0, 1, 1]).build("squad_oracle")
    exchange = oracle.exchange(np.array([0, 1]), 0.0)
    assert exchange.bytes_down.tolist() == exchange.bytes_up.tolist() == [4 * 18] * 2
    np.testing.assert_array_equal(exchange.flops, problem().build("fedavg").exchange(np.array([0, 1]), 0.0).flops)
    assert not exchange.broadcast
