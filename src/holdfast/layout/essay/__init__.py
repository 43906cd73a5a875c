"""The `essay` layout: the folder of one essay that is written in four stages.

    form        the session file, key by key
    read        file → facts            write     facts → file
    check       departures              recover   the ladder for a file that cannot be read
    artifact    the files beside it     show      what a user is shown

The layout's root is the session's own folder, so its one tree key is `session-state.yaml`.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.layout import Bundle, Finding, Layout, Reading, Salvaged, Tree, Where
from holdfast.layout.essay import check as checks
from holdfast.layout.essay import form, read, recover, write
from holdfast.layout.essay.artifact import (
    folder_moment,
    folder_name,
    is_current,
    section_in,
    version_name,
)
from holdfast.layout.essay.form import BACKUP, STATE, TEMPORARY
from holdfast.layout.essay.recover import Recovery
from holdfast.layout.essay.show import (
    abandoned_for,
    pause_message,
    place,
    resume_summary,
    session_list,
)
from holdfast.layout.facts import Facts
from holdfast.layout.value import copied
from holdfast.sha import uuid_of

__all__ = [
    "BACKUP",
    "LAYOUT",
    "STATE",
    "TEMPORARY",
    "Essay",
    "Recovery",
    "abandoned_for",
    "begin_at",
    "folder_moment",
    "folder_name",
    "is_current",
    "pause_message",
    "place",
    "recovery",
    "resume_summary",
    "section_in",
    "session_list",
    "version_name",
]

_MOST_ID = 200


class Essay(Layout):
    """Document S3."""

    id = form.ID
    document = "S3"

    def recognise(self, name: str, value: Any) -> float:
        return recover.likeness(value)

    def files(self, native_id: str) -> list[str]:
        return [STATE]

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        """`essay-` and a UUID made of what the session is: the same session gets the same one."""
        said = "\0".join((facts.goal, str(facts.began_at), where.root, str(where.now)))
        tries = ("essay-" + uuid_of(f"{said}\0{n}") for n in range(len(taken) + 1))
        return next(made for made in tries if made not in taken)

    def valid_id(self, native_id: str) -> str:
        return checks.id_fault(native_id)

    def unkept_id(self, native_id: str) -> str:
        """An id names no file here, so that any will do: `uuidgen` writes capitals, and people
        what they like."""
        is_plain = native_id.isprintable() and len(native_id) <= _MOST_ID and "/" not in native_id
        return "" if native_id.strip() and is_plain else self.valid_id(native_id)

    def get(self, tree: Tree, where: Where) -> Facts:
        return read.facts(tree, where)

    def put(self, old: Tree | None, facts: Facts, where: Where, was: Facts | None = None) -> Tree:
        return write.put(old, facts, self._id_for(facts, where), where)

    def _id_for(self, facts: Facts, where: Where) -> str:
        """The id of a new file: the given one, or one made of that, if it is not possible here."""
        given = facts.native_id
        if given and self.valid_id(given):
            return "essay-" + uuid_of(given)
        return given or self.new_id(facts, where, frozenset())

    def whole(self, tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
        if not (doc := copied(form.state_of(tree))):
            return tree, []
        told = form.complete(doc, form.state_of(before))
        return {**tree, form.main(tree): doc}, told

    def torn(self, data: bytes, value: Any) -> str:
        return form.torn(data, value)

    def reading(self, tree: Tree, where: Where) -> Reading:
        if not form.state_of(tree):
            return Reading(self.id)
        told = read.facts(tree, where)
        done = sum(step.status == "done" for step in told.steps)
        complete = told.status == "completed"
        progress = done / len(told.steps) if told.steps else None
        return Reading(
            layout=self.id,
            complete=complete,
            status=told.status,
            progress=1.0 if complete else progress,
        )

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
        return checks.findings(tree, where, strict=strict)

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        return recover.salvage(bundle, _fallback_id(where), where)


def _fallback_id(where: Where) -> str:
    """An id for a session that lost its own: of its folder, so that a second look finds it."""
    return LAYOUT.new_id(Facts(), replace(where, now=0), frozenset())


def recovery(bundle: Bundle, where: Where) -> Recovery | None:
    """The rung of the ladder that holds, with the state to write; None when nothing is here."""
    return recover.recover(bundle, _fallback_id(where), where)


def begin_at(stage: int, bundle: Bundle, where: Where) -> dict[str, Any]:
    """A fresh state at the stage that the user chose."""
    return recover.begin_at(stage, bundle, _fallback_id(where), where)


LAYOUT = Essay()
