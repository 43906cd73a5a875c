"""Two small formats of different reach, to test what is common to all formats.

`Rich` has fields for ids, owners and every status; `Poor` knows steps by their sentence alone and
has one word for several statuses. Facts that neither has a field for are made too.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from forestay.base.findings import Finding
from forestay.formats.facts import (
    SESSION,
    UNIT,
    AgentFact,
    CommandFact,
    DecisionFact,
    Facts,
    FileFact,
    StepFact,
)
from forestay.formats.port import Bundle, Format, Reading, Salvaged, Tree, Where


class Toy(Format):
    """What the two have in common."""

    id = ""
    document = ""
    name = ""

    def recognise(self, name: str, value: Any) -> float:
        return 0.0

    def files(self, native_id: str) -> list[str]:
        return [self.name.format(native_id)]

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        return f"{self.id}-1"

    def why_invalid_id(self, native_id: str) -> str:
        return ""

    def reading(self, tree: Tree, where: Where) -> Reading:
        return Reading(self.id)

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
        return []

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        return None

    def get(self, tree: Tree, where: Where) -> Facts:
        raise NotImplementedError

    def put(self, old: Tree | None, facts: Facts, where: Where) -> Tree:
        name, main = next(iter(old.items())) if old else (self.files(facts.native_id)[0], {})
        main = copy.deepcopy(main)
        stated = self.get({name: main}, where)
        for key, of in self.fields().items():
            if key not in main or of(stated) != of(facts):
                main[key] = of(facts)
        self.put_lists(main, stated, facts)
        self.put_times(main, stated, facts, where)
        return {name: main}

    def put_times(self, main: dict[str, Any], stated: Facts, facts: Facts, where: Where) -> None:
        pass

    def fields(self) -> dict[str, Any]:
        raise NotImplementedError

    def put_lists(self, main: dict[str, Any], stated: Facts, facts: Facts) -> None:
        raise NotImplementedError


class Rich(Toy):
    id = "rich"
    name = "{}.json"

    def fields(self) -> dict[str, Any]:
        return {
            "id": lambda facts: facts.native_id,
            "state": lambda facts: facts.status,
            "goal": lambda facts: facts.goal,
            "progress": lambda facts: facts.progress,
            "updated": lambda facts: facts.updated_at,
        }

    def get(self, tree: Tree, where: Where) -> Facts:
        main = next(iter(tree.values()))
        facts = Facts(
            native_id=main.get("id", ""),
            status=main.get("state", "active"),
            goal=main.get("goal", ""),
            progress=main.get("progress"),
            updated_at=main.get("updated"),
            began_at=main.get("began"),
        )
        for item in main.get("items", []):
            owner, state = item.get("owner", ""), item["state"]
            facts.steps.append(StepFact(item["text"], id=item["key"], status=state, agent=owner))
        facts.decisions = [DecisionFact(each["what"], each["why"]) for each in main.get("why", [])]
        return facts

    def put_lists(self, main: dict[str, Any], stated: Facts, facts: Facts) -> None:
        old = {item["key"]: item for item in main.get("items", [])}
        main["items"] = [
            {**old.get(step.id, {}), "key": step.id, "text": step.title, "state": step.status}
            | ({"owner": step.agent} if step.agent or "owner" in old.get(step.id, {}) else {})
            for step in facts.steps
        ]
        known = main.setdefault("why", [])
        main["why"] = known + [
            {"what": each.what, "why": each.because} for each in facts.decisions[len(known) :]
        ]

    def put_times(self, main: dict[str, Any], stated: Facts, facts: Facts, where: Where) -> None:
        """A file says when it began, even if nobody knows: then it began now."""
        if facts.began_at is not None and facts.began_at != stated.began_at:
            main["began"] = facts.began_at
        main.setdefault("began", where.now)


class Poor(Toy):
    id = "poor"
    name = "session-{}.yaml"

    def fields(self) -> dict[str, Any]:
        return {
            "session": lambda facts: facts.native_id,
            "task": lambda facts: facts.goal,
            "word": lambda facts: "closed" if facts.status in ("completed", "aborted") else "open",
            "percent": lambda facts: (
                None if facts.progress is None else round(facts.progress * 100)
            ),
        }

    def get(self, tree: Tree, where: Where) -> Facts:
        main = next(iter(tree.values()))
        percent = main.get("percent")
        facts = Facts(
            native_id=main.get("session", ""),
            goal=main.get("task", ""),
            status="completed" if main.get("word") == "closed" else "active",
            progress=None if percent is None else percent / 100,
        )
        facts.steps = [StepFact(each) for each in main.get("todo", [])]
        facts.steps += [StepFact(each, status="done") for each in main.get("finished", [])]
        facts.decisions = [DecisionFact(each) for each in main.get("log", [])]
        return facts

    def put_lists(self, main: dict[str, Any], stated: Facts, facts: Facts) -> None:
        done = ("done", "skipped")
        main["todo"] = [step.title for step in facts.steps if step.status not in done]
        main["finished"] = [step.title for step in facts.steps if step.status in done]
        known = main.setdefault("log", [])
        main["log"] = known + [each.what for each in facts.decisions[len(known) :]]


RICH, POOR = Rich(), Poor()

words = st.sampled_from(["plan it", "build it", "test it", "ship it", "rest", "x", "é"])
moments = st.one_of(st.none(), st.integers(0, 2_000_000_000_000))
steps = st.builds(
    StepFact,
    title=words,
    id=st.just(""),
    status=st.sampled_from(UNIT),
    agent=st.sampled_from(["", "arch-1", "test-1"]),
    parent=st.sampled_from(["", "p1"]),
    outcome=st.sampled_from(["", "fine"]),
    files=st.lists(st.sampled_from(["a.py", "b.py"]), max_size=2),
    started_at=moments,
)


def _numbered(found: list[StepFact]) -> list[StepFact]:
    for number, step in enumerate(found):
        step.id = f"t{number}"
    return found


facts = st.builds(
    Facts,
    native_id=st.just("native-1"),
    goal=words,
    status=st.sampled_from(SESSION),
    progress=st.one_of(st.none(), st.floats(0, 1)),
    updated_at=moments,
    began_at=moments,
    because=st.sampled_from(["", "tired"]),
    steps=st.lists(steps, max_size=5).map(_numbered),
    agents=st.lists(
        st.builds(
            AgentFact, id=st.sampled_from(["arch-1", "test-1"]), status=st.sampled_from(UNIT)
        ),
        max_size=2,
        unique_by=lambda agent: agent.id,
    ),
    decisions=st.lists(st.builds(DecisionFact, what=words, because=words, at=moments), max_size=3),
    files=st.lists(st.builds(FileFact, path=words, at=moments), max_size=3),
    commands=st.lists(st.builds(CommandFact, name=words), max_size=2),
    tokens=moments,
    attributes=st.dictionaries(words, st.one_of(st.none(), words, st.integers()), max_size=2),
)
