"""The shim, compiled once for the whole run."""

from pathlib import Path

import pytest

from tests.crash.forkserver import build_shim


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = build_shim(tmp_path_factory.mktemp("shim"))
    if built is None:
        pytest.skip("the fault shim needs Linux and a C compiler: apt-get install gcc")
    return built
