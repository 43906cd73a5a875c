"""Scenarios of push and pull with a server: a bucket, or homes whose store is PostgreSQL.

The servers run outside of the sweep; TRAVEL_BUCKET and TRAVEL_POSTGRES are their addresses, with
`{}` for the prefix or database. Each call to the bucket is a step, and so is each database message.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from forestay.sync.remotes.folder import FolderRemote
from forestay.sync.remotes.open import open_remote
from forestay.sync.remotes.port import Object, Remote
from tests.crash import sync_folder
from tests.crash.scenario import Scenario
from tests.faulty_remotes import Wrapper

_Answer = TypeVar("_Answer")


def _room(home: str) -> Path:
    """Return a folder that is not under faults."""
    return Path(home).parent.parent


# -- a bucket --------------------------------------------------------------------------------------


class _Stepping(Wrapper):
    """Report every call to the shim, so that it may kill before and after it."""

    def __init__(self, inner: Remote) -> None:
        super().__init__(inner)
        self._shim = ctypes.CDLL(None)

    def _step(self, name: bytes, act: Callable[[], _Answer]) -> _Answer:
        verdict = self._shim.shim_meet(name)
        try:
            return act()
        finally:
            self._shim.shim_past(verdict)

    def list(self, prefix: str) -> Iterator[Object]:
        yield from self._step(b"list", lambda: [*self.inner.list(prefix)])

    def get(self, name: str) -> bytes:
        return self._step(b"get", lambda: self.inner.get(name))

    def put(self, name: str, data: bytes) -> bool:
        return self._step(b"put", lambda: self.inner.put(name, data))

    def delete(self, name: str) -> None:
        self._step(b"delete", lambda: self.inner.delete(name))


def _bucket(home: str) -> Remote:
    prefix = (_room(home) / "prefix").read_text()
    return open_remote(os.environ["TRAVEL_BUCKET"].format(prefix))


def _fill_new_prefix(home: str) -> None:
    """Copy what was in the folder when the devices met to an unused prefix of the bucket."""
    (_room(home) / "prefix").write_text(os.urandom(8).hex())
    folder = FolderRemote(str(Path(home).parent / sync_folder.REMOTE))
    bucket = _bucket(home)
    for one in folder.list(""):
        bucket.put(one.name, folder.get(one.name))


def _to_bucket(events: int, *, push: bool, pull: bool, **before: Any) -> Scenario:
    return Scenario(
        prepare=partial(sync_folder.prepare, **before),
        run=partial(
            sync_folder.run, push=push, pull=pull, reach=lambda home: _Stepping(_bucket(home))
        ),
        check=partial(sync_folder.check, events, push=push, reach=_bucket),
        refusals=sync_folder.REFUSALS,
        reset=_fill_new_prefix,
    )


BUCKET_FIRST = _to_bucket(3, push=True, pull=True, meet=False)
BUCKET_PUSH = _to_bucket(6, push=True, pull=False)
BUCKET_PULL = _to_bucket(9, push=False, pull=True, there=3)
BUCKET_BOTH = _to_bucket(9, push=True, pull=True, there=3)


# -- homes on PostgreSQL ---------------------------------------------------------------------------


def _databases(home: str) -> Iterator[tuple[str, str, str]]:
    """Yield each device's name, its database, and the database that holds its initial state."""
    for name in (sync_folder.HERE, sync_folder.THERE):
        yield name, f"now_{_room(home).name}_{name}", f"initial_{_room(home).name}_{name}"


def _execute(*statements: str) -> None:
    import psycopg

    url = os.environ["TRAVEL_POSTGRES"].format("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _prepare_databases(home: str, **before: Any) -> None:
    for name, now, initial in _databases(home):
        _execute(*(f"DROP DATABASE IF EXISTS {one} WITH (FORCE)" for one in (now, initial)))
        _execute(f"CREATE DATABASE {now}")
        folder = Path(home).parent / name
        folder.mkdir(mode=0o700)
        url = os.environ["TRAVEL_POSTGRES"].format(now)
        (folder / "config.toml").write_text(f'store = "{url}"\n')
    sync_folder.prepare(home, **before)
    for _, now, initial in _databases(home):
        _execute(f"CREATE DATABASE {initial} TEMPLATE {now} STRATEGY FILE_COPY")


def _reset_databases(home: str) -> None:
    for _, now, initial in _databases(home):
        _execute(
            f"DROP DATABASE IF EXISTS {now} WITH (FORCE)",
            f"CREATE DATABASE {now} TEMPLATE {initial} STRATEGY FILE_COPY",
        )


def _on_postgres(events: int, *, push: bool, pull: bool, **before: Any) -> Scenario:
    return Scenario(
        prepare=partial(_prepare_databases, **before),
        run=partial(sync_folder.run, push=push, pull=pull),
        check=partial(sync_folder.check, events, push=push),
        refusals=sync_folder.REFUSALS,
        reset=_reset_databases,
    )


POSTGRES_FIRST = _on_postgres(3, push=True, pull=True, meet=False)
POSTGRES_PUSH = _on_postgres(6, push=True, pull=False)
POSTGRES_PULL = _on_postgres(9, push=False, pull=True, there=3)
POSTGRES_BOTH = _on_postgres(9, push=True, pull=True, there=3)
