"""Writing facts into an essay's session file: only what the facts say differently from the file.

What a fact does not speak of stays as it is: stages that the facts do not name, attributes that are
not there (one that is None goes back to the template's value), the logs. Entries of logs are
added, never changed or removed, but for `resolved`. Sections that are no longer among the steps,
or were left out, are taken out of their list.

When a stage, section or session is completed and its result lies in the folder, the file is named,
because the document wants it named; and a list of sections that grew is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.choice import DEFER_REASONS
from holdfast.layout import Tree, Where, stamps, words
from holdfast.layout.essay.form import (
    ARGUMENTS,
    FIELDS,
    FINAL,
    ID,
    LOGS,
    OVERRIDE,
    SECTIONED,
    STAGES,
    STATE,
    Field,
    at,
    blank,
    blank_section,
    folders,
    inside,
    is_count,
    main,
    outside,
    place_of,
    said,
    section_fields,
    sections,
    session_status,
    spots,
    stage_id,
    unit_status,
)
from holdfast.layout.essay.read import entries, facts, value_of
from holdfast.layout.facts import ClaimFact, Facts, Scalar, StepFact, new_revisits, with_told_times
from holdfast.layout.value import copied, mapping, sequence


def put(old: Tree | None, wanted: Facts, native_id: str, where: Where) -> Tree:
    """The tree with these facts; `native_id` is for a file that is made anew."""
    tree: Tree = copied(old) if old else {}
    name = main(tree)
    if isinstance(tree.get(name), dict):
        Edit(tree[name], wanted, where).apply()
        # One that was converted did not know yet where it would lie.
        is_astray = where.moved or (where.root and tree[name].get("session_dir") == "")
        if is_astray and tree != old:
            _anchor(tree[name], where.root)
    elif old is None or facts(tree, where) != wanted:
        tree[name] = _fresh(wanted, native_id, where)
    return tree


def _anchor(doc: dict[str, Any], root: str) -> None:
    """Name the folder that the file lies in now, and what the file names in it: whoever reads it
    looks for those files there."""
    named = folders(doc, Where())
    for spot in spots(doc):
        path = said(spot.field, spot.part.get(spot.key))
        if spot.field.kind == "folder":
            spot.part[spot.key] = root
        elif spot.field.kind == "path" and path and inside(path, named) != path:
            spot.part[spot.key] = f"{root}/{inside(path, named)}"


def _fresh(wanted: Facts, native_id: str, where: Where) -> dict[str, Any]:
    doc = blank()
    began = stamps.first(wanted.began_at, wanted.updated_at, where.now)
    doc["pipeline_id"] = native_id
    doc["started_at"] = doc["last_activity"] = stamps.write(began)
    doc["session_dir"] = where.root
    edit = Edit(doc, wanted, where)
    edit.apply()
    if place_of(wanted.position) is None:
        edit.go_to(_first_open(wanted), None)
    return doc


def _first_open(wanted: Facts) -> int:
    done = {step.id for step in wanted.steps if step.status == "done"}
    running = {step.id for step in wanted.steps if step.status == "running"}
    by_need = sorted(STAGES, key=lambda n: (stage_id(n) not in running, stage_id(n) in done, n))
    return by_need[0]


class Edit:
    """One pass over a document: `was` is what it said, `want` what it is to say."""

    def __init__(self, doc: dict[str, Any], want: Facts, where: Where) -> None:
        self.doc, self.want, self.where = doc, want, where
        self.was = facts({STATE: doc}, where)
        self.had = {step.id: step for step in self.was.steps}
        self.steps = {step.id: step for step in want.steps if place_of(step.id)}
        self.around = folders(doc, where)

    def apply(self) -> None:
        self._identity()
        self._times()
        for stage in STAGES:
            self._stage(stage)
        self._position()
        self._attributes()
        self._claims()
        self._revisits()
        self._ending()

    def part(self, path: str) -> dict[str, Any]:
        """A mapping to write into; what is missing comes from the template."""
        here, model = self.doc, blank()
        for key in path.split("."):
            model = mapping(model.get(key))
            if not isinstance(here.get(key), dict):
                here[key] = copied(model)
            here = here[key]
        return here

    def stamp(self, part: dict[str, Any], key: str, moment: int) -> None:
        """Write a moment in the manner of the stamp it replaces, unless that says the same."""
        naive = self.where.naive
        text = stamps.write(moment, part.get(key), naive=naive)
        if stamps.read(text, naive) != stamps.read(part.get(key), naive):
            part[key] = text

    # -- the session -------------------------------------------------------------------------------

    def _identity(self) -> None:
        if self.want.native_id and not self.was.native_id:
            self.doc["pipeline_id"] = self.want.native_id
        word = words.session_word(ID, self.want.status)
        if self.was.status not in (self.want.status, session_status(word)):
            self.doc["status"] = word

    def _times(self) -> None:
        was, want = self.was, self.want
        if want.began_at is not None and want.began_at != was.began_at:
            self.stamp(self.doc, "started_at", want.began_at)
        if want.updated_at is not None and want.updated_at > (was.updated_at or 0):
            self.stamp(self.doc, "last_activity", want.updated_at)

    def _ending(self) -> None:
        was, want = self.was, self.want
        if want.status == "completed" != was.status:
            self._name_file("output", "final_essay_file", FINAL)
        if want.ended_at == was.ended_at:
            return
        if want.ended_at is None:
            self.part("output")["completed_at"] = None
        elif want.status == "completed":
            self.stamp(self.part("output"), "completed_at", want.ended_at)

    def _name_file(self, path: str, key: str, name: str) -> None:
        if name in self.where.names and at(self.doc, f"{path}.{key}") is None:
            self.part(path)[key] = outside(name, self.around)

    # -- stages and sections -----------------------------------------------------------------------

    def _stage(self, stage: int) -> None:
        path, step = f"stages.stage_{stage}", self.steps.get(stage_id(stage))
        if step is not None and self._differs(step):
            self._unit(self.part(path), step)
            if step.status == "done" and STAGES[stage].file:
                self._name_file(path, STAGES[stage].file, STAGES[stage].default)
        if stage in SECTIONED:
            self._sections(stage)
            self._leave(stage)

    def _leave(self, stage: int) -> None:
        """A stage that is not begun, and not the place of the work, is at none of its sections."""
        step, place = self.steps.get(stage_id(stage)), place_of(self.want.position)
        had = self.had.get(stage_id(stage))
        reset = step is not None and step.status == "pending" and had and had.status != "pending"
        if reset and place is not None and place[0] != stage:
            self.part(f"stages.stage_{stage}")["current_section"] = None

    def _differs(self, step: StepFact) -> bool:
        had = self.had.get(step.id)
        return had is None or not _says(had, step) or had.ended_at != step.ended_at

    def _unit(self, part: dict[str, Any], step: StepFact) -> None:
        word, had = words.unit_word(ID, step.status), self.had.get(step.id)
        step = with_told_times(step, had)
        if had is None or not _says(had, step):
            part["status"] = word
        if step.id.startswith("stage-4/") or step.ended_at == (had and had.ended_at):
            return
        if step.ended_at is None:
            part["completed_at"] = None
        else:
            self.stamp(part, "completed_at", step.ended_at)

    def _sections(self, stage: int) -> None:
        wanted = {
            place[1]: step
            for step in self.steps.values()
            if (place := place_of(step.id)) and place[0] == stage and place[1]
            # The document has no word for it; whoever has one keeps his section.
            if step.status != "skipped" or _is_skipped(self.had.get(step.id))
        }
        found = sections(self.doc, stage)
        if gone := set(found) - set(wanted):
            self._remove(stage, gone)
        if new := sorted(index for index in wanted if index not in found):
            self._append(stage, new)
        for index, section in sections(self.doc, stage).items():
            if self._differs(wanted[index]):
                self._section(stage, index, section, wanted[index])

    def _section(self, stage: int, index: int, section: dict[str, Any], step: StepFact) -> None:
        self._unit(section, step)
        name = ARGUMENTS.format(index)
        known = name in self.where.names and section.get("argument_map_file") is None
        if stage == 3 and step.status == "done" and known:
            section["argument_map_file"] = outside(name, self.around)

    def _remove(self, stage: int, gone: set[int]) -> None:
        part = self.part(f"stages.stage_{stage}")
        part["sections"] = [
            entry
            for entry in part["sections"]
            if not is_count(index := mapping(entry).get("section_index")) or index not in gone
        ]

    def _append(self, stage: int, new: list[int]) -> None:
        part = self.part(f"stages.stage_{stage}")
        part["sections"] = [
            *sequence(part.get("sections")),
            *(blank_section(stage, index) for index in new),
        ]
        count = len(sections(self.doc, stage))
        total = part.get("total_sections")
        if stage == 3 and (not is_count(total) or total < count):
            part["total_sections"] = count

    def _position(self) -> None:
        place = place_of(self.want.position)
        if place is not None and self.want.position != self.was.position:
            if place[1] or not self._is_at_unlisted(place[0]):
                self.go_to(*place)
        elif place is None and self._is_done_now():
            self.go_to(max(STAGES), None)

    def _is_at_unlisted(self, stage: int) -> bool:
        """Whether the file is at a section of the stage that nobody lists, and so no step is."""
        here, known = self.was.position, {*self.steps, *self.had}
        return here.startswith(f"{stage_id(stage)}/") and here not in known

    def _is_done_now(self) -> bool:
        """Whether all stages are done that were not; the work is at none then."""

        def are_done(steps: Mapping[str, StepFact]) -> bool:
            known = [steps.get(stage_id(stage)) for stage in STAGES]
            return all(step is not None and step.status == "done" for step in known)

        return are_done(self.steps) and not are_done(self.had)

    def go_to(self, stage: int, section: int | None) -> None:
        self.doc["current_stage"] = stage
        self.doc["current_stage_name"] = STAGES[stage].name
        if stage in SECTIONED:
            part = self.part(f"stages.stage_{stage}")
            if section is not None or part.get("current_section") is not None:
                part["current_section"] = section

    # -- attributes --------------------------------------------------------------------------------

    def _attributes(self) -> None:
        for field in FIELDS:
            if field.attribute and field.name in self.want.attributes:
                path, _, key = field.path.rpartition(".")
                if self._changes(field, field.name, at(self.doc, field.path)):
                    part = self.part(path) if path else self.doc
                    part[key] = self._native(field, self.want.attributes[field.name])
        for stage in SECTIONED:
            for index, section in sections(self.doc, stage).items():
                for name, field in section_fields(stage, index):
                    if self._changes(field, name, section.get(field.path)):
                        section[field.path] = self._native(field, self.want.attributes[name])

    def _changes(self, field: Field, name: str, value: Any) -> bool:
        if name not in self.want.attributes:
            return False
        wanted = self.want.attributes[name]
        if wanted is not None and said(field, wanted) is None:
            return False  # the field cannot hold it
        return value_of(field, value, self.around) != value_of(field, wanted, self.around)

    def _native(self, field: Field, wanted: Scalar) -> Any:
        if wanted is None:
            return field.default
        if field.kind == "path" and isinstance(wanted, str):
            return outside(inside(wanted, self.around), self.around)
        return wanted

    # -- claims ------------------------------------------------------------------------------------

    def _claims(self) -> None:
        """Match claims to entries by their words, the first with the first."""
        deferred = self._by_text("deferred_verifications")
        overridden = Counter(entry["claim_text"] for entry in entries(self.doc, "user_overrides"))
        for claim in self.want.claims:
            if not claim.text.strip():
                continue
            if waiting := deferred.get(claim.text):
                self._settle(waiting.pop(0), claim)
            elif _was_put_off(claim):
                self._log("deferred_verifications", self._deferral(claim))
            if claim.result and overridden[claim.text]:
                overridden[claim.text] -= 1
            elif claim.result:
                self._log("user_overrides", self._override(claim))

    def _by_text(self, log: str) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for entry in entries(self.doc, log):
            found.setdefault(entry["claim_text"], []).append(entry)
        return found

    def _settle(self, entry: dict[str, Any], claim: ClaimFact) -> None:
        if claim.resolved != (entry.get("resolved") is True):
            entry["resolved"] = claim.resolved

    def _log(self, log: str, values: list[Any]) -> None:
        entry = {field.path: value for field, value in zip(LOGS[log], values, strict=True)}
        self.doc[log] = [*sequence(self.doc.get(log)), entry]

    def _deferral(self, claim: ClaimFact) -> list[Any]:
        at = stamps.write(self._moment(claim))
        reason = defer_reason(claim.reason)
        return [claim.text, claim.section, claim.paragraph, reason, at, claim.resolved]

    def _override(self, claim: ClaimFact) -> list[Any]:
        # A claim that was put off first knows only when that was.
        late = self.want.updated_at if _was_put_off(claim) else None
        at = stamps.write(self._moment(claim) if late is None else late)
        return [claim.text, claim.result, OVERRIDE, claim.because, at]

    def _moment(self, claim: ClaimFact) -> int:
        return stamps.first(claim.at, self.want.updated_at, self.was.updated_at, self.where.now)

    # -- revisits ----------------------------------------------------------------------------------

    def _revisits(self) -> None:
        """Log those that are of this pipeline and not logged yet."""
        places = ((revisit, place_of(revisit.step)) for revisit in self.want.revisits)
        ours = [replace(one, step=stage_id(place[0])) for one, place in places if place]
        for one in new_revisits(self.was.revisits, ours):
            place = place_of(one.step)
            stage, at = place and place[0], self.where.now if one.at is None else one.at
            values = [stage, one.impact, one.because, list(one.archived), stamps.write(at)]
            self._log("revision_history", values)


def _is_skipped(step: StepFact | None) -> bool:
    return step is not None and step.status == "skipped"


def _says(had: StepFact, step: StepFact) -> bool:
    """Whether a file tells the status of a step, in whatever word it uses for it."""
    return had.status in (step.status, unit_status(words.unit_word(ID, step.status)))


def defer_reason(reason: str) -> str:
    """The document's word that is nearest to a reason for putting a claim off."""
    if reason in DEFER_REASONS:
        return reason
    said = reason.casefold()
    if "time" in said and "out" in said:
        return "timeout"
    return "service_unavailable" if "unavailable" in said else "no_results"


def _was_put_off(claim: ClaimFact) -> bool:
    """An override of a claim that nobody put off first has no place, and no reason of a deferral.

    The reason `unknown` is what such a claim gets elsewhere, where every claim has one.
    """
    return not claim.result or claim.reason not in ("", "unknown") or claim.section is not None
