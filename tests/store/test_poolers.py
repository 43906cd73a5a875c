"""A pooler between the store and its server: PgBouncer, where it is installed or in `.tools`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg")

from forestay.store.postgres.store import PostgresStore  # noqa: E402
from forestay.testing.contracts.writing import Appending  # noqa: E402
from forestay.testing.store_contract import batch, put, texts  # noqa: E402
from tests.pgserver import PgServer, end_with_parent, unprivileged_user  # noqa: E402
from tests.store.test_postgres import opened  # noqa: E402
from tests.store.test_postgres_contract import PostgresPlace  # noqa: E402

_TOOLS = Path(__file__).parents[2] / ".tools" / "pgbouncer"  # made by scripts/setup.sh
_PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:{_TOOLS}")
_SETTINGS = """
[databases]
postgres = host={server} user=postgres
[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
auth_type = any
pool_mode = {mode}
default_pool_size = 20
log_connections = 0
log_disconnections = 0
"""

pytestmark = pytest.mark.skipif(_PROGRAM is None, reason="pgbouncer is not installed")


@pytest.fixture(scope="module")
def pools(pg_server: PgServer) -> Iterator[dict[str, str]]:
    """Return the URL of a pooler for each mode."""
    folders = {mode: tempfile.mkdtemp(prefix="fs-pool-") for mode in ("session", "transaction")}
    running = [_started(pg_server, mode, folder) for mode, folder in folders.items()]
    found = {mode: f"postgresql://postgres@/postgres?host={at}" for mode, at in folders.items()}
    yield {mode: f"{url}&port=6432" for mode, url in found.items()}
    for process, folder in zip(running, folders.values(), strict=True):
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder)


def _started(server: PgServer, mode: str, folder: str) -> subprocess.Popen[bytes]:
    settings, who = Path(folder) / "settings", unprivileged_user()
    settings.write_text(_SETTINGS.format(server=server.folder, folder=folder, mode=mode))
    if "user" in who:
        os.chown(folder, who["user"], who["group"])
        settings.chmod(0o644)
    process = subprocess.Popen(
        [str(_PROGRAM), "-q", str(settings)], cwd=folder, preexec_fn=end_with_parent, **who
    )
    deadline = time.monotonic() + 20
    while not (Path(folder) / ".s.PGSQL.6432").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    return process


class TestBehindATransactionPool(Appending):
    """Each transaction may use another connection, and settings of one are lost."""

    @pytest.fixture
    def place(self, pools: dict[str, str], tmp_path: Path) -> PostgresPlace:
        return PostgresPlace(f"{pools['transaction']}&prepare=no", tmp_path / "home")


@pytest.mark.parametrize("pool", ["session", "transaction&prepare=no", "transaction"])
def test_watcher_behind_a_pooler_notices_growth_soon(
    pools: dict[str, str], tmp_path: Path, pool: str
) -> None:
    mode, _, more = pool.partition("&")
    place = PostgresPlace(f"{pools[mode]}{'&' * bool(more)}{more}", tmp_path / "home")
    store, other = opened(place), opened(place, "other")
    put(store, "s1", batch("a"))
    assert not store.watch("s1", 1, 0.01)
    later = threading.Timer(0.2, put, (other, "s1", batch("b")))
    began = time.monotonic()
    later.start()
    assert store.watch("s1", 1, 30) and time.monotonic() - began < 15
    later.join()
    for one in (store, other):
        one.close()


def test_a_session_pooler_needs_no_setting(pools: dict[str, str], tmp_path: Path) -> None:
    place = PostgresPlace(pools["session"], tmp_path / "home")
    store: PostgresStore = opened(place, timeout=7.0)
    for text in "abcdefgh":
        put(store, "s1", batch(text))
    assert texts(store, "s1") == list("abcdefgh")
    waits = store._server.use(lambda one: one.execute("SHOW lock_timeout").fetchone())
    assert waits == ("7s",)
    store.close()
