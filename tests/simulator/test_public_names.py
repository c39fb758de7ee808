"""The public names of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fedmule

NAMES = {
    *("run", "study", "compare", "find", "load_run", "load_study", "Scenario"),
    *("Movement", "Radio", "Algorithm", "Policy", "Samples"),
}


def test_the_names_are_there_and_no_others() -> None:
    assert set(fedmule.__all__) == NAMES
    assert set(dir(fedmule)) >= NAMES
    assert all(callable(getattr(fedmule, name)) for name in NAMES)
    with pytest.raises(AttributeError, match="has no attribute 'simulate'"):
        fedmule.simulate  # noqa: B018


def test_base_classes_are_those_that_parts_derive_from() -> None:
    from fedmule.learning.algorithms.rwsadmm import Slack
    from fedmule.mobility.models.static import Static
    from fedmule.radio.radios.disc import Disc
    from fedmule.radio.walks.tour import Tour

    for part, name in ((Slack, "Algorithm"), (Static, "Movement"), (Disc, "Radio"), (Tour, "Policy")):
        assert issubclass(part, getattr(fedmule, name))


def test_the_package_itself_imports_nothing_heavy() -> None:
    code = "import sys, fedmule; sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'pandas', 'pydantic')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
