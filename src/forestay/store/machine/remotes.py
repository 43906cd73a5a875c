"""The remotes of this device: their addresses, and what each of them had at the last sync.

The operator of a remote could restore an older state, delete or falsify data; to detect that, the
database of the device stores what a remote had before. A *mark* is how far a session is on the
remote: all events up to an arrival number, and a number of events *beyond* it. An *object* is a
pack that was read from the remote and passed all checks: its name and range. Other facts about a
session on a remote are stored as *notes*, each under a *word*: changes of its keys (`turn`), packs
that were `refused`, persons to be removed at the next sync (`unshare`), and persons whose reports
the user ignores (`doubt`). None of this is synced.

The owners of chains and sessions are facts of the home, not of a remote: they are also stored under
remote number 0, as the first remote showed them, and stay when the remote is removed.
"""

from __future__ import annotations

from forestay.errors import InvalidInput
from forestay.store.machine import device
from forestay.store.machine.tables import Topic, key_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence


KEY_CHANGE = "turn"
"""The word for changes of a session's keys; the value is the owner's key that can decrypt it."""
REFUSED = "refused"
"""The word for refused packs; the value is a digest of the keys and statements that led to it."""
UNSHARE = "unshare"
"""The word for persons who still have to be removed from a session, by device group."""
DOUBT = "doubt"
"""The word for persons whose reports about a remote are ignored, by device group."""
UNSIGNED = "unsigned"
"""The word for devices whose chain is on the remote only because another person imported it."""
LEFT = "left"
"""The word for the former place of a session that was joined with another, and its packs."""
PARALLEL = "beside"
"""The word for the first events of branches that the owner of a session wrote under the id of
another person's branch; the value is that id. Stored under no remote."""
FOREIGN = "foreign"
"""The word for events that another person signed under an id of this home; of no remote."""
_PERSON, _SHARED = "person ", "shared "
"""Prefixes of the keys of facts about chains, and about sessions."""
_CIRCLE, _CALLED, _DESKTOP = "circle", "called", "desktop"
_HEARSAY, _OWED = "hearsay ", "owed "
_COPY_NAMES = """
    UPDATE remote_chain SET name = shown.name FROM remote_chain AS shown
    WHERE remote_chain.remote = 0 AND shown.remote = ? AND shown.name != ''
        AND shown.session = remote_chain.session AND shown.device = remote_chain.device
"""
_PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_PUT_OBJECT = "INSERT OR REPLACE INTO remote_object VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_NAMED = "session = ? COLLATE NOCASE"
_REMOTE = "number, name, address, probe, added, synced, result, error"
_THERE = "session, place, epoch, pushed, hash, beyond, error, owner"
_CHAIN = "device, n, hash, circle, name"
_OBJECT = "name, device, first, last, before, after, size, tombstone"
_SYNCED = """
    UPDATE remote SET synced = CASE WHEN ? = 'done' OR synced = 0 THEN ? ELSE synced END,
    result = ?, error = ? WHERE number = ?
"""


class Known:
    """A remote of this home. `synced` is the time of the last sync that succeeded, 0 if none.

    `result` and `error` are those of the last sync, even if it failed.
    """

    __slots__ = ("added", "address", "error", "name", "number", "probe", "result", "synced")

    def __init__(
        self,
        number: int,
        name: str,
        address: str,
        probe: str,
        added: int,
        synced: int = 0,
        result: str = "",
        error: str = "",
    ) -> None:
        self.number, self.name, self.address, self.probe = number, name, address, probe
        self.added, self.synced, self.result, self.error = added, synced, result, error


class There:
    """The state of one session on a remote at the last sync."""

    __slots__ = ("beyond", "epoch", "error", "hash", "owner", "place", "pushed", "session")

    def __init__(
        self,
        session: str,
        place: str = "",
        epoch: int = 0,
        pushed: int = 0,
        hash: str = "",
        beyond: int = 0,
        error: str = "",
        owner: str = "",
    ) -> None:
        self.session, self.place, self.epoch = session, place, epoch
        self.pushed, self.hash, self.beyond, self.error = pushed, hash, beyond, error
        self.owner = owner


class Reach:
    """How much of a chain a remote had, the owner of the chain, and the name of its device."""

    __slots__ = ("circle", "device", "hash", "n", "name")

    def __init__(self, device: str, n: int, hash: str, circle: str, name: str = "") -> None:
        self.device, self.n, self.hash, self.circle, self.name = device, n, hash, circle, name


class Packed:
    """A pack that was read from a remote and passed all checks."""

    __slots__ = ("after", "before", "device", "first", "last", "name", "size", "tombstone")

    def __init__(
        self,
        name: str,
        device: str,
        first: int,
        last: int,
        before: str,
        after: str,
        size: int,
        tombstone: str = "",
    ) -> None:
        self.name, self.device, self.first, self.last = name, device, first, last
        self.before, self.after, self.size, self.tombstone = before, after, size, tombstone


class Remotes(Topic):
    # -- remotes -------------------------------------------------------------------------------

    def all(self) -> list[Known]:
        return [Known(*row) for row in self._read(f"SELECT {_REMOTE} FROM remote ORDER BY name")]

    def any(self) -> bool:
        """Return whether this home has a remote."""
        return bool(self._read("SELECT 1 FROM remote LIMIT 1"))

    def find(self, name: str) -> Known | None:
        found = self._read(f"SELECT {_REMOTE} FROM remote WHERE name = ?", (name,))
        return Known(*found[0]) if found else None

    def add(self, name: str, address: str, probe: str, now: int) -> None:
        def act(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT 1 FROM remote WHERE name = ?", (name,)).fetchone():
                what = f"there is already a remote {name}"
                raise InvalidInput(what, hint="forestay remote list")
            connection.execute(
                "INSERT INTO remote (name, address, probe, added) VALUES (?, ?, ?, ?)",
                (name, address, probe, now),
            )

        self._tables.write(act)

    def remove(self, remote: Known) -> None:
        """Remove a remote and the facts about it, except owners; the remote itself is unchanged."""

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(_COPY_NAMES, (remote.number,))
            connection.execute("DELETE FROM remote WHERE number = ?", (remote.number,))
            for table in ("remote_session", "remote_chain", "remote_object"):
                connection.execute(f"DELETE FROM {table} WHERE remote = ?", (remote.number,))

        self._tables.write(act)

    def record_probe(self, remote: Known, probe: str) -> None:
        """Record the result of a test of what a remote can do."""
        self._run("UPDATE remote SET probe = ? WHERE number = ?", (probe, remote.number))

    def record_sync(self, remote: Known, now: int, result: str, error: str) -> None:
        """Record the result of a sync; a failure does not change the time of the last success."""
        self._run(_SYNCED, (result, now, result, error, remote.number), soon=True)

    def record_failure(self, remote: Known, error: str) -> None:
        """Record that a sync failed; a remote that never succeeded is still new."""
        self.record_sync(remote, 0, "failed", error)

    def leave_place(self, remote: Known, session: str) -> None:
        """Delete the facts about a session on a remote, because it has another place there now."""

        def act(connection: sqlite3.Connection) -> None:
            for table in ("remote_session", "remote_chain", "remote_object"):
                connection.execute(
                    f"DELETE FROM {table} WHERE remote IN (0, ?) AND {_NAMED}",
                    (remote.number, session),
                )

        self._tables.write(act)

    # -- what is there -------------------------------------------------------------------------

    def sessions(self, remote: Known) -> list[There]:
        rows = self._read(
            f"SELECT {_THERE} FROM remote_session WHERE remote = ? ORDER BY session",
            (remote.number,),
        )
        return [There(*row) for row in rows]

    def session(self, remote: Known, session: str) -> There | None:
        rows = self._read(
            f"SELECT {_THERE} FROM remote_session WHERE remote = ? AND {_NAMED}",
            (remote.number, session),
        )
        return There(*rows[0]) if rows else None

    def chains(self, remote: Known, session: str) -> list[Reach]:
        rows = self._read(
            f"SELECT {_CHAIN} FROM remote_chain WHERE remote = ? AND session = ?",
            (remote.number, session),
        )
        return [Reach(*row) for row in rows]

    def owners(self, session: str) -> dict[str, str]:
        """Return the owners of the chains of a session, as the first remote proved them."""
        rows = self._read(
            "SELECT device, circle FROM remote_chain"
            f" WHERE {_NAMED} AND circle != '' ORDER BY remote DESC",
            (session,),
        )
        return {str(device): str(circle) for device, circle in rows}

    def notes_at_home(self, session: str, word: str) -> dict[str, str]:
        """Return the notes about a session under a word, stored under no remote: hash → device."""
        rows = self._read(
            f"SELECT name, after FROM remote_object WHERE remote = 0 AND {_NAMED}"
            " AND name >= ? AND name < ?",
            (session, *key_range(f"{word} ")),
        )
        return {str(name).removeprefix(f"{word} "): str(device) for name, device in rows}

    def disputed(self, session: str) -> set[str]:
        """Return the device ids that two persons used in a session."""
        return set(self.notes_at_home(session, PARALLEL).values())

    def used_by_others(self, session: str) -> set[str]:
        """Return the disputed device ids, and ids of this home that another person used."""
        return self.disputed(session).union(self.notes_at_home(session, FOREIGN).values())

    def note_at_home(self, session: str, word: str, noted: Mapping[str, str]) -> None:
        """Replace the notes about a session under a word, stored under no remote."""
        self._tables.write(lambda db: _note(db, 0, session, word, noted))

    def places_of_others(self, mine: str) -> dict[str, str]:
        """Return the places of sessions that others own; they are the same on all remotes."""
        rows = self._read(
            "SELECT session, place FROM remote_session"
            " WHERE place != '' AND owner NOT IN ('', ?) ORDER BY remote DESC",
            (mine,),
        )
        return {str(session): str(place) for session, place in rows}

    def owner(self, session: str) -> str:
        """Return the device group that owns a session, as first proved by a remote; "" if none."""
        rows = self._read(
            f"SELECT owner FROM remote_session WHERE {_NAMED} AND owner != ''"
            " ORDER BY remote LIMIT 1",
            (session,),
        )
        return str(rows[0][0]) if rows else ""

    def unconfirmed(self) -> set[str]:
        """Return the hashes of imported or pulled tombstones whose author is not confirmed."""
        return set(self._meta_after(_HEARSAY))

    def record_unconfirmed(self, stones: Iterable[str], *, vouched: bool) -> None:
        """Record tombstones as unconfirmed, or (with `vouched`) as confirmed."""
        known = self.unconfirmed()
        rows = [(_HEARSAY + hash,) for hash in stones if (hash in known) is vouched]
        put, drop = "INSERT OR IGNORE INTO meta VALUES (?, '')", "DELETE FROM meta WHERE key = ?"
        sql = drop if vouched else put
        if rows:
            self._run(sql, *rows)

    def sessions_to_search(self) -> list[str]:
        """Return the sessions whose files may still contain what other devices have forgotten."""
        return list(self._meta_after(_OWED))

    def record_pending_search(self, session: str) -> None:
        """Record that a session's files must be searched for what other devices have forgotten."""
        self._put_meta({_OWED + session: "1"})

    def record_search_done(self, session: str) -> None:
        """Record that the files of a session were searched."""
        self._run("DELETE FROM meta WHERE key = ?", (_OWED + session,))

    def device_group(self) -> str:
        """Return the device group of this home at its last sync; "" before the first."""
        return self._meta(_CIRCLE)

    def device_name(self) -> str:
        """Return the name of this device in its group; "" before the first sync."""
        return self._meta(_CALLED)

    def record_group(self, circle: str, name: str) -> None:
        """Record the device group of this home and the name of this device in it."""
        self._put_meta({_CIRCLE: circle, _CALLED: name})

    def is_in_desktop(self) -> bool:
        """Return whether Claude Desktop has used this home."""
        return bool(self._meta(_DESKTOP))

    def record_desktop(self) -> None:
        """Record that Claude Desktop uses this home."""
        self._put_meta({_DESKTOP: "1"})

    def _put_meta(self, values: Mapping[str, str]) -> None:
        new = [(key, value) for key, value in values.items() if self._meta(key) != value]
        if new:
            self._run(_PUT_META, *new)

    def _meta_after(self, prefix: str) -> dict[str, str]:
        """Return the values whose keys begin with a prefix, by the rest of the key."""
        sql = "SELECT key, value FROM meta WHERE key >= ? AND key < ?"
        rows = self._read(sql, key_range(prefix))
        return {str(key).removeprefix(prefix): str(value) for key, value in rows}

    def _meta(self, key: str) -> str:
        rows = self._read("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def former_ids(self) -> set[str]:
        """Return the former device ids of this home."""
        return device.former_ids(self._tables)

    def names(self) -> dict[str, str]:
        """Return device id → name, for the names that remotes have shown."""
        sql = (
            "SELECT DISTINCT remote > 0, device, name FROM remote_chain WHERE name != '' ORDER BY 1"
        )
        return {str(device): str(name) for _, device, name in self._read(sql)}

    def rename_devices(self, names: Mapping[str, str], circle: str) -> None:
        """Rename devices of a group, old name → new name; all at once, so that names can swap."""
        cases = " ".join("WHEN ? THEN ?" for _ in names)
        pairs = [word for pair in names.items() for word in pair]
        marks = ", ".join("?" for _ in names)
        sql = f"UPDATE remote_chain SET name = CASE name {cases} END"
        where = f" WHERE circle = ? AND name IN ({marks})"
        self._run(sql + where, (*pairs, circle, *names), soon=True)

    def objects(self, remote: Known, session: str) -> list[Packed]:
        """Return the packs of a session on a remote that passed all checks, sorted by name."""
        rows = self._read(
            f"SELECT {_OBJECT} FROM remote_object WHERE remote = ? AND session = ?"
            " AND name LIKE '_/%' ORDER BY name",
            (remote.number, session),
        )
        return [Packed(*row) for row in rows]

    def notes(self, remote: Known, session: str) -> dict[str, dict[str, str]]:
        """Return the notes about a session on a remote: word → subject → value."""
        rows = self._read(
            "SELECT name, after FROM remote_object WHERE remote = ? AND session = ?"
            " AND name NOT LIKE '_/%'",
            (remote.number, session),
        )
        found: dict[str, dict[str, str]] = {}
        for name, value in rows:
            word, _, about = str(name).partition(" ")
            found.setdefault(word, {})[about] = str(value)
        return found

    def note(self, remote: Known, session: str, word: str, noted: Mapping[str, str]) -> None:
        """Replace all notes about a session on a remote under a word."""
        self._tables.write(lambda db: _note(db, remote.number, session, word, noted))

    def places(self, remote: Known, hash: str) -> set[str]:
        """Return the places of packs whose names end with a hash."""
        rows = self._read(
            "SELECT DISTINCT s.place FROM remote_object o JOIN remote_session s"
            " ON s.remote = o.remote AND s.session = o.session"
            " WHERE o.remote = ? AND o.name LIKE ?",
            (remote.number, f"%{hash}"),
        )
        return {str(place) for (place,) in rows}

    def record_session(
        self,
        remote: Known,
        there: There,
        *,
        chains: Iterable[Reach] | None = None,
        found: Sequence[Packed] = (),
        gone: Iterable[str] = (),
        turns: Mapping[str, str] | None = None,
    ) -> None:
        """Record what a remote has of a session, in one transaction.

        `found` are packs that were checked; `gone` are the names of packs that are no longer on the
        remote. `chains` and `turns` (the changes of the session's keys) replace those of the last
        sync, unless they are None.
        """
        whose = (remote.number, there.session)

        def act(connection: sqlite3.Connection) -> None:
            mark = (there.pushed, there.hash, there.beyond)
            values = (there.place, there.epoch, *mark, there.error, there.owner)
            connection.execute(
                "INSERT OR REPLACE INTO remote_session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*whose, *values),
            )
            connection.executemany(
                "DELETE FROM remote_object WHERE remote = ? AND session = ? AND name = ?",
                [(*whose, name) for name in gone],
            )
            connection.executemany(_PUT_OBJECT, [(*whose, *_values(one)) for one in found])
            if turns is not None:
                _note(connection, *whose, KEY_CHANGE, turns)
            if chains is not None:
                connection.execute(
                    "DELETE FROM remote_chain WHERE remote = ? AND session = ?", whose
                )
                connection.executemany(
                    "INSERT INTO remote_chain VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [(*whose, o.device, o.n, o.hash, o.circle, o.name) for o in chains],
                )
                _put_owners(connection, there, [(o.device, o.circle) for o in chains])

        chains = None if chains is None else list(chains)
        self._tables.write(act)

    def record_packs(self, remote: Known, session: str, found: Sequence[Packed]) -> None:
        """Record that a remote has packs; if a power cut undoes it, they are read again."""
        rows = [(remote.number, session, *_values(one)) for one in found]
        self._run(_PUT_OBJECT, *rows, soon=True)

    # -- persons -------------------------------------------------------------------------------

    def persons(self) -> dict[str, str]:
        """Return chain → person, for the chains that other persons wrote."""
        return {device: people[0] for device, people in self._facts(_PERSON).items() if people[0]}

    def record_writers(self, persons: Mapping[str, str]) -> None:
        """Record the writers of chains, "" for the user; a power cut can undo it."""
        known = self.persons()
        self._put_facts(
            _PERSON, {d: [one] for d, one in persons.items() if known.get(d, "") != one}
        )

    def shared(self, session: str) -> list[str]:
        """Return the persons a session is shared with: addresses, or fingerprints of keys."""
        return self._facts(_SHARED).get(session.lower(), [])

    def record_shared(self, session: str, people: Sequence[str]) -> None:
        """Record the persons a session is shared with now."""
        if self.shared(session) != list(people):
            self._put_facts(_SHARED, {session.lower(): list(people)})

    def _facts(self, about: str) -> dict[str, list[str]]:
        found = self._meta_after(about)
        if not found:
            return {}
        import json  # start-up: not for a home without remotes

        return {key: json.loads(value) for key, value in found.items()}

    def _put_facts(self, about: str, values: Mapping[str, list[str]]) -> None:
        if not values:
            return
        import json

        rows = [(about + key, json.dumps(value)) for key, value in values.items()]
        self._run(_PUT_META, *rows, soon=True)

    # -- what waits ----------------------------------------------------------------------------

    def waiting(self, session: str = "") -> int | None:
        """Return how many events of one session, or of all, are on no remote yet.

        Return None if there is no remote.
        """
        if not self.any():
            return None
        sql = "SELECT session, pushed, beyond FROM remote_session"
        rows = self._read(f"{sql} WHERE {_NAMED}", (session,)) if session else self._read(sql)
        there: dict[str, list[tuple[int, int]]] = {}
        for id, pushed, beyond in rows:
            there.setdefault(id.lower(), []).append((pushed, beyond))
        waiting = 0
        for id, seq in self._tables.session_lengths(session):
            # Events beyond the mark are on the remote already: they were pulled from it.
            marks = there.get(id.lower(), ())
            reached = max((min(pushed, seq) + beyond for pushed, beyond in marks), default=0)
            waiting += max(seq - max(reached, 0), 0)
        return waiting


def _values(one: Packed) -> tuple[object, ...]:
    place = (one.name, one.device, one.first, one.last, one.before, one.after)
    return (*place, one.size, one.tombstone)


def _note(
    connection: sqlite3.Connection, remote: int, session: str, word: str, noted: Mapping[str, str]
) -> None:
    connection.execute(
        "DELETE FROM remote_object WHERE remote = ? AND session = ? AND name >= ? AND name < ?",
        (remote, session, *key_range(word + " ")),
    )
    rows = [Packed(f"{word} {about}", "", 0, 0, "", what, 0) for about, what in noted.items()]
    connection.executemany(_PUT_OBJECT, [(remote, session, *_values(one)) for one in rows])


def _put_owners(
    connection: sqlite3.Connection, there: There, chains: Iterable[tuple[str, str]]
) -> None:
    """Record owners for the home (remote number 0); those recorded first stay."""
    if there.owner:
        connection.execute(
            "INSERT OR IGNORE INTO remote_session VALUES (0, ?, '', 0, 0, '', 0, '', ?)",
            (there.session, there.owner),
        )
    connection.executemany(
        "INSERT OR IGNORE INTO remote_chain VALUES (0, ?, ?, 0, '', ?, '')",
        [(there.session, device, circle) for device, circle in chains if circle],
    )
