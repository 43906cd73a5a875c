"""The state of files when sessions recorded them, and file changes that events still require."""

from __future__ import annotations

from forestay.store.machine.tables import BY_ID, Topic, as_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_AT_ONCE = 500
_PUT = f"INSERT OR REPLACE INTO seen_file SELECT number, ?, ?, ? FROM session WHERE {BY_ID}"


class SeenFiles(Topic):
    def find(self, session: str, paths: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return path → (stamp, digest) for the absolute paths that the session recorded here."""
        found: dict[str, tuple[str, str]] = {}
        for start in range(0, len(paths), _AT_ONCE):
            some = {as_text(path): path for path in paths[start : start + _AT_ONCE]}
            for stored, stamp, digest in self._read(
                "SELECT path, stamp, digest FROM seen_file"
                f" WHERE session = (SELECT number FROM session WHERE {BY_ID})"
                f" AND path IN ({','.join('?' * len(some))})",
                (session, *some),
            ):
                found[some[stored]] = (stamp, digest)
        return found

    def stamps_below(self, folder: str) -> set[tuple[str, str]]:
        """Return the recorded (path, stamp) of a file, or of all files below a folder."""
        # Paths are indexed per session, so each session is searched.
        rows = self._read(
            "SELECT f.path, f.stamp FROM session s CROSS JOIN seen_file f"
            " ON f.session = s.number AND f.path >= ? AND f.path < ?",
            (as_text(folder), f"{as_text(folder)}0"),  # "0" is the character after "/"
        )
        return set(rows)

    def record(self, session: str, path: str, stamp: str, digest: str) -> None:
        """Record the stamp and digest of a file for a session; durable when this returns."""
        self._tables.ensure_sessions([session])
        self._run(_PUT, (as_text(path), stamp, digest, session))

    def record_all(self, session: str, seen: dict[str, tuple[str, str]]) -> None:
        """Record many files; if a power cut undoes it, they are only read again."""
        self._tables.ensure_sessions([session])
        known = self.find(session, list(seen))
        new = [(p, *one) for p, one in seen.items() if known.get(p) != one]
        if new:
            rows = [(as_text(path), *rest, session) for path, *rest in new]
            self._run(_PUT, *rows, soon=True)


class FileWork(Topic):
    def pending(self, session: str) -> list[tuple[int, str]]:
        """Return the file changes that a session still requires, in order: (number, what)."""
        return self._read(
            "SELECT c.number, c.what FROM chore c JOIN session s ON s.number = c.session"
            f" AND s.{BY_ID} ORDER BY c.number",
            (session,),
        )

    def finish(self, number: int) -> None:
        """Record that one file change is done; durable when this returns."""
        self._run("DELETE FROM chore WHERE number = ?", (number,))
