"""The praxis layout (document S1): one JSON file per workflow session, `{session_id}.json`.

    read        all generations of such files → facts     write     facts → the redesigned form
    check       departures                                older     facts → an older form
    phases      when a phase and the whole end            context   what whoever resumes is told
    salvage     what a damaged file still says            state     the class of the document

Files of older generations are shown with a warning and left as they are, never migrated in place.
Their redesigned form (`renewed`) is written beside them on request. In their own form they are only
written when such a file comes back from a conversion.
"""

from __future__ import annotations

from typing import Any

from holdfast.layout import (
    Bundle,
    Finding,
    Layout,
    Reading,
    Salvaged,
    Tree,
    Where,
    carry,
    unsafe_id,
)
from holdfast.layout.facts import Facts
from holdfast.layout.praxis import check as checks
from holdfast.layout.praxis import older
from holdfast.layout.praxis import salvage as damage
from holdfast.layout.praxis import write as writing
from holdfast.layout.praxis.phases import LEGACY_WARNING
from holdfast.layout.praxis.read import View, facts, likeness, phase_id
from holdfast.layout.value import copied
from holdfast.sha import uuid_of


def file_name(session_id: str) -> str:
    """The name of a session's file; the id must be safe (`unsafe_id`)."""
    return f"{session_id}.json"


class Praxis(Layout):
    id = "praxis"
    document = "S1"
    latest = frozenset({"errors"})
    has_goal = False

    def recognise(self, name: str, value: Any) -> float:
        return likeness(value)

    def files(self, native_id: str) -> list[str]:
        return [file_name(native_id)]

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        """A UUID made of what the session is: the same session gets the same one."""
        said = "\0".join((facts.goal, facts.target, str(facts.began_at), where.project_path))
        tries = (uuid_of(f"{said}\0{where.now}\0{n}") for n in range(len(taken) + 1))
        return next(made for made in tries if made not in taken)

    def valid_id(self, native_id: str) -> str:
        """What we write has a UUID for an id; what we read need only be safe (`unsafe_id`)."""
        if checks.UUID.match(native_id):
            return ""
        return unsafe_id(native_id) or "a praxis session id looks like a UUID"

    def get(self, tree: Tree, where: Where) -> Facts:
        return facts(View(tree, where))

    def put(self, old: Tree | None, facts: Facts, where: Where, was: Facts | None = None) -> Tree:
        if old is None:
            # An id of the user's own making comes back from another layout as it went.
            unfit = unsafe_id(facts.native_id)
            id = self.new_id(facts, where, frozenset()) if unfit else facts.native_id
            make = older.fresh if where.generation in older.GENERATIONS else writing.fresh
            return {file_name(id): make(facts, id, where)}
        view = View(old, where)
        tree: Tree = copied(old)
        if view.doc:
            doc = tree[view.name]
            if view.redesigned:
                writing.written(doc, facts, where, carry.read(self, old, where).status)
            else:
                older.written(doc, facts, where)
        elif self.get(old, where) != facts:
            id = self.new_id(facts, where, frozenset())
            tree[view.name or file_name(id)] = writing.fresh(facts, facts.native_id or id, where)
        return tree

    def known_as(self, facts: Facts) -> dict[int, str]:
        return {place: phase_id(number) for number, place in writing.numbered(facts).items()}

    def renewed(self, tree: Tree, where: Where) -> Tree:
        """The redesigned form of a session of any generation, to be written beside the original."""
        view = View(tree, where)
        made: Tree = copied(tree)
        if view.doc and not view.redesigned:
            made[view.name] = writing.upgraded(view, where)
        return made

    def whole(self, tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
        return checks.whole(tree, before, where)

    def reading(self, tree: Tree, where: Where) -> Reading:
        view = View(tree, where)
        return Reading(
            layout=self.id,
            generation=view.generation,
            complete=view.complete,
            status=view.status,
            progress=view.progress(),
            writable=view.redesigned,
            warning="" if view.redesigned else LEGACY_WARNING,
        )

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
        return checks.findings(tree, where, strict=strict)

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        return damage.salvage(bundle, where)


LAYOUT = Praxis()
