"""The tables of the SQLite store, and the migrations of older databases.

Migrations only add, in place, in one transaction. `format` is the newest migration applied;
`min_writer` is the oldest format that can still write: an older process refuses to write and has
to be restarted. The file is never replaced while another process may have it open.

The journal is `event`; `session`, `row` and `find` can be computed from it. The position of an
event is session number × 2³² + arrival number, so a session's events lie together and need no
index. The core comes last in its table, so that listing sessions does not read it. Tables from
`project` on are true of this machine only and never leave it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

SHIFT = 32

FIND = """
    CREATE VIRTUAL TABLE find USING fts5 (
        text, session UNINDEXED, seq UNINDEXED, kind UNINDEXED,
        tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
    )
"""
MIGRATIONS = (
    # format 1
    f"""
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE session (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL, seq INTEGER NOT NULL,
        status TEXT NOT NULL, goal TEXT NOT NULL, archived INTEGER NOT NULL,
        forgotten INTEGER NOT NULL DEFAULT 0, began INTEGER NOT NULL, updated INTEGER NOT NULL,
        summary TEXT NOT NULL, project INTEGER, indexed INTEGER NOT NULL DEFAULT 0,
        fold INTEGER NOT NULL, core_sum INTEGER NOT NULL,
        event_sum INTEGER NOT NULL DEFAULT 0,
        row_sum INTEGER NOT NULL DEFAULT 0, line_sum INTEGER NOT NULL DEFAULT 0,
        core BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX session_id ON session (id COLLATE NOCASE);
    CREATE INDEX session_recent ON session (forgotten, updated, number);
    CREATE INDEX session_project ON session (project, forgotten, archived, updated);
    CREATE TABLE event (
        position INTEGER PRIMARY KEY, key TEXT, header BLOB NOT NULL, salt BLOB, data BLOB
    ) STRICT;
    CREATE INDEX event_key ON event (key) WHERE key IS NOT NULL;
    CREATE TABLE row (
        session INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, open INTEGER NOT NULL,
        rank INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (session, kind, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX row_rank ON row (session, kind, rank);
    CREATE INDEX row_open ON row (session, kind, rank) WHERE open = 1;
    CREATE TABLE blob (
        digest TEXT NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (digest, part)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE blob_use (
        digest TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (digest, session)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE lost (
        session TEXT NOT NULL, device TEXT NOT NULL, n INTEGER NOT NULL, hash TEXT NOT NULL,
        PRIMARY KEY (session, device, n, hash)
    ) STRICT, WITHOUT ROWID;
    {FIND};
    CREATE TABLE project (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL
    ) STRICT;
    CREATE TABLE project_key (
        kind TEXT NOT NULL, value TEXT NOT NULL, project INTEGER NOT NULL,
        PRIMARY KEY (kind, value, project)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX project_keys ON project_key (project);
    CREATE TABLE tree (
        path TEXT PRIMARY KEY, inode TEXT NOT NULL, project INTEGER NOT NULL, session INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE holder (
        session INTEGER NOT NULL, machine TEXT NOT NULL, boot TEXT NOT NULL, ns TEXT NOT NULL,
        pid INTEGER NOT NULL, start TEXT NOT NULL, name TEXT NOT NULL, agent TEXT NOT NULL,
        doing TEXT NOT NULL, since INTEGER NOT NULL,
        PRIMARY KEY (session, machine, boot, ns, pid, start, agent)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE seen_file (
        session INTEGER NOT NULL, path TEXT NOT NULL, stamp TEXT NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (session, path)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE binding (
        number INTEGER PRIMARY KEY, session INTEGER NOT NULL, format TEXT NOT NULL,
        native TEXT NOT NULL, root TEXT NOT NULL, place TEXT NOT NULL UNIQUE,
        mirrored INTEGER NOT NULL DEFAULT 0, quiet INTEGER NOT NULL DEFAULT 0,
        suspended TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE INDEX binding_session ON binding (session);
    CREATE TABLE rendering (
        binding INTEGER NOT NULL, file TEXT NOT NULL, n INTEGER NOT NULL, digest TEXT NOT NULL,
        stat TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (binding, file, n)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE chore (
        number INTEGER PRIMARY KEY, session INTEGER NOT NULL, what TEXT NOT NULL
    ) STRICT;
    CREATE INDEX chore_session ON chore (session);
    CREATE TABLE run (
        number INTEGER PRIMARY KEY, agent TEXT NOT NULL, native TEXT NOT NULL,
        session TEXT NOT NULL, process TEXT NOT NULL, folder TEXT NOT NULL,
        transcript TEXT NOT NULL, began INTEGER NOT NULL, last INTEGER NOT NULL,
        seen INTEGER NOT NULL, UNIQUE (agent, native)
    ) STRICT;
    CREATE INDEX run_session ON run (session);
    CREATE TABLE inflight (
        run INTEGER NOT NULL, key TEXT NOT NULL, agent TEXT NOT NULL, tool TEXT NOT NULL,
        doing TEXT NOT NULL, since INTEGER NOT NULL, PRIMARY KEY (run, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE taken (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE TABLE tally (
        what TEXT PRIMARY KEY, count INTEGER NOT NULL, last INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE remote (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, address TEXT NOT NULL,
        probe TEXT NOT NULL, added INTEGER NOT NULL, synced INTEGER NOT NULL DEFAULT 0,
        result TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE TABLE remote_session (
        remote INTEGER NOT NULL, session TEXT NOT NULL, place TEXT NOT NULL,
        epoch INTEGER NOT NULL, pushed INTEGER NOT NULL, hash TEXT NOT NULL,
        beyond INTEGER NOT NULL, error TEXT NOT NULL, owner TEXT NOT NULL,
        PRIMARY KEY (remote, session)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX remote_session_id ON remote_session (session COLLATE NOCASE);
    CREATE TABLE remote_chain (
        remote INTEGER NOT NULL, session TEXT NOT NULL, device TEXT NOT NULL,
        n INTEGER NOT NULL, hash TEXT NOT NULL, circle TEXT NOT NULL, name TEXT NOT NULL,
        PRIMARY KEY (remote, session, device, hash)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE remote_object (
        remote INTEGER NOT NULL, session TEXT NOT NULL, name TEXT NOT NULL,
        device TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        before TEXT NOT NULL, after TEXT NOT NULL, size INTEGER NOT NULL,
        tombstone TEXT NOT NULL, PRIMARY KEY (remote, session, name)
    ) STRICT, WITHOUT ROWID;
    """,
)
FORMAT = len(MIGRATIONS)
MIN_WRITER = 1
SEALED = 999_999_999
"""The `min_writer` of a sealed store, so that no version writes to it."""


def migrate(connection: sqlite3.Connection, have: int) -> None:
    """Bring the tables up to date, inside the caller's transaction."""
    for number, script in enumerate(MIGRATIONS[have:], start=have + 1):
        for statement in script.split(";"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES ('format', ?), ('min_writer', ?)",
            (str(number), str(MIN_WRITER)),
        )


def must_scrub(connection: sqlite3.Connection) -> None:
    """Record, in a transaction that erases data, that old pages have to be removed after it."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', '1')")


def note_lost(connection: sqlite3.Connection, session: str, head: tuple[str, int, str]) -> None:
    """Record a head (device, n, hash) that was acknowledged and is missing now."""
    connection.execute("INSERT OR IGNORE INTO lost VALUES (?, ?, ?, ?)", (session, *head))
