"""Compile the shim once for the whole run, and start the servers that a sweep may need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.crash.forkserver import build_shim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.pgserver import PgServer


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = build_shim(tmp_path_factory.mktemp("shim"))
    if built is None:
        pytest.skip("the fault shim needs Linux and a C compiler: apt-get install gcc")
    return built


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.bucket(servers.folder_of_run(tmp_path_factory)) as server:
        yield server


@pytest.fixture
def bucket_environment(bucket: servers.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TRAVEL_BUCKET", bucket.address("{}"))


@pytest.fixture
def postgres_environment(pg_server: "PgServer", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAVEL_POSTGRES", pg_server.url.replace("/postgres?", "/{}?"))
