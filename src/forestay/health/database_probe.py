"""A database file seen from outside: by a child process, which asks SQLite and tells.

Opening the file in this process other than through the store would drop the locks that the
process holds on it. Nothing is changed by looking.
"""

from __future__ import annotations

import json
import subprocess
import sys

from forestay.base import config, files
from forestay.errors import StoreFailed

_PATIENCE = 60

# SQLite is asked, never the file: this is all that is ever done with a database from outside.
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
    # The driver could not even say it: its message quotes bytes of a damaged schema.
    seen.update(error="malformed database schema", code=sqlite3.SQLITE_CORRUPT)
print(json.dumps(seen, default=str))
"""

# Whether a connection is open anywhere: they hold these bytes of the file, and of -shm, locked.
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
        timeout=_PATIENCE,
    )


def look(database: str, home: str) -> dict[str, object]:
    """How many `tables` it has, whether they are `ours`, its `min_writer`.

    Or the `error` that was met, with its `code` in SQLite.
    """
    alone = not files.is_writable(home) and not files.size(database + "-wal")
    mode = "?mode=ro&immutable=1" if alone else "?mode=ro"
    try:
        answer: dict[str, object] = json.loads(_child(_PROBE, database, mode).stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"error": f"the child process said nothing ({type(error).__name__})"}
    return answer


def is_in_use(database: str) -> bool:
    """Whether any process has the database open."""
    try:
        return bool(_child(_HELD, database).returncode)
    except (OSError, subprocess.SubprocessError) as error:
        raise StoreFailed("could not tell whether the database is in use") from error
