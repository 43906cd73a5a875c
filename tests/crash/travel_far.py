"""Push and pull under kills where a server is in it: a bucket, or homes whose store is PostgreSQL.

The servers run beside the sweep; TRAVEL_BUCKET and TRAVEL_POSTGRES are their addresses, with `{}`
for the place in them. A call to the bucket is a step, and so is each message to the database.
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
from tests.crash import travel
from tests.crash.scenario import Scenario
from tests.faulty_remotes import Wrapper

_Answer = TypeVar("_Answer")


def _room(home: str) -> Path:
    """A folder that is not put under faults."""
    return Path(home).parent.parent


# -- a bucket --------------------------------------------------------------------------------------


class _Stepping(Wrapper):
    """Tells the shim of every call, so that it may kill before and after it."""

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


def _another_prefix(home: str) -> None:
    """All that was in the folder when the devices met, at a place in the bucket nobody used."""
    (_room(home) / "prefix").write_text(os.urandom(8).hex())
    folder = FolderRemote(str(Path(home).parent / travel.REMOTE))
    bucket = _bucket(home)
    for one in folder.list(""):
        bucket.put(one.name, folder.get(one.name))


def _to_bucket(events: int, *, push: bool, pull: bool, **before: Any) -> Scenario:
    return Scenario(
        prepare=partial(travel.prepare, **before),
        run=partial(travel.run, push=push, pull=pull, reach=lambda home: _Stepping(_bucket(home))),
        check=partial(travel.check, events, push=push, reach=_bucket),
        refusals=travel.REFUSALS,
        afresh=_another_prefix,
    )


BUCKET_FIRST = _to_bucket(3, push=True, pull=True, meet=False)
BUCKET_PUSH = _to_bucket(6, push=True, pull=False)
BUCKET_PULL = _to_bucket(9, push=False, pull=True, there=3)
BUCKET_BOTH = _to_bucket(9, push=True, pull=True, there=3)


# -- homes on PostgreSQL ---------------------------------------------------------------------------


def _databases(home: str) -> Iterator[tuple[str, str, str]]:
    """Of each device its name, its database, and the one that keeps how it began."""
    for name in (travel.HERE, travel.THERE):
        yield name, f"now_{_room(home).name}_{name}", f"kept_{_room(home).name}_{name}"


def _asked(*statements: str) -> None:
    import psycopg

    url = os.environ["TRAVEL_POSTGRES"].format("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _prepare_databases(home: str, **before: Any) -> None:
    for name, now, kept in _databases(home):
        _asked(*(f"DROP DATABASE IF EXISTS {one} WITH (FORCE)" for one in (now, kept)))
        _asked(f"CREATE DATABASE {now}")
        folder = Path(home).parent / name
        folder.mkdir(mode=0o700)
        url = os.environ["TRAVEL_POSTGRES"].format(now)
        (folder / "config.toml").write_text(f'store = "{url}"\n')
    travel.prepare(home, **before)
    for _, now, kept in _databases(home):
        _asked(f"CREATE DATABASE {kept} TEMPLATE {now} STRATEGY FILE_COPY")


def _databases_afresh(home: str) -> None:
    for _, now, kept in _databases(home):
        _asked(
            f"DROP DATABASE IF EXISTS {now} WITH (FORCE)",
            f"CREATE DATABASE {now} TEMPLATE {kept} STRATEGY FILE_COPY",
        )


def _on_postgres(events: int, *, push: bool, pull: bool, **before: Any) -> Scenario:
    return Scenario(
        prepare=partial(_prepare_databases, **before),
        run=partial(travel.run, push=push, pull=pull),
        check=partial(travel.check, events, push=push),
        refusals=travel.REFUSALS,
        afresh=_databases_afresh,
    )


POSTGRES_FIRST = _on_postgres(3, push=True, pull=True, meet=False)
POSTGRES_PUSH = _on_postgres(6, push=True, pull=False)
POSTGRES_PULL = _on_postgres(9, push=False, pull=True, there=3)
POSTGRES_BOTH = _on_postgres(9, push=True, pull=True, there=3)
