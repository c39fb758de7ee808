"""State that is saved and restored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fedmule.learning.algorithms.base import Settings
from fedmule.simulator.errors import StateError
from fedmule.simulator.runs.state import load_state, save_state


def thing(fill: float) -> Any:
    """Something with every kind of state, all of it different for different fills."""
    models = torch.full((3, 4), fill)
    return SimpleNamespace(
        models=models,
        same=models,
        counts=np.full(5, int(fill)),
        flags=np.full(2, fill > 1),
        scale=fill / 3,
        never=None if fill > 1 else "x",
        endless=float("inf") * fill,
        near=[{7: fill, 9: 2.0}, {}] if fill > 1 else [{}, {}, {}],
        pair=(torch.tensor(fill, dtype=torch.float64), int(fill)),
        seen={3, int(fill)},
        inner=SimpleNamespace(deep=np.array([fill, np.nan])),
        generator=np.random.default_rng(int(fill)),
        settings=Settings(fill, 1, 1, 1.0),
        draw=lambda: fill,
        number=np.float64(fill),
    )


def test_everything_comes_back_and_arrays_stay_shared(tmp_path: Path) -> None:
    written, other = thing(5.0), thing(1.0)
    written.generator.random(3)
    save_state(tmp_path / "state.npz", {"thing": written})
    counts = other.counts
    load_state(tmp_path / "state.npz", {"thing": other})
    assert torch.equal(other.models, torch.full((3, 4), 5.0))
    assert other.same is other.models
    assert other.counts is counts
    assert counts.tolist() == [5] * 5
    assert other.flags.tolist() == [True, True]
    assert (other.scale, other.never, other.endless) == (5 / 3, None, float("inf"))
    assert other.near == [{7: 5.0, 9: 2.0}, {}]
    assert other.pair[0].dtype == torch.float64
    assert (float(other.pair[0]), other.pair[1]) == (5.0, 5)
    assert other.seen == {3, 5}
    np.testing.assert_array_equal(other.inner.deep, [5.0, np.nan])
    assert other.generator.random() == written.generator.random()
    assert (other.settings, other.number) == (Settings(5.0, 1, 1, 1.0), 5.0)
    assert other.draw() == 1.0  # functions are not kept
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state.npz"]


def test_constants_are_left_out(tmp_path: Path) -> None:
    inside = SimpleNamespace(x=1)
    outer = SimpleNamespace(model=inside, y=2)
    save_state(tmp_path / "state.npz", {"outer": outer}, constants=[inside])
    inside.x, outer.y = 3, 4
    load_state(tmp_path / "state.npz", {"outer": outer})
    assert (inside.x, outer.y) == (3, 2)


@pytest.mark.parametrize("odd", [torch.nn.Linear(2, 2), object(), np.array([{}], dtype=object)])
def test_what_cannot_be_saved_is_named(tmp_path: Path, odd: Any) -> None:
    with pytest.raises(StateError, match=r"thing\.parts\[1\] is a"):
        save_state(tmp_path / "state.npz", {"thing": SimpleNamespace(parts=[1, odd])})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keep", [0, 1, 100, 700])
def test_a_damaged_file_is_reported(tmp_path: Path, keep: int) -> None:
    save_state(tmp_path / "state.npz", {"thing": thing(5.0)})
    complete = (tmp_path / "state.npz").read_bytes()
    assert len(complete) > 700
    (tmp_path / "state.npz").write_bytes(complete[:keep])
    with pytest.raises(StateError, match=r"state\.npz: its content has changed"):
        load_state(tmp_path / "state.npz", {"thing": thing(1.0)})


def test_the_state_of_other_objects_is_refused(tmp_path: Path) -> None:
    save_state(tmp_path / "state.npz", {"thing": thing(5.0)})
    with pytest.raises(StateError, match="has the state of thing, not of algorithm"):
        load_state(tmp_path / "state.npz", {"algorithm": thing(1.0)})
