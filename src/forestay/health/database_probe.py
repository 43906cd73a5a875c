"""Examines a database file in a child process, which asks SQLite; nothing is changed.

Opening the file in this process other than through the store would drop the locks that the
process holds on it.
"""

from __future__ import annotations

import json
import subprocess
import sys

from forestay.base import config, files
from forestay.errors import StoreFailed

_TIMEOUT = 60

# SQLite is asked; the file itself is never read.
_PROBE = """
import json, sqlite3, sys
from pathlib import Path
seen = {"sqlite": sqlite3.sqlite_version}
try:
    db = sqlite3.connect(Path(sys.argv[1]).as_uri() + sys.argv[2], uri=True, timeout=5)
    db.text_factory = lambda text: text.decode("utf-8", "replace")
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
    seen["tables"] = len(tables)
    seen["ours"] = len(tables & {"event", "session", "meta"}) > 1
    columns = {row[1] for row in db.execute("PRAGMA table_info(meta)")}
    if {"key", "value"} <= columns:
        seen.update(db.execute("SELECT key, value FROM meta WHERE key = 'min_writer'"))
except sqlite3.Error as error:
    seen.update(error=str(error), code=getattr(error, "sqlite_errorcode", 0) & 0xFF)
except UnicodeError:
    # The driver failed to word its error: it quotes bytes of a damaged schema.
    seen.update(error="malformed database schema", code=sqlite3.SQLITE_CORRUPT)
print(json.dumps(seen, default=str))
"""

# Exits with 3 if a connection is open anywhere: they lock these bytes of the file and of -shm.
_HELD = """
import fcntl, os, sys
for path, start, length in ((sys.argv[1], 0x40000002, 510), (sys.argv[1] + "-shm", 120, 9)):
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        continue
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError:
        sys.exit(3)
"""


def _child(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", script, *arguments],
        env=config.child_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
    )


def probe(database: str, home: str) -> dict[str, object]:
    """Return how many `tables` a database has, whether they are `ours`, and its `min_writer`.

    Or the `error` that SQLite reports, with its `code`.
    """
    is_alone = not files.is_writable(home) and not files.size(database + "-wal")
    mode = "?mode=ro&immutable=1" if is_alone else "?mode=ro"
    try:
        answer: dict[str, object] = json.loads(_child(_PROBE, database, mode).stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"error": f"the child process did not answer ({type(error).__name__})"}
    return answer


def is_in_use(database: str) -> bool:
    """Return whether any process has the database open."""
    try:
        return bool(_child(_HELD, database).returncode)
    except (OSError, subprocess.SubprocessError) as error:
        raise StoreFailed("could not find out whether the database is in use") from error
