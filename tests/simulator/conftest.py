"""Runs that are refused and runs that are accepted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unfit import FEW, PARTS, RUN, Run

from fedmule.analysis import load_run
from fedmule.simulator.cli import main


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "unfit_parts.py").write_text(PARTS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "unfit_parts", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDMULE_DATA", str(tmp_path / "cache"))
    yield tmp_path
    sys.modules.pop("unfit_parts", None)


@pytest.fixture
def refused(desk: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """refused(*sets): the error message of an impossible run, which must leave no files behind."""

    def run(*sets: str) -> str:
        assert main([*RUN, *(part for text in [*FEW, *sets] for part in ("--set", text))]) == 2
        assert not (desk / "run").exists()
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run


@pytest.fixture
def accepted(desk: Path) -> Callable[..., None]:
    def run(*sets: str) -> None:
        assert main([*RUN, *(part for text in [*FEW, *sets] for part in ("--set", text))]) == 0
        assert load_run("run").summary["visits"] == 3

    return run


@pytest.fixture
def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    columns = {name: generator.normal(size=60) for name in "abc"}
    return pd.DataFrame({**columns, "label": generator.integers(0, 3, 60)})
