"""Keys that have other names since format 1: how to say them now, and older files brought up to date."""

from __future__ import annotations

from typing import Any

from fedmule.simulator.errors import Problem
from fedmule.simulator.scenario.raw_tables import mobility_tables

FORMAT = 2  # of scenario files and run folders; 1: an algorithm's numbers stood in [learning]

# Keys of [learning] that are in the algorithm's own table now: the algorithms that have them, and their names there.
ALGORITHM_KEYS: dict[str, tuple[tuple[str, ...], str]] = {
    **{name: (("rwsadmm",), name) for name in ("variant", "kappa", "kappa_decay", "eps", "token_pace", "token", "rho")},
    **{name: (("rwsadmm",), name) for name in ("project_on_arrival", "growing_mean")},
    "beta": (("rwsadmm", "walkman"), "beta"),
    "merge": (("rwsadmm", "walkman"), "merge"),
    "fine_tune": (("fedavg", "ifca", "squad_oracle"), "fine_tune"),
    "ifca_clusters": (("ifca",), "clusters"),
    "ditto_lambda": (("ditto",), "strength"),
    "apfl_alpha": (("apfl",), "alpha"),
    "apfl_adaptive": (("apfl",), "adaptive"),
    "pfedme_lambda": (("pfedme",), "penalty"),
    "pfedme_step_size": (("pfedme",), "outer_step_size"),
    "pfedme_inner_steps": (("pfedme",), "inner_steps"),
    "pfedme_mix": (("pfedme",), "mix"),
    "per_fedavg_step_size": (("per_fedavg",), "adapt_step_size"),
    "per_fedavg_variant": (("per_fedavg",), "variant"),
    "per_fedavg_delta": (("per_fedavg",), "delta"),
    "reference": (("local",), "reference"),
}
# Other keys, and values, by their dotted keys.
KEYS = {
    "learning.places": "sites",
    "learning.dataset.alike_at_places": "alike_at_sites",
    "clients.mobility.places": "positions",
}
VALUES = {
    ("learning.partition_over", "places"): "sites",
    ("clients.mobility", "placed_anew"): "redrawn",
    ("clients.mobility.kind", "placed_anew"): "redrawn",
}
HERD_KEYS = ("memory_s", "step_s")  # of a herd's mobility: its animals wandered at every step
NS3_LOSS_DB = 46.6777  # ns-3's loss at 1 m, that of 5.15 GHz: before, WiFi had it at 2.4 GHz too


def old_keys(raw: dict[str, Any]) -> list[Problem]:
    """Take the keys of format 1 out of a scenario, each with a message that says its new form."""
    problems = []
    learning = raw.get("learning")
    if isinstance(learning, dict):
        for name in [name for name in learning if name in ALGORITHM_KEYS]:
            kinds, new = ALGORITHM_KEYS[name]
            value = learning.pop(name)
            example = f'algorithm = {{ kind = "{kinds[0]}", {new} = … }}'
            message = f"is now learning.algorithm.{new}, in the algorithm's own table: {example}"
            problems.append(Problem(f"learning.{name}", message, value))
    for dotted, new in KEYS.items():
        table, name = _table(raw, dotted)
        if table is not None and name in table:
            problems.append(Problem(dotted, f"is now called {new}", table.pop(name)))
    for (dotted, old), new in VALUES.items():
        table, name = _table(raw, dotted)
        if table is not None and table.get(name) == old:
            problems.append(Problem(dotted, f'is now called "{new}"', table.pop(name)))
    for at, herd in _herds(raw):
        message = "is gone: animals feed at a spot for stop_s and then step stride_m farther"
        problems += [Problem(f"{at}.{name}", message, herd.pop(name)) for name in HERD_KEYS if name in herd]
    return problems


def upgrade(raw: dict[str, Any]) -> None:
    """Bring a scenario of format 1 up to date. Numbers of algorithms that it does not use are dropped."""
    raw["format"] = FORMAT
    for dotted, new in KEYS.items():
        table, name = _table(raw, dotted)
        if table is not None and name in table:
            table[new] = table.pop(name)
    for (dotted, old), new in VALUES.items():
        table, name = _table(raw, dotted)
        if table is not None and table.get(name) == old:
            table[name] = new
    learning = raw.get("learning")
    if not isinstance(learning, dict):
        return
    flat = {name: learning.pop(name) for name in list(learning) if name in ALGORITHM_KEYS}
    reference = flat.pop("reference", "rwsadmm")
    chosen = _with_numbers(learning.get("algorithm", "rwsadmm"), flat)
    if chosen.get("kind") == "local":
        chosen["reference"] = _with_numbers(reference, flat)
    learning["algorithm"] = chosen


def keep_meaning(raw: dict[str, Any]) -> None:
    """Complete the scenario of a run folder, which states all keys, by those that did not exist when it was written."""
    vehicle, clients = raw.setdefault("vehicle", {}), raw.setdefault("clients", {})
    if isinstance(vehicle, dict) and "contact" not in vehicle:
        vehicle |= {"contact": "approach", "in_passing": False}
    for _, herd in _herds(raw):
        for name in HERD_KEYS:
            herd.pop(name, None)  # herds cannot move as they did then
    if isinstance(clients, dict) and "report_stagger" not in clients:
        clients["report_stagger"] = False
        radio = raw.get("radio", {})
        radio = {"kind": radio} if isinstance(radio, str) else radio
        if isinstance(radio, dict) and radio.get("kind", "wifi_direct") == "wifi_direct" and "propagation" not in radio:
            raw["radio"] = {"reference_loss_db": NS3_LOSS_DB, **radio}


def _herds(raw: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(at, table) for at, table in mobility_tables(raw).items() if table.get("kind") == "herd"]


def _with_numbers(algorithm: Any, flat: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = dict(algorithm) if isinstance(algorithm, dict) else {"kind": algorithm}
    for name, value in flat.items():
        kinds, new = ALGORITHM_KEYS[name]
        if table.get("kind") in kinds:
            table[new] = value
    return table


def _table(raw: dict[str, Any], dotted: str) -> tuple[dict[str, Any] | None, str]:
    """Return the table a dotted key stands in, if there is one, and the key's own name."""
    *parents, name = dotted.split(".")
    table: Any = raw
    for parent in parents:
        table = table.get(parent) if isinstance(table, dict) else None
    return (table if isinstance(table, dict) else None), name
