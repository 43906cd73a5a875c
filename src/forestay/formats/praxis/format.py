"""The praxis format (specification S1): one JSON file per workflow session, `{session_id}.json`.

    read      files of all generations → facts      write       facts → the redesigned form
    schema    deviations                            api_types   classes that the specification names

Files of older generations are shown with a warning and not changed, never migrated in place. On
request, their redesigned form (`in_current_form`) is written next to them. Only the redesigned form
is ever written, also for a session that returns from another format.
"""

from __future__ import annotations

from typing import Any

from forestay.base.findings import Finding
from forestay.base.hashing import derive_uuid
from forestay.formats import carry_over
from forestay.formats.coerce import copied, mapping, text
from forestay.formats.facts import Facts
from forestay.formats.port import (
    Bundle,
    Conventions,
    Format,
    Reading,
    Salvaged,
    Signs,
    Tree,
    Where,
    unsafe_id,
)
from forestay.formats.praxis import write as writing
from forestay.formats.praxis.read import (
    LEGACY_WARNING,
    SIGNATURE,
    View,
    likeness,
    phase_id,
    read_facts,
)
from forestay.formats.praxis.schema import UUID, check_file, restore_required
from forestay.formats.salvage import salvage_json


def file_name(session_id: str) -> str:
    """Return the name of a session's file; the id must be safe (`unsafe_id`)."""
    return f"{session_id}.json"


class Praxis(Format):
    id = "praxis"
    document = "S1"
    conventions = Conventions(
        named_after=(".praxis-os/.cache/state", "X1-1"),
        definitions=".praxis-os/workflows",
        unreadable="S1-25",
    )
    signs = Signs(
        words=rb"session_id|workflow_type|completed_phases",
        damaged=rb'"workflow_type"|"completed_phases"',
        names=r"(workflow_default_)?[0-9a-f]{8}-[0-9a-f-]{27}\.json",
        names_in_place=r"(?!index\.json$).*\.json",
    )
    latest = frozenset({"errors"})
    has_goal = False

    def recognise(self, name: str, value: Any) -> float:
        return likeness(value)

    def files(self, native_id: str) -> list[str]:
        return [file_name(native_id)]

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        """Return a UUID derived from the session, so that a session always gets the same UUID."""
        seed = "\0".join((facts.goal, facts.target, str(facts.began_at), where.project_path))
        tries = (derive_uuid(f"{seed}\0{where.now}\0{n}") for n in range(len(taken) + 1))
        return next(made for made in tries if made not in taken)

    def why_invalid_id(self, native_id: str) -> str:
        """Return why a new file cannot have this id; a file that we read may have any safe id."""
        if UUID.match(native_id):
            return ""
        return unsafe_id(native_id) or "a praxis session id must have the form of a UUID"

    def get(self, tree: Tree, where: Where) -> Facts:
        return read_facts(View(tree, where))

    def put(self, old: Tree | None, facts: Facts, where: Where) -> Tree:
        view = View(old or {}, where)
        if not view.doc and (old is None or self.get(old, where) != facts):
            # An id that the user chose survives a conversion to another format and back.
            id = facts.native_id
            if unsafe_id(id):
                id = self.new_id(facts, where, frozenset())
            name = view.name or file_name(id)
            return {**copied(old or {}), name: writing.create_file(facts, id, where)}
        tree: Tree = copied(old)
        status = carry_over.read(self, tree, where).status if view.doc else ""
        if view.redesigned:
            writing.write_document(tree[view.name], facts, where, status)
        elif view.doc and self.get(tree, where) != facts:
            upgraded = writing.upgrade(view, where)
            tree[view.name] = writing.write_document(upgraded, facts, where, status)
        return tree

    def assigned_step_ids(self, facts: Facts) -> dict[int, str]:
        return {place: phase_id(number) for number, place in writing.number_phases(facts).items()}

    def in_current_form(self, tree: Tree, where: Where) -> Tree:
        """Return the redesigned form of a session, to be written next to the original."""
        view = View(tree, where)
        made: Tree = copied(tree)
        if view.doc and not view.redesigned:
            made[view.name] = writing.upgrade(view, where)
        return made

    def restore_required(self, tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
        return restore_required(tree, before, where)

    def workflow_of(self, tree: Tree) -> str:
        return text(mapping(next(iter(tree.values()), None)).get("workflow_type"))

    def reading(self, tree: Tree, where: Where) -> Reading:
        view = View(tree, where)
        return Reading(
            format=self.id,
            generation=view.generation,
            complete=view.complete,
            status=view.status,
            progress=view.progress(),
            writable=view.redesigned,
            warning="" if view.redesigned else LEGACY_WARNING,
        )

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
        return check_file(tree, where, strict=strict)

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        """Return the facts in the file that most likely is the session, the largest of equals."""
        names = sorted(bundle, key=lambda name: (not name.endswith(".json"), -len(bundle[name])))
        found = (_salvage_file(name, bundle[name], where) for name in names)
        return next(filter(None, found), None)


_EXPECTED = ("session_id", *SIGNATURE, "created_at", "updated_at", "metadata")
_SINGLE = (*_EXPECTED[:5], "created_at", "updated_at", "status")


def _salvage_file(name: str, data: bytes, where: Where) -> Salvaged | None:
    def read(doc: dict[str, Any]) -> Facts:
        return read_facts(View({name: doc}, where))

    return salvage_json(data, read, is_session=likeness, wanted=_EXPECTED, single=_SINGLE)


FORMAT = Praxis()
