"""Tests that the examples in the documentation run, and that the stubs are complete."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import classify_knn

MODULES = [name for _, name, _ in pkgutil.iter_modules(classify_knn.__path__) if name not in ("_native", "spark")]


@pytest.mark.parametrize("name", ["classify_knn", *(f"classify_knn.{name}" for name in MODULES)])
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("public", classify_knn.__all__)
def test_everything_public_is_documented(public):
    found = getattr(classify_knn, public)
    if isinstance(found, str):
        return
    assert found.__doc__
    if isinstance(found, type) and not issubclass(found, Exception):
        methods = [name for name in vars(found) if not name.startswith("_") and callable(getattr(found, name))]
        missing = [name for name in methods if not getattr(found, name).__doc__]
        assert not missing, missing


def test_stubs():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "classify_knn._native"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
