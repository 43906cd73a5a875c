"""Provide a home for tests: a store, a journal and a clock, and a way to damage them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from forestay.api.session import Session
from forestay.base import config
from forestay.base.clock import FakeClock
from forestay.base.redact import Redactor
from forestay.journal import backup, restore
from forestay.journal.journal import Journal
from forestay.model import event as ev
from forestay.model.event import Body, Sealed
from forestay.model.state import State
from forestay.store.open import open_store
from forestay.store.sqlite.store import SqliteStore


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def hashes(events: list[Sealed]) -> set[str]:
    return {sealed.hash for sealed in events}


class Home:
    """Open a home with a store, a journal and a separate clock."""

    def __init__(self, path: Path, seed: int = 0) -> None:
        self.path = path
        self.clock = FakeClock(seed=seed)
        store = open_store("", str(path), clock=self.clock, machine=f"m{seed}", busy_timeout=1)
        assert isinstance(store, SqliteStore)
        self.store = store
        self.journal = Journal(store, self.clock, Redactor())
        self.settings = config.load(
            str(path), trust_env=False, overrides={"busy_timeout": 1, "backup_keep": 2}
        )

    @property
    def folder(self) -> str:
        return str(self.path / "backups")

    @property
    def database(self) -> Path:
        return self.path / "forestay.db"

    # -- work ----------------------------------------------------------------------------------

    def start(self, session: str = "s-1") -> None:
        self.do(session, ev.SessionStarted(goal=f"the goal of {session}"), create=True)

    def do(self, session: str, body: Body, *, create: bool = False, content: bytes = b"") -> None:
        blobs = [(digest_of(content), content)] if content else []
        self.journal.append(session, body, actor="cli", create=create, blobs=blobs)

    def note(self, text: str, session: str = "s-1") -> None:
        self.do(session, ev.NoteAdded(text=text))

    def save_artifact(self, content: bytes, session: str = "s-1") -> str:
        body = ev.ArtifactSaved(path="out.txt", digest=digest_of(content), size=len(content))
        self.do(session, body, content=content)
        return digest_of(content)

    def events(self, session: str = "s-1") -> list[Sealed]:
        with self.store.view(session) as view:
            return [Sealed(s.header, s.salt, s.data) for s in view.events()]

    def is_sound(self, session: str = "s-1") -> bool:
        return self.journal.verify(session).ok

    # -- packs ---------------------------------------------------------------------------------

    def export(self, session: str = "s-1") -> bytes:
        return b"".join(backup.export(self.journal, session, clock=self.clock).chunks)

    def absorb(self, source: str | bytes, *, partial: bool = False) -> restore.ImportResult:
        return restore.absorb(self.journal, source, partial=partial)

    def save(self, keep: int = 2) -> backup.BackupResult:
        return backup.save(self.store, self.folder, clock=self.clock, keep=keep)

    def save_new(self, keep: int = 2) -> backup.BackupResult | None:
        return backup.backup_if_due(self.store, self.folder, clock=self.clock, keep=keep)

    # -- damage --------------------------------------------------------------------------------

    def write(self, sql: str, *values: object) -> None:
        """Change the tables, as Forestay never would."""
        self.store.database.write(lambda connection: connection.execute(sql, values))
        self.journal = Journal(self.store, self.clock, Redactor())


def state_of(session: Session, at: str | int = "") -> State:
    """Return the internal state of a session, which `Session.show` converts to a typed value."""
    state: State = session.show(at)._source
    return state
