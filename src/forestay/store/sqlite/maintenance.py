"""Check, repair and seal the SQLite store."""

from __future__ import annotations

import os

from forestay.base import files
from forestay.errors import Damaged
from forestay.store.port import Head, Maintenance
from forestay.store.sqlite.schema import MIN_WRITER, SEALED, note_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from forestay.base.findings import Finding
    from forestay.store.port import Repaired
    from forestay.store.sqlite.connection import Database


class SqliteMaintenance(Maintenance):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._seal_path = os.path.join(database.home, files.SEAL)

    def remembered(self) -> list[tuple[str, Head]]:
        heads = [(session, head) for _, session, head in self._database.heads.all()]
        lost = self._database.read("SELECT session, device, n, hash FROM lost")
        return heads + [(session, Head(device, n, hash)) for session, device, n, hash in lost]

    def note_lost(self, session: str, head: Head) -> None:
        lost = (head.device, head.n, head.hash)
        self._database.write(lambda connection: note_lost(connection, session, lost))

    def check(self) -> list[str]:
        try:
            problems = [str(row[0]) for row in self._database.read("PRAGMA integrity_check(20)")]
        except Damaged as error:
            return [str(error)]
        return [problem for problem in problems if problem != "ok"]

    def flaws(self) -> list[Finding]:
        from forestay.store.sqlite.repair import find_flaws  # start-up

        return self._database.read_together(find_flaws) or []

    def repair(self) -> Repaired:
        from forestay.store.sqlite.repair import repair  # start-up

        return self._database.mend(repair)

    def seal(self, other: str, word: str) -> None:
        oldest = MIN_WRITER if word == "filling" else SEALED

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO meta VALUES ('min_writer', ?)", (str(oldest),)
            )

        # The seal file is read without opening the database; the value in the table stops
        # processes that have the database open already.
        files.make_private_dir(self._database.home)
        files.replace(self._seal_path, f"{word} {other}\n".encode())
        if self._is_sealed_inside():
            self._database.mend(act)
        else:
            self._database.write(act)

    def unseal(self) -> None:
        def act(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE meta SET value = ? WHERE key = 'min_writer' AND value = ?",
                (str(MIN_WRITER), str(SEALED)),
            )

        if self._is_sealed_inside():
            self._database.mend(act)
        if self.sealed() is not None:
            try:
                os.unlink(self._seal_path)
                files.sync_folder(self._database.home)
            except OSError as error:
                raise files.failure(error, "remove", self._seal_path) from error

    def _is_sealed_inside(self) -> bool:
        """Return whether the value in the table prevents every process from writing."""
        found = self._database.read("SELECT value FROM meta WHERE key = 'min_writer'")
        return bool(found) and str(found[0][0]) == str(SEALED)

    def sealed(self) -> tuple[str, str] | None:
        if not os.path.exists(self._seal_path):
            return None
        text = (files.read_optional(self._seal_path, 10_000) or b"").decode("utf-8", "replace")
        word, _, other = text.strip().partition(" ")
        return other, word
