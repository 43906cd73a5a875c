"""What this device knows of its remotes: where they are, and what each has shown it.

A remote may be rolled back, cut short or lied about by whoever runs it; what it showed before is
remembered here, in the database of the device, where the remote cannot reach. A *mark* says how
far a session is known to be there: all events up to an arrival number, and so many *beyond* it.
An *object* is a pack that was seen there and found sound: its name, the stretch it covers. What
else is to be known of a session there, each thing under its own *word*, is *noted*: `turn`s of its
keys, packs that were `refused`, persons who are to be put out (`unshare`) when it is reached, and
those whose word of what is there the user `doubt`s.
None of this travels.

Whose a chain is and who owns a session is true of the home, not of a remote: it is kept once more
under no remote (number 0), as it was shown first, and stays when the remote is removed.
"""

from __future__ import annotations

from forestay.errors import InvalidInput
from forestay.store.machine import device
from forestay.store.machine.tables import Topic, key_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence


TURN = "turn"
"""The word for turns of a session's keys: each with the key of the owner's devices it seals to."""
REFUSED = "refused"
"""The word for packs that were refused, each with a digest of what they were judged by."""
UNSHARE = "unshare"
"""The word for persons who are to be put out of a session there, by their circles."""
DOUBT = "doubt"
"""The word for persons whose word of what else is there does not count, by their circles."""
UNSIGNED = "unsigned"
"""The word for devices whose chain of a session is there only as someone imported it."""
LEFT = "left"
"""The word for a place that was left when its session joined another, and for packs known there."""
BESIDE = "beside"
"""The word for the first events of branches that the owner of a session brought beside someone
else's under one id, each with that id; true of the home, so kept under no remote."""
FOREIGN = "foreign"
"""The word for events under an id of this home that someone else signed; kept so too."""
_PERSON, _SHARED = "person ", "shared "
"""Begin the keys of what is told of chains, and of sessions."""
_CIRCLE, _CALLED, _DESKTOP = "circle", "called", "desktop"
_HEARSAY, _OWED = "hearsay ", "owed "
_KEEP_NAMES = """
    UPDATE remote_chain SET name = told.name FROM remote_chain AS told
    WHERE remote_chain.remote = 0 AND told.remote = ? AND told.name != ''
        AND told.session = remote_chain.session AND told.device = remote_chain.device
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
    """A remote of this home: when it was last synced, 0 if never.

    `result` and `error` are of the last time it was asked, which may have come to nothing.
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
    """What a remote is known to have of one session."""

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
    """How far a chain was shown to be there, whose it is, and what its device is called."""

    __slots__ = ("circle", "device", "hash", "n", "name")

    def __init__(self, device: str, n: int, hash: str, circle: str, name: str = "") -> None:
        self.device, self.n, self.hash, self.circle, self.name = device, n, hash, circle, name


class Packed:
    """A pack that was seen there and found sound."""

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
        """Return whether there is a remote at all."""
        return bool(self._read("SELECT 1 FROM remote LIMIT 1"))

    def find(self, name: str) -> Known | None:
        found = self._read(f"SELECT {_REMOTE} FROM remote WHERE name = ?", (name,))
        return Known(*found[0]) if found else None

    def add(self, name: str, address: str, probe: str, now: int) -> None:
        def act(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT 1 FROM remote WHERE name = ?", (name,)).fetchone():
                raise InvalidInput(f"there is a remote {name} already", hint="forestay remote list")
            connection.execute(
                "INSERT INTO remote (name, address, probe, added) VALUES (?, ?, ?, ?)",
                (name, address, probe, now),
            )

        self._tables.write(act)

    def remove(self, remote: Known) -> None:
        """Forget a remote and all that it showed but who wrote what; nothing is changed there."""

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(_KEEP_NAMES, (remote.number,))
            connection.execute("DELETE FROM remote WHERE number = ?", (remote.number,))
            for table in ("remote_session", "remote_chain", "remote_object"):
                connection.execute(f"DELETE FROM {table} WHERE remote = ?", (remote.number,))

        self._tables.write(act)

    def probed(self, remote: Known, probe: str) -> None:
        """Keep what a remote proved able to do."""
        self._run("UPDATE remote SET probe = ? WHERE number = ?", (probe, remote.number))

    def synced(self, remote: Known, now: int, result: str, error: str) -> None:
        """Keep how the last time went; if not well, what is kept of when it did stays."""
        self._run(_SYNCED, (result, now, result, error, remote.number), soon=True)

    def failed(self, remote: Known, error: str) -> None:
        """Keep that the last time came to nothing; one that never went well is still new."""
        self.synced(remote, 0, "failed", error)

    def leave(self, remote: Known, session: str) -> None:
        """Forget what a remote showed of a session: it lies elsewhere there from now on."""

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
        """Whose the chains of a session are, by what any remote proved first."""
        rows = self._read(
            "SELECT device, circle FROM remote_chain"
            f" WHERE {_NAMED} AND circle != '' ORDER BY remote DESC",
            (session,),
        )
        return {str(device): str(circle) for device, circle in rows}

    def at_home(self, session: str, word: str) -> dict[str, str]:
        """What is noted of a session under a word and no remote: hashes, each with an id."""
        rows = self._read(
            f"SELECT name, after FROM remote_object WHERE remote = 0 AND {_NAMED}"
            " AND name >= ? AND name < ?",
            (session, *key_range(f"{word} ")),
        )
        return {str(name).removeprefix(f"{word} "): str(device) for name, device in rows}

    def disputed(self, session: str) -> set[str]:
        """Ids under which two persons wrote in a session."""
        return set(self.at_home(session, BESIDE).values())

    def used_by_others(self, session: str) -> set[str]:
        """The same, and ids of this home under which someone else signed something there."""
        return self.disputed(session).union(self.at_home(session, FOREIGN).values())

    def note_at_home(self, session: str, word: str, told: Mapping[str, str]) -> None:
        """Keep this, in place of all that was noted so."""
        self._tables.write(lambda db: _note(db, 0, session, word, told))

    def shared_at(self, mine: str) -> dict[str, str]:
        """Where the sessions that others own lie, on any remote: it is the same on all."""
        rows = self._read(
            "SELECT session, place FROM remote_session"
            " WHERE place != '' AND owner NOT IN ('', ?) ORDER BY remote DESC",
            (mine,),
        )
        return {str(session): str(place) for session, place in rows}

    def owner(self, session: str) -> str:
        """The circle that a session belongs to, by what any remote proved first; "" if none."""
        rows = self._read(
            f"SELECT owner FROM remote_session WHERE {_NAMED} AND owner != ''"
            " ORDER BY remote LIMIT 1",
            (session,),
        )
        return str(rows[0][0]) if rows else ""

    def hearsay(self) -> set[str]:
        """Tombstones, by hash, that came from elsewhere and that nobody vouched for."""
        found = self._read("SELECT key FROM meta WHERE key >= ? AND key < ?", key_range(_HEARSAY))
        return {str(key).removeprefix(_HEARSAY) for (key,) in found}

    def heard(self, stones: Iterable[str], *, vouched: bool) -> None:
        """Keep which tombstones are hearsay, and which are no longer."""
        known = self.hearsay()
        rows = [(_HEARSAY + hash,) for hash in stones if (hash in known) is vouched]
        put, drop = "INSERT OR IGNORE INTO meta VALUES (?, '')", "DELETE FROM meta WHERE key = ?"
        sql = drop if vouched else put
        if rows:
            self._run(sql, *rows)

    def owing(self) -> list[str]:
        """Sessions around which something is left that others forgot."""
        found = self._read("SELECT key FROM meta WHERE key >= ? AND key < ?", key_range(_OWED))
        return [str(key).removeprefix(_OWED) for (key,) in found]

    def owe(self, session: str) -> None:
        """Keep that what others forgot has to be looked for around a session."""
        self._keep({_OWED + session: "1"})

    def paid(self, session: str) -> None:
        """It was looked for."""
        self._run("DELETE FROM meta WHERE key = ?", (_OWED + session,))

    def circle(self) -> str:
        """The circle of this home, as it was when it last met a remote; "" if it never did."""
        return self._kept(_CIRCLE)

    def called(self) -> str:
        """What this device is called in its circle; "" if it never met a remote."""
        return self._kept(_CALLED)

    def is_of(self, circle: str, name: str) -> None:
        """Keep which circle this home is of, and what it is called there."""
        self._keep({_CIRCLE: circle, _CALLED: name})

    def in_desktop(self) -> bool:
        """Whether Claude Desktop was seen to reach this home."""
        return bool(self._kept(_DESKTOP))

    def is_in_desktop(self) -> None:
        """Keep that Claude Desktop reaches this home."""
        self._keep({_DESKTOP: "1"})

    def _keep(self, told: Mapping[str, str]) -> None:
        new = [(key, value) for key, value in told.items() if self._kept(key) != value]
        if new:
            self._run(_PUT_META, *new)

    def _kept(self, key: str) -> str:
        rows = self._read("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def former_ids(self) -> set[str]:
        """Return the ids that this home wrote under before."""
        return device.former_ids(self._tables)

    def names(self) -> dict[str, str]:
        """What the devices behind chains are called, as far as a remote told it."""
        sql = (
            "SELECT DISTINCT remote > 0, device, name FROM remote_chain WHERE name != '' ORDER BY 1"
        )
        return {str(device): str(name) for _, device, name in self._read(sql)}

    def renamed(self, names: Mapping[str, str], circle: str) -> None:
        """Devices of a circle are called otherwise from now on: all of these at once."""
        cases = " ".join("WHEN ? THEN ?" for _ in names)
        pairs = [word for pair in names.items() for word in pair]
        marks = ", ".join("?" for _ in names)
        sql = f"UPDATE remote_chain SET name = CASE name {cases} END"
        where = f" WHERE circle = ? AND name IN ({marks})"
        self._run(sql + where, (*pairs, circle, *names), soon=True)

    def objects(self, remote: Known, session: str) -> list[Packed]:
        """The packs of a session that were found sound there, by name."""
        rows = self._read(
            f"SELECT {_OBJECT} FROM remote_object WHERE remote = ? AND session = ?"
            " AND name LIKE '_/%' ORDER BY name",
            (remote.number, session),
        )
        return [Packed(*row) for row in rows]

    def noted(self, remote: Known, session: str) -> dict[str, dict[str, str]]:
        """What else is known of a session there: by word, what it is about, and what of it."""
        rows = self._read(
            "SELECT name, after FROM remote_object WHERE remote = ? AND session = ?"
            " AND name NOT LIKE '_/%'",
            (remote.number, session),
        )
        found: dict[str, dict[str, str]] = {}
        for name, told in rows:
            word, _, about = str(name).partition(" ")
            found.setdefault(word, {})[about] = str(told)
        return found

    def note(self, remote: Known, session: str, word: str, told: Mapping[str, str]) -> None:
        """Keep this, in place of all that was noted under the word."""
        self._tables.write(lambda db: _note(db, remote.number, session, word, told))

    def places(self, remote: Known, hash: str) -> set[str]:
        """Where packs whose names end so were seen."""
        rows = self._read(
            "SELECT DISTINCT s.place FROM remote_object o JOIN remote_session s"
            " ON s.remote = o.remote AND s.session = o.session"
            " WHERE o.remote = ? AND o.name LIKE ?",
            (remote.number, f"%{hash}"),
        )
        return {str(place) for (place,) in rows}

    def saw(
        self,
        remote: Known,
        there: There,
        *,
        chains: Iterable[Reach] | None = None,
        found: Sequence[Packed] = (),
        gone: Iterable[str] = (),
        turns: Mapping[str, str] | None = None,
    ) -> None:
        """Keep what a remote showed of a session, all of it or nothing.

        `chains` and `turns` replace what was remembered of them; `gone` are names that are no
        longer there.
        """
        whose = (remote.number, there.session)

        def act(connection: sqlite3.Connection) -> None:
            _put_session(connection, remote.number, there)
            connection.executemany(
                "DELETE FROM remote_object WHERE remote = ? AND session = ? AND name = ?",
                [(*whose, name) for name in gone],
            )
            connection.executemany(_PUT_OBJECT, [(*whose, *_values(one)) for one in found])
            if turns is not None:
                _note(connection, *whose, TURN, turns)
            if chains is not None:
                connection.execute(
                    "DELETE FROM remote_chain WHERE remote = ? AND session = ?", whose
                )
                connection.executemany(
                    "INSERT INTO remote_chain VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [(*whose, o.device, o.n, o.hash, o.circle, o.name) for o in chains],
                )
                _keep_owners(connection, there, [(o.device, o.circle) for o in chains])

        chains = None if chains is None else list(chains)
        self._tables.write(act)

    def pushed(self, remote: Known, session: str, found: Sequence[Packed]) -> None:
        """Keep that packs are there; a power cut may take it back, then they are read again."""
        rows = [(remote.number, session, *_values(one)) for one in found]
        self._run(_PUT_OBJECT, *rows, soon=True)

    # -- who is there --------------------------------------------------------------------------

    def persons(self) -> dict[str, str]:
        """Chains that others than the user wrote, with who they are."""
        return {device: told[0] for device, told in self._told(_PERSON).items() if told[0]}

    def met(self, persons: Mapping[str, str]) -> None:
        """Keep who wrote chains, "" for the user.

        A power cut may take it back, then it is told again.
        """
        known = self.persons()
        self._tell(_PERSON, {d: [one] for d, one in persons.items() if known.get(d, "") != one})

    def shared(self, session: str) -> list[str]:
        """The persons that a session is shared with: addresses, or fingerprints of keys."""
        return self._told(_SHARED).get(session.lower(), [])

    def share(self, session: str, people: Sequence[str]) -> None:
        """Keep whom a session is shared with now."""
        if self.shared(session) != list(people):
            self._tell(_SHARED, {session.lower(): list(people)})

    def _told(self, about: str) -> dict[str, list[str]]:
        rows = self._read(
            "SELECT key, value FROM meta WHERE key >= ? AND key < ?", key_range(about)
        )
        if not rows:
            return {}
        import json  # not for those who have no remote

        return {key.removeprefix(about): json.loads(value) for key, value in rows}

    def _tell(self, about: str, values: Mapping[str, list[str]]) -> None:
        if not values:
            return
        import json

        rows = [(about + key, json.dumps(value)) for key, value in values.items()]
        self._run(_PUT_META, *rows, soon=True)

    # -- what waits ----------------------------------------------------------------------------

    def waiting(self, session: str = "") -> int | None:
        """Return how many events of one session, or of all, are on no remote; None without one."""
        if not self.any():
            return None
        sql = "SELECT session, pushed, beyond FROM remote_session"
        rows = self._read(f"{sql} WHERE {_NAMED}", (session,)) if session else self._read(sql)
        there: dict[str, list[tuple[int, int]]] = {}
        for id, pushed, beyond in rows:
            there.setdefault(id.lower(), []).append((pushed, beyond))
        waiting = 0
        for id, seq in self._tables.session_lengths(session):
            # What came later than the mark and is there already was pulled from there.
            marks = there.get(id.lower(), ())
            reached = max((min(pushed, seq) + beyond for pushed, beyond in marks), default=0)
            waiting += max(seq - max(reached, 0), 0)
        return waiting


def _values(one: Packed) -> tuple[object, ...]:
    place = (one.name, one.device, one.first, one.last, one.before, one.after)
    return (*place, one.size, one.tombstone)


def _note(
    connection: sqlite3.Connection, remote: int, session: str, word: str, told: Mapping[str, str]
) -> None:
    connection.execute(
        "DELETE FROM remote_object WHERE remote = ? AND session = ? AND name >= ? AND name < ?",
        (remote, session, *key_range(word + " ")),
    )
    rows = [Packed(f"{word} {about}", "", 0, 0, "", what, 0) for about, what in told.items()]
    connection.executemany(_PUT_OBJECT, [(remote, session, *_values(one)) for one in rows])


def _put_session(connection: sqlite3.Connection, remote: int, there: There) -> None:
    mark = (there.pushed, there.hash, there.beyond)
    values = (there.place, there.epoch, *mark, there.error, there.owner)
    connection.execute(
        "INSERT OR REPLACE INTO remote_session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (remote, there.session, *values),
    )


def _keep_owners(
    connection: sqlite3.Connection, there: There, chains: Iterable[tuple[str, str]]
) -> None:
    """What is known of a session without any remote; what was shown first stays."""
    if there.owner:
        connection.execute(
            "INSERT OR IGNORE INTO remote_session VALUES (0, ?, '', 0, 0, '', 0, '', ?)",
            (there.session, there.owner),
        )
    connection.executemany(
        "INSERT OR IGNORE INTO remote_chain VALUES (0, ?, ?, 0, '', ?, '')",
        [(there.session, device, circle) for device, circle in chains if circle],
    )
