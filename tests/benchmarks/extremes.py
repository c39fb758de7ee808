"""Run learning with extreme numbers, and see that no run ends as a success with an absurd result.

    python tests/benchmarks/extremes.py                # a few of each kind, as in the tests
    python tests/benchmarks/extremes.py --all --list   # all of them, a line for each

Step sizes from 1 to 10⁶, β and κ at both ends, many local steps, huge features. A run must be done with a loss that is
at most a hundred times that of guessing, or say that it diverged; no table may have a value that is no number.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CLASSES = 10  # of the data of smoke
ABSURD = 100.0  # times the loss of guessing
BASE = {"stop.visits": 20, "learning.alone": False}
ADMM = ("relay", "slack", "derived")
OTHERS = ("fedavg", "ditto", "apfl", "pfedme", "per_fedavg", "fedala", "walkman")
STEPS = (1.0, 10.0, 100.0, 1e4, 1e6)


def variant(name: str, **keys: Any) -> dict[str, Any]:
    """Keys of an algorithm, free of what holds it back."""
    if name not in ADMM:
        return {"kind": name, **keys}
    free = {"try_at": 0.0, "trust": math.inf} if name in ("relay", "slack") else {}
    return {"kind": "rwsadmm", "variant": name, **free, **keys}


def extremes() -> Iterator[tuple[str, dict[str, Any]]]:
    """Names of runs, and their changes to smoke."""
    for step, name in itertools.product(STEPS, (*ADMM, *OTHERS)):
        yield f"{name}, step size {step:g}", {"learning.algorithm": variant(name), "learning.step_size": step}
    for beta, name in itertools.product((1e-6, 1e-3, 1e3, 1e6), ADMM):
        yield f"{name}, β {beta:g}", {"learning.algorithm": variant(name, beta=beta)}
    for kappa, name in itertools.product((10.0, 1e3, 1e6), ("relay", "slack")):
        yield f"{name}, κ {kappa:g}", {"learning.algorithm": variant(name, kappa=kappa)}
    for name, steps in itertools.product(("relay", "fedavg"), (1000, 5000)):
        changes = {"learning.algorithm": variant(name), "learning.local_steps": steps}
        yield f"{name}, {steps} local steps of 3", {**changes, "learning.step_size": 3.0}
    for scale, name in itertools.product((1e2, 1e4, 1e8, 1e18), ("relay", "fedavg", "ditto")):
        yield f"{name}, features × {scale:g}", {"learning.algorithm": variant(name), "features": scale}


def data_file(folder: Path, scale: float) -> Path:
    """Write samples of ten classes, whose features are this large."""
    draws = np.random.default_rng(5)
    labels = draws.integers(0, CLASSES, 900)
    centres = draws.normal(size=(CLASSES, 20))
    features = scale * (centres[labels] + draws.normal(size=(900, 20)))
    file = folder / "samples.npz"
    np.savez(file, features=features, label=labels, client=np.arange(900) % 12)
    return file


def no_numbers(folder: Path) -> list[str]:
    """The columns of a run's tables that have a nan or an inf."""
    from fedmule.simulator.runs.tables import read_table

    tables = {name: read_table(folder, name) for name in ("contacts", "clients", "meetings", "track")}
    return [
        f"{name}.{column}"
        for name, table in tables.items()
        for column in table.column_names
        if pa.types.is_floating(table[column].type) and pc.any(pc.invert(pc.is_finite(table[column]))).as_py()
    ]


def outcome(changes: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Run smoke with these changes: whether it ended as it should, and how it ended, in words."""
    from fedmule.simulator import api
    from fedmule.simulator.errors import UserError

    changes = {**BASE, **changes}
    if (scale := changes.pop("features", None)) is not None:
        changes["learning.dataset"] = {"kind": "file", "path": str(data_file(folder, scale))}
    try:
        run = api.run("smoke", changes, out=str(folder / "run"), quiet=True)
    except UserError as error:
        return True, f"refused: {error}"
    losses = run.contacts["train_loss"].dropna()
    text = f"{run.summary['stopped_by']}, largest loss {losses.max() if len(losses) else math.nan:.3g}"
    if odd := no_numbers(run.folder):
        return False, f"{text}, values that are no numbers: {', '.join(odd)}"
    if run.summary["stopped_by"] == "diverged":
        return True, f"{text}: {run.summary['divergence']}"
    return bool(losses.iloc[-1] <= ABSURD * math.log(CLASSES)), text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true", help="print every run")
    given = parser.parse_args()
    chosen = list(extremes())[:: 1 if given.all else 7]
    wrong = 0
    for name, changes in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            right, text = outcome(changes, Path(scratch))
        wrong += not right
        if given.list or not right:
            print(f"{'ok   ' if right else 'WRONG'} {name}: {text}", flush=True)
    print(f"{len(chosen)} extreme runs, {wrong} end with an absurd result")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
