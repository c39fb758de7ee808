"""Archives that unpack to far more than their size, and tables larger than the memory, are refused before they are."""

from __future__ import annotations

import bz2
import gzip
import lzma
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzz import scenario_with

from fedmule.learning import free_memory
from fedmule.simulator.cli import main

FOLLOWS = ["--set", 'vehicle.follows="0"', "--set", "stop.sim_time_s=60"]
PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
ENTITIES = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
BOMB = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "lol">{ENTITIES}]>'


@pytest.mark.parametrize("suffix", PACK)
def test_a_trace_or_a_map_that_unpacks_to_far_more(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, town = tmp_path / f"bomb.csv{suffix}", tmp_path / f"bomb.geojson{suffix}"
    trace.write_bytes(PACK[suffix](b"node,t,x,y\n" + b"0,1,2,3\n" * (1 << 23)))  # 64 MB
    town.write_bytes(PACK[suffix](b"{" + b" " * (1 << 26)))
    commands = [
        ["trace", str(trace)],
        ["contacts", str(trace), "--range-m", "10"],
        ["check", "smoke", "--set", f'terrain.obstacles="{town}"'],
        scenario_with("clients.mobility", kind='"trace"')(trace),
        [*scenario_with("clients.mobility", kind='"contacts"')(trace), *FOLLOWS],
    ]
    for command in commands:
        began = time.process_time()
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "bomb." in said
        assert "unpacks to more than 200 times its size" in said
        assert time.process_time() - began < 10  # 0.2 to 0.7 as measured


def test_a_trace_that_is_packed_well_is_read(tmp_path: Path) -> None:
    rows = "".join(f"{i % 50},{i // 50},{i % 97},{i % 89}\n" for i in range(150_000))
    (tmp_path / "sound.csv.gz").write_bytes(gzip.compress(f"node,t,x,y\n{rows}".encode()))
    assert main(["trace", str(tmp_path / "sound.csv.gz"), "--plot", str(tmp_path / "t.png")]) == 0


def said_of(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    dataset = f'learning.dataset={{ kind = "file", path = "{file}" }}'
    assert main(["check", "smoke", "--set", dataset]) == 2
    assert file.name in capsys.readouterr().err
    assert main(["run", "smoke", "--quiet", "--out", str(file.parent / "run"), "--set", dataset]) == 2
    return capsys.readouterr().err


def test_data_that_unpack_to_far_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(b"x,y,label\n" + b"0,1,2\n" * (1 << 23)))
    assert "data.csv.gz: unpacks to more than 200 times its size" in said_of(tmp_path / "data.csv.gz", capsys)


def test_data_larger_than_the_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before they are unpacked: 800 MB of zeros in an npz file of 1 MB, 640 MB in a Parquet file, with 500 MB free."""
    import pyarrow as pa
    from pyarrow import parquet

    with zipfile.ZipFile(tmp_path / "data.npz", "w", zipfile.ZIP_DEFLATED) as arrays, arrays.open("x.npy", "w") as file:
        for _ in range(800):
            file.write(bytes(10**6))
    table = pa.table({"x": np.zeros(10**7), "label": np.zeros(10**7, dtype=np.int64)})
    with parquet.ParquetWriter(tmp_path / "data.parquet", table.schema, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(table)
    (tmp_path / "meminfo").write_text("MemAvailable: 488282 kB\n")
    monkeypatch.setattr(free_memory, "MEMINFO", tmp_path / "meminfo")
    assert "npz: needs 800.0 MB at least, but 500.0 MB of memory are free" in said_of(tmp_path / "data.npz", capsys)
    assert "data.parquet: needs 640.0 MB at least, but 500.0 MB" in said_of(tmp_path / "data.parquet", capsys)


@pytest.mark.parametrize("name", ["bomb.gpx", "bomb.xml"])
def test_entities_are_not_expanded(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inside = "<gpx><trk><name>&e9;</name></trk></gpx>" if name == "bomb.gpx" else "<fcd-export>&e9;</fcd-export>"
    (tmp_path / name).write_text(BOMB + inside)
    began = time.process_time()
    assert main(["trace", str(tmp_path / name)]) == 2
    assert f"{name}, line 1: is not XML: limit on input amplification factor" in capsys.readouterr().err
    assert time.process_time() - began < 5
