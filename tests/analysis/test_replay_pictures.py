"""Pictures and animations of a run, drawn without a browser, show what the run logged."""

from __future__ import annotations

import dataclasses
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fedmule.analysis import Run, load_run
from fedmule.analysis.replay.film import Camera, FilmError, write_gif, write_mp4
from fedmule.analysis.replay.moments import Moments, accuracy_range
from fedmule.analysis.replay.palette import Palette
from fedmule.analysis.replay.scene import Scene, clock
from fedmule.simulator.runs.run import run_scenario
from fedmule.simulator.scenario import Scenario

SCENARIO: dict[str, Any] = {
    "name": "pictures $x$",
    "terrain": {"size_m": [300, 200], "obstacles": [{"name": "shed", "polygon": [[120, 60], [180, 60], [150, 90]]}]},
    "clients": {
        "count": 9,
        "mobility": {"kind": "squads", "squads": 3, "speed_mps": [2.0, 4.0], "pause_s": [5.0, 9.0]},
    },
    "vehicle": {"count": 2},
    "radio": {"kind": "disc", "range_m": 60, "rate_mbps": 0.02},
    "learning": {
        "algorithm": {"kind": "rwsadmm", "try_at": 0.0},
        "dataset": {"samples": [20, 60]},
        "evaluate_every": 5,
    },
    "stop": {"visits": 30},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pictures") / "run"
    run_scenario(Scenario.model_validate(SCENARIO), str(folder), quiet=True)
    return load_run(folder)


def ignore(share: float) -> None:
    """Take no notice of progress."""


def test_everyone_is_where_the_track_says(run: Run) -> None:
    """Against linear interpolation of the columns; absent, and after a jump, as logged."""
    end_s = float(run.track["sim_time_s"].max())
    own = pd.DataFrame(
        {
            "sim_time_s": [0.0, 10.0, 10.0, 20.0, 20.0, 30.0],
            "node": "client",
            "id": 4,
            "x_m": [10.0, 20.0, 200.0, 210.0, np.nan, 50.0],
            "y_m": [10.0, 10.0, 100.0, 100.0, np.nan, 30.0],
        }
    )
    rest = run.track[~((run.track["node"] == "client") & (run.track["id"] == 4))]
    moments = Moments(dataclasses.replace(run, track=pd.concat([rest, own])))
    for time_s in [*np.random.default_rng(0).uniform(0, end_s, 20), 0.0, end_s]:
        for node, found in zip(("vehicle", "client"), moments.everyone(time_s), strict=True):
            for number, position in enumerate(found):
                rows = run.track[(run.track["node"] == node) & (run.track["id"] == number)]
                if (node, number) != ("client", 4):
                    expected = [np.interp(time_s, rows["sim_time_s"], rows[c]) for c in ("x_m", "y_m")]
                    np.testing.assert_allclose(position, expected, atol=1e-6)
    seen = {t: moments.everyone(t)[1][4].tolist() for t in (5.0, 9.999, 10.0, 15.0, 30.0, end_s)}
    expected = {5.0: [15, 10], 9.999: [20, 10], 10.0: [200, 100], 15.0: [205, 100], 30.0: [50, 30], end_s: [50, 30]}
    assert all(seen[t] == pytest.approx(expected[t], abs=0.01) for t in seen)
    assert np.isnan(moments.everyone(25.0)[1][4]).all()


def test_a_client_takes_its_colour_at_its_contact(run: Run) -> None:
    moments = Moments(run)
    now = run.clients[run.clients["contact"] == 0].set_index("client")["test_acc"].to_dict()
    for row in run.contacts.itertuples():
        now |= dict(zip(row.delivered_ids, row.delivered_test_acc, strict=True))
        if (run.clients["contact"] == row.contact).any():
            now = run.clients[run.clients["contact"] == row.contact].set_index("client")["test_acc"].to_dict()
        np.testing.assert_array_equal(moments.accuracy(row.sim_time_s), [now[i] for i in range(9)])
    again = moments.accuracy(run.contacts["sim_time_s"].iloc[3]).copy()  # back in time
    np.testing.assert_array_equal(again, Moments(run).accuracy(run.contacts["sim_time_s"].iloc[3]))


def test_links_are_those_of_the_contacts_and_stay_a_while(run: Run) -> None:
    moments = Moments(run)
    begin, end = run.contacts["sim_time_s"] - run.contacts["contact_s"], run.contacts["sim_time_s"]
    assert (run.contacts["delivered"] < run.contacts["active"]).any()
    for row in run.contacts[run.contacts["contact_s"] > 0].itertuples():
        middle = row.sim_time_s - row.contact_s / 2
        under_way = run.contacts[(begin <= middle) & (middle <= end)]
        links = moments.links(middle)
        assert len(links.delivered) == under_way["active"].sum()
        assert links.delivered.sum() == under_way["delivered"].sum()
        assert (links.alpha == 1).all()
    last = run.contacts[run.contacts["active"] > 0].iloc[-1]
    at_end = moments.links(last["sim_time_s"])
    held = moments.links(last["sim_time_s"] + 3.0, hold_s=4.0, fade_s=2.0)
    fading = moments.links(last["sim_time_s"] + 5.0, hold_s=4.0, fade_s=2.0)
    assert held.alpha[-1] == 1
    assert fading.alpha[-1] == pytest.approx(0.5)
    np.testing.assert_allclose(fading.client[-1], at_end.client[-1])  # where it was, not where it went


def test_a_moment_is_drawn_with_its_figures(run: Run) -> None:
    scene = Scene(run, client=4)
    time_s = float(run.contacts["sim_time_s"].iloc[12])
    scene.show(time_s)
    past = run.contacts[run.contacts["sim_time_s"] <= time_s]
    assert scene.clock.get_text() == f"{clock(time_s)}   contact {scene.moments.begun(time_s)} of {len(run.contacts)}"
    assert f"personal {100 * past['personal_test_acc_mean'].iloc[-1]:.1f} %" in scene.readout.get_text()
    assert "alone" in scene.readout.get_text()
    assert [len(of) for of, _ in scene.marks] == [3, 3, 3]
    paths = {str(mark.get_paths()[0].vertices.tolist()) for _, mark in scene.marks}
    assert len(paths) == 3  # a shape for each squad
    assert [circle.get_radius() for circle in scene.circles] == [60, 60]
    vehicles = scene.moments.everyone(time_s)[0]
    np.testing.assert_allclose([circle.get_center() for circle in scene.circles], vehicles)
    np.testing.assert_allclose(scene.ring.get_offsets()[0], scene.moments.everyone(time_s)[1][4])


def test_many_groups_are_named_on_the_map(run: Run) -> None:
    mobility = {"kind": "squads", "squads": 9}
    nine = {**run.scenario, "clients": {**run.scenario["clients"], "mobility": mobility}}
    scene = Scene(dataclasses.replace(run, scenario=nine))
    scene.show(20.0)
    assert [text.get_text() for _, text in scene.named] == [f"squad {i}" for i in range(9)]
    positions = [text.get_position() for _, text in scene.named]
    np.testing.assert_allclose(positions, scene.moments.everyone(20.0)[1])


def test_an_animation_shows_the_run_from_beginning_to_end(run: Run, tmp_path: Path) -> None:
    file, shares = tmp_path / "run.gif", list[float]()
    write_gif(Scene(run), file, 1.0, shares.append)
    with Image.open(file) as film:
        assert film.n_frames == 12 == len(shares)
        durations, frames = [], []
        for i in range(film.n_frames):
            film.seek(i)
            durations.append(film.info["duration"])
            frames.append(np.asarray(film.convert("RGB")).astype(int))
        assert film.info["loop"] == 0
    assert durations == [80] * 11 + [1500]
    assert all((a != b).any() for a, b in pairwise(frames))
    camera = Camera(Scene(run), 1.0)
    for share, frame in ((0.0, frames[0]), (1.0, frames[-1])):
        assert np.abs(camera.pixels(share).astype(int) - frame).mean() < 1
    assert list(tmp_path.iterdir()) == [file]


def test_an_animation_that_fails_leaves_the_old_one(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "run.gif"
    file.write_bytes(b"GIF89a old")

    def stop(share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_gif(Scene(run), file, 1.0, stop)
    assert file.read_bytes() == b"GIF89a old"
    assert list(tmp_path.iterdir()) == [file]


def fake_ffmpeg(folder: Path, ending: str) -> str:
    """A program that takes frames as ffmpeg does, and notes how it was called."""
    program = folder / "ffmpeg"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/asked\n{ending}\n', encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_a_video_gets_all_frames(run: Run, tmp_path: Path) -> None:
    ffmpeg = fake_ffmpeg(tmp_path, 'for last; do :; done\ncat > "$last"')
    file = tmp_path / "run.mp4"
    write_mp4(Scene(run), file, 1.0, ffmpeg, ignore)
    asked = (tmp_path / "asked").read_text().split()
    width, height = map(int, asked[asked.index("-s") + 1].split("x"))
    assert width % 2 == height % 2 == 0
    frames = np.fromfile(file, np.uint8).reshape(-1, height, width, 3)
    assert len(frames) == 25
    np.testing.assert_array_equal(frames[-1], Camera(Scene(run), 1.0).pixels(1.0))


def test_a_video_that_fails_says_why(run: Run, tmp_path: Path) -> None:
    ffmpeg = fake_ffmpeg(tmp_path, 'echo "Unknown encoder" >&2; exit 1')
    (tmp_path / "run.mp4").write_bytes(b"old")
    with pytest.raises(FilmError, match="Unknown encoder"):
        write_mp4(Scene(run), tmp_path / "run.mp4", 1.0, ffmpeg, ignore)
    assert (tmp_path / "run.mp4").read_bytes() == b"old"
    assert not list(tmp_path.glob("*.partial"))


def test_plain_areas_keep_their_colours() -> None:
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (60, 60, 3)).astype(np.uint8)
    pixels[:30] = 252
    pixels[:20] = 255
    found = np.asarray(Palette(pixels).image(pixels).convert("RGB"))
    np.testing.assert_array_equal(found[:30], pixels[:30])
    assert np.abs(found.astype(int) - pixels).mean() < 25


def test_the_scale_is_rounded_outwards() -> None:
    assert accuracy_range(np.array([0.52, np.nan, 0.87])) == pytest.approx((0.5, 0.9))
    assert accuracy_range(np.array([0.5, 0.5])) == pytest.approx((0.45, 0.55))
    assert accuracy_range(np.array([np.nan])) == (0.0, 1.0)


def test_a_run_without_contacts_or_positions_has_its_picture(run: Run) -> None:
    empty = dataclasses.replace(
        run, contacts=run.contacts.head(0), clients=run.clients.head(0), track=run.track.head(40)
    )
    Scene(empty).show(0.0)
    old = dataclasses.replace(
        run,
        contacts=run.contacts.drop(columns=["delivered_test_acc", "alone_test_acc_mean"]),
        clients=run.clients.drop(columns=["site", "alone_test_acc"]),
    )
    scene = Scene(old)
    scene.show(scene.moments.end_s)
    assert "alone" not in scene.readout.get_text()
