"""The toy format: `ID.toy.json`, written with the field tables that all JSON formats share."""

from __future__ import annotations

from functools import partial
from typing import Any

from forestay.base.findings import Finding
from forestay.formats import fields as form
from forestay.formats.coerce import Node, mapping, text
from forestay.formats.facts import Facts
from forestay.formats.fields import SECONDS, TEXT, Field
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
from forestay.formats.salvage import salvage_json
from forestay.formats.schema import EXTRA_RULE, Rule, check_value
from forestay.formats.status_words import ALSO_SESSION

_UPDATED = Field("updated_at", ("changed",), SECONDS, sticky=True)
_FIELDS = (
    Field("native_id", ("name",), TEXT, sticky=True),
    Field("goal", ("aim",), TEXT, sticky=True),
    Field("began_at", ("made",), SECONDS, sticky=True),
)
_KEYS = {
    "name": Rule(type="string"),
    "aim": Rule(type="string"),
    "made": Rule(type="string"),
    "changed": Rule(type="string"),
    "state": Rule(type="string", words=tuple(ALSO_SESSION)),
    "finished": Rule(type="array", each=Rule(type="string")),
    "open": Rule(type="array", each=Rule(type="string")),
}
RULES = Rule(type="object", need={"name": "", "state": ""}, keys={**_KEYS, **EXTRA_RULE})
ORDER = tuple(_KEYS)


def _get(root: Node, where: Where) -> Facts:
    return Facts(
        status=ALSO_SESSION.get(text(root.get("state")), "active"),
        steps=[
            *form.read_elements(root.get("finished"), lambda each: form.get_task(each, "done")),
            *form.read_elements(root.get("open"), form.get_task),
        ],
        **form.get_fields(root, (*_FIELDS, _UPDATED), where),
    )


class ToyFormat(Format):
    id = "toy"
    document = "none"
    conventions = Conventions(artifacts=".txt", unreadable="T0-1")
    signs = Signs(
        words=rb'"open"', damaged=rb'"finished"|"aim"', names=r".*\.toy\.json", names_in_place=r".*"
    )

    def recognise(self, name: str, value: Any) -> float:
        return 1.0 if {"name", "state", "open"} <= mapping(value).keys() else 0.0

    def files(self, native_id: str) -> list[str]:
        return [f"{native_id}.toy.json"]

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        return next(id for each in form.digests(facts, where) if (id := each[:8]) not in taken)

    def why_invalid_id(self, native_id: str) -> str:
        return unsafe_id(native_id)

    def get(self, tree: Tree, where: Where) -> Facts:
        return _get(mapping(form.main(tree)[1]), where)

    def put(self, old: Tree | None, facts: Facts, where: Where) -> Tree:
        made: Tree = dict(old or {})
        name, value = form.main(made)
        if not isinstance(value, dict):
            native_id = facts.native_id or self.new_id(facts, where, frozenset())
            value = {"name": native_id, "state": "active", "finished": [], "open": []}
            name = name or self.files(native_id)[0]
        made[name] = root = dict(value)
        form.put_fields(root, facts, _FIELDS, where, ORDER)
        form.put_latest(root, _UPDATED, facts.updated_at, where, ORDER)
        if ALSO_SESSION.get(text(root.get("state")), "active") != facts.status:
            form.insert(root, "state", facts.status, ORDER)
        for key, is_done in (("finished", True), ("open", False)):
            steps = [step for step in facts.steps if (step.status in form.DONE) is is_done]
            form.put_list(root, key, ORDER, form.titled(steps), form.TASK)
        return made

    def reading(self, tree: Tree, where: Where) -> Reading:
        return Reading(self.id, status=self.get(tree, where).status)

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
        return list(check_value(RULES, form.main(tree)[1], strict=strict))

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        def is_session(root: Node) -> object:
            return root.keys() & {"name", "aim", "open"}

        data, read = form.main(bundle)[1], partial(_get, where=where)
        return salvage_json(data, read, is_session=is_session, wanted=RULES.need)


FORMAT = ToyFormat()
