"""The tables of the PostgreSQL store, and their migrations.

Migrations only add. `format` is the newest migration applied, `min_writer` the oldest format a
writer may have: the statement that writes compares it, so that a process which is too old, or whose
store was moved elsewhere, writes nothing. `store` is the id of this set of tables: it stays when
the server gets another name, and differs between two databases of one server.

The journal is `event`; `session`, `row` and `find` can be computed from it. All tables are in one
schema, which every statement names: `@session` in this code is `forestay.session` in SQL. Nothing
depends on `search_path`, which a connection pooler may change.

    python -m forestay.store.postgres [SCHEMA]    prints the SQL, for an administrator
"""

from __future__ import annotations

import re
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from psycopg import Connection

MIGRATIONS = (
    # format 1
    """
    CREATE TABLE @meta (key text COLLATE "C" PRIMARY KEY, value text NOT NULL);
    CREATE TABLE @session (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
        seq bigint NOT NULL, updated bigint NOT NULL, began bigint NOT NULL,
        event_sum bigint NOT NULL, row_sum bigint NOT NULL, line_sum bigint NOT NULL,
        core_sum bigint NOT NULL, indexed bigint NOT NULL DEFAULT 0,
        fold integer NOT NULL, archived integer NOT NULL, forgotten integer NOT NULL,
        status text NOT NULL, goal text NOT NULL, summary text NOT NULL, core bytea NOT NULL
    ) WITH (fillfactor = 70);
    ALTER TABLE @session ALTER core SET STORAGE EXTERNAL;
    CREATE UNIQUE INDEX session_key ON @session (key);
    CREATE INDEX session_recent ON @session (forgotten, updated, number);
    CREATE INDEX session_behind ON @session (number) WHERE indexed < seq AND forgotten = 0;
    CREATE TABLE @event (
        session bigint NOT NULL, seq bigint NOT NULL, key text COLLATE "C",
        header bytea NOT NULL, salt bytea, data bytea, PRIMARY KEY (session, seq)
    );
    CREATE INDEX event_key ON @event (session, key) WHERE key IS NOT NULL;
    CREATE TABLE @row (
        session bigint NOT NULL, kind text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
        open boolean NOT NULL, rank bigint NOT NULL, sum bigint NOT NULL, value bytea NOT NULL,
        PRIMARY KEY (session, kind, key)
    ) WITH (fillfactor = 80);
    CREATE INDEX row_rank ON @row (session, kind, rank, key);
    CREATE INDEX row_open ON @row (session, kind, rank, key) WHERE open;
    CREATE TABLE @blob (
        digest text COLLATE "C" NOT NULL, part integer NOT NULL, data bytea NOT NULL,
        PRIMARY KEY (digest, part)
    );
    ALTER TABLE @blob ALTER data SET STORAGE EXTERNAL;
    CREATE TABLE @blob_use (
        digest text COLLATE "C" NOT NULL, session bigint NOT NULL, PRIMARY KEY (digest, session)
    );
    CREATE INDEX blob_use_session ON @blob_use (session);
    CREATE TABLE @lost (
        session text COLLATE "C" NOT NULL, device text NOT NULL, n bigint NOT NULL,
        hash text NOT NULL, PRIMARY KEY (session, device, n, hash)
    );
    CREATE TABLE @find (
        session bigint NOT NULL, seq bigint NOT NULL, words tsvector NOT NULL,
        PRIMARY KEY (session, seq)
    );
    CREATE INDEX find_words ON @find USING gin (words);
    CREATE TABLE @chore (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session bigint NOT NULL, home text NOT NULL, what text NOT NULL
    );
    CREATE INDEX chore_session ON @chore (session, home);
    """,
)
FORMAT = len(MIGRATIONS)
MIN_WRITER = 1

_NAME = re.compile("@(?=[a-z])")
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('forestay migration'), hashtext(%s))"
_THERE = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'i', 'I')
"""


def statements(schema: str, have: int = 0) -> list[str]:
    """Return the statements that migrate tables from format `have` to the newest, in order."""
    made = [f"CREATE SCHEMA IF NOT EXISTS {schema}"] if not have else []
    for number, script in enumerate(MIGRATIONS[have:], start=have + 1):
        made += [" ".join(one.split()) for one in script.split(";") if one.strip()]
        made.append(
            f"INSERT INTO @meta VALUES ('format', '{number}'), ('min_writer', '{MIN_WRITER}')"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        )
    if not have:
        made.append("INSERT INTO @meta SELECT 'store', replace(gen_random_uuid()::text, '-', '')")
    return [named(one, schema) for one in made]


@lru_cache(256)
def named(sql: str, schema: str) -> str:
    """Return a statement with the name of the schema before that of every table."""
    return _NAME.sub(f"{schema}.", sql)


def migrate(connection: Connection[tuple[object, ...]], schema: str) -> None:
    """Bring the tables up to date, in one transaction, by one process at a time."""
    with connection.transaction():
        connection.execute(_LOCK, (schema,))
        have = 0
        if "meta" in existing_names(connection, schema):
            sql = named("SELECT value FROM @meta WHERE key = 'format'", schema)
            found = connection.execute(sql).fetchone()
            have = int(str(found[0])) if found else 0
        if have < FORMAT:
            with connection.pipeline():
                for statement in statements(schema, have):
                    connection.execute(statement)


def existing_names(connection: Connection[tuple[object, ...]], schema: str) -> set[str]:
    """Return the names of all tables and indexes that exist in a schema."""
    return {str(name) for (name,) in connection.execute(_THERE, (schema,)).fetchall()}


def tables() -> list[str]:
    """Return the names of all tables and named indexes that these migrations create."""
    found = (re.findall(r"CREATE (?:UNIQUE )?(?:TABLE @|INDEX )(\w+)", one) for one in MIGRATIONS)
    return [name for names in found for name in names]
