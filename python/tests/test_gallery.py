"""Tests that the gallery programs run and draw their charts."""

import pathlib
import subprocess
import sys

import pytest

GALLERY = pathlib.Path(__file__).parents[1] / "gallery"
PROGRAMS = sorted(path for path in GALLERY.glob("*.py") if path.name != "sample.py")


def test_there_are_five_programs():
    assert len(PROGRAMS) == 5


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program, tmp_path):
    pytest.importorskip("matplotlib")
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{program.stem}.png").stat().st_size > 10_000
