"""What all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from small_scenario import SMALL, merged

from fedmule.simulator.scenario import Scenario

# Property tests try the same examples every time: a failure can be repeated, and a change is what caused it.
hypothesis.settings.register_profile("repeat", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeat")


@pytest.fixture
def small() -> Callable[..., Scenario]:
    """small(**changes): a scenario that runs in a fraction of a second."""

    def make(**changes: Any) -> Scenario:
        replaced = {name: changes.pop(name) for name in ("stop",) if name in changes}
        return Scenario.model_validate({**merged(SMALL, changes), **replaced})

    return make


@pytest.fixture(scope="session")
def mnist_folder() -> Path:
    """Folder of MNIST's four files, beside the repository: the only data that tests read outside it."""
    folder = Path(__file__).parents[2] / "shared" / "data" / "mnist"
    if not folder.is_dir():
        pytest.skip("MNIST is not beside the repository (../shared/data/mnist)")
    return folder
