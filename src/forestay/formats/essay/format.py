"""The `essay` format: the folder of one essay that is written in four stages.

    fields         the session file as a table      check      the rules beyond single values
    format         file ↔ facts                     salvage    recovery of an unreadable file
    stage_files    the results of the stages        display    messages for the user

The format's root is the session's own folder, so its one tree key is `session-state.yaml`.

The four stages are steps, and so are the sections of stages 3 and 4; all other single values are
attributes. Claims come from two logs: a claim that was deferred, and that the user accepted later,
is in both logs and is one claim. Paths in the session's folder are read relative to it, so that the
folder can be moved.

Writing changes only values that differ from the facts. Stages and attributes that the facts do not
have stay unchanged; an attribute of None is reset to the template's value. Entries of logs are
added, never changed or removed, except for their key `resolved`. Sections that are no longer among
the steps, or were skipped, are removed from their list. If a stage, section or session is completed
and its result file is in the folder, the name of that file is written, as specified.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Any

from msgspec.structs import replace

from forestay.base.findings import Finding, Question
from forestay.base.vocabulary import DEFER_REASONS
from forestay.errors import InvalidInput
from forestay.formats import fields as form
from forestay.formats import timestamps
from forestay.formats.coerce import copied, mapping, sequence, text
from forestay.formats.essay import salvage, stage_files
from forestay.formats.essay.check import find_faults
from forestay.formats.essay.fields import (
    ARGUMENTS,
    BACKUP,
    FIELDS,
    FINAL,
    ID,
    ID_PATTERN,
    IMPACTS,
    LOGS,
    OVERRIDE,
    SECTIONED,
    STAGES,
    STATE,
    THESIS,
    Field,
    blank,
    blank_section,
    folders,
    inside,
    is_count,
    is_placeholder,
    make_id,
    outside,
    place_of,
    read_session_status,
    read_unit_status,
    read_value,
    section_id,
    section_of,
    sections,
    spots,
    stage_id,
    stage_of,
    state_name,
    state_of,
    value_at,
)
from forestay.formats.facts import (
    ClaimFact,
    Facts,
    RevisitFact,
    Scalar,
    StepFact,
    new_revisits,
    with_stated_times,
)
from forestay.formats.fields import SECONDS
from forestay.formats.port import (
    Bundle,
    Conventions,
    Format,
    Reading,
    Salvaged,
    Signs,
    Tree,
    Where,
)
from forestay.formats.required_keys import restore_required
from forestay.formats.status_words import unit_word

_BEGAN = form.Field("began_at", ("started_at",), SECONDS, sticky=True)
_UPDATED = form.Field("updated_at", ("last_activity",), SECONDS, sticky=True)
_ENDED = form.Field("ended_at", ("completed_at",), SECONDS)


# -- reading -------------------------------------------------------------------------------------


def get_facts(tree: Tree, where: Where) -> Facts:
    doc = state_of(tree)
    stage = stage_of(doc)
    section = section_of(doc, stage)
    at_stage = "" if stage is None else stage_id(stage)
    id, around = text(doc.get("pipeline_id")), folders(doc, where)
    values = {
        spot.name: _get_attribute(spot.field, spot.value, around)
        for spot in spots(doc)
        if spot.field.attribute
    }
    return Facts(
        native_id="" if is_placeholder(FIELDS[0], id) else id,
        status=read_session_status(doc.get("status")) or "active",
        position=section_id(stage, section) if stage and section else at_stage,
        steps=[*_get_steps(doc, where)],
        claims=_get_claims(doc, where),
        revisits=_get_revisits(doc, where),
        artifacts=stage_files.current(where.names),
        attributes={name: value for name, value in values.items() if value is not None},
        **form.get_fields(doc, (_BEGAN, _UPDATED), where),
        **form.get_fields(mapping(doc.get("output")), (_ENDED,), where),
    )


def _get_attribute(field: Field, value: Any, around: list[str]) -> Scalar:
    """Return the value of a field, or None if it is the default."""
    found: Scalar = read_value(field, value)
    if isinstance(found, str) and field.kind == "path":
        found = inside(found, around)
    return None if found == field.default else found


def _get_steps(doc: dict[str, Any], where: Where) -> Iterator[StepFact]:
    for number, stage in STAGES.items():
        parent = stage_id(number)
        units = [(parent, stage.title, value_at(doc, f"stages.stage_{number}"))]
        # The session file has no titles of sections; only the outline has them.
        units += [
            (section_id(number, index), f"Section {index}", section)
            for index, section in (sections(doc, number) if number in SECTIONED else {}).items()
        ]
        for id, title, value in units:
            if isinstance(value, dict):
                status = read_unit_status(value.get("status")) or "pending"
                unit, above = ("stage", "") if id == parent else ("section", parent)
                ended = () if id.startswith("stage-4/") else (_ENDED,)
                times = form.get_fields(value, ended, where)
                yield StepFact(title, id=id, unit=unit, parent=above, status=status, **times)


def _get_claims(doc: dict[str, Any], where: Where) -> list[ClaimFact]:
    _, section, paragraph, *_ = LOGS["deferred_verifications"]
    found: list[ClaimFact] = []
    deferred: dict[str, list[ClaimFact]] = {}
    for entry in _entries(doc, "deferred_verifications"):
        claim = ClaimFact(
            text=entry["claim_text"],
            reason=text(entry.get("reason")),
            section=read_value(section, entry.get("section")),
            paragraph=read_value(paragraph, entry.get("paragraph")),
            resolved=entry.get("resolved") is True,
            at=timestamps.read(entry.get("added_at"), where.naive),
        )
        found.append(claim)
        deferred.setdefault(claim.text, []).append(claim)
    for entry in _entries(doc, "user_overrides"):
        if waiting := deferred.get(entry["claim_text"]):
            claim = waiting.pop(0)
        else:
            at = timestamps.read(entry.get("logged_at"), where.naive)
            claim = ClaimFact(text=entry["claim_text"], resolved=True, at=at)
            found.append(claim)
        claim.result = text(entry.get("fact_checker_result")) or "unknown"
        claim.because = text(entry.get("user_rationale"))
    return found


def _entries(doc: dict[str, Any], log: str) -> list[dict[str, Any]]:
    """Return the entries of a claims log that have the text of a claim."""
    listed = (mapping(entry) for entry in sequence(doc.get(log)))
    return [entry for entry in listed if text(entry.get("claim_text")).strip()]


def _get_revisits(doc: dict[str, Any], where: Where) -> list[RevisitFact]:
    """Return the entries of the revision history that name a stage."""
    return [
        RevisitFact(
            step=stage_id(stage),
            because=text(entry.get("reason")),
            impact=entry["impact"] if entry.get("impact") in IMPACTS else "",
            archived=[n for n in sequence(entry.get("downstream_archived")) if isinstance(n, str)],
            at=timestamps.read(entry.get("timestamp"), where.naive),
        )
        for entry in map(mapping, sequence(doc.get("revision_history")))
        if is_count(stage := entry.get("stage_revisited"), 1) and stage in STAGES
    ]


# -- writing -------------------------------------------------------------------------------------


def _fresh(facts: Facts, native_id: str, where: Where) -> dict[str, Any]:
    doc = blank()
    began = timestamps.first(facts.began_at, facts.updated_at, where.now)
    doc["pipeline_id"] = native_id
    doc["started_at"] = doc["last_activity"] = timestamps.write(began)
    doc["session_dir"] = where.root
    edit = _StateEdit(doc, facts, where)
    edit.apply()
    if place_of(facts.position) is None:
        status = {step.id: step.status for step in facts.steps}
        running = [n for n in STAGES if status.get(stage_id(n)) == "running"]
        pending = [n for n in STAGES if status.get(stage_id(n)) != "done"]
        edit.move_to([*running, *pending, 1][0], None)
    return doc


def _set_folder(doc: dict[str, Any], root: str) -> None:
    """Write the folder's current path, and update the paths of files in it."""
    named = folders(doc, Where())
    for spot in spots(doc):
        path = read_value(spot.field, spot.value)
        if spot.field.kind == "folder":
            spot.part[spot.key] = root
        elif spot.field.kind == "path" and path and inside(path, named) != path:
            spot.part[spot.key] = f"{root}/{inside(path, named)}"


class _StateEdit:
    """Writes facts into a document: `was` are the facts in it, `want` the facts to write."""

    def __init__(self, doc: dict[str, Any], want: Facts, where: Where) -> None:
        self.doc, self.want, self.where = doc, want, where
        self.was = get_facts({STATE: doc}, where)
        self.had = {step.id: step for step in self.was.steps}
        self.steps = {step.id: step for step in want.steps if place_of(step.id)}
        self.around = folders(doc, where)

    def apply(self) -> None:
        doc, was, want = self.doc, self.was, self.want
        if want.native_id and not was.native_id:
            doc["pipeline_id"] = want.native_id
        form.put_status(doc, ID, want.status, ())
        form.put_field(doc, _BEGAN, want.began_at, self.where, ())
        form.put_latest(doc, _UPDATED, want.updated_at, self.where, ())
        for stage in STAGES:
            self._put_stage(stage)
        self._put_position()
        self._put_attributes()
        self._put_claims()
        self._put_revisits()
        if want.status == "completed" != was.status:
            self._name_file("output", "final_essay_file", FINAL)
        if want.ended_at != was.ended_at and (want.ended_at is None or want.status == "completed"):
            form.put_field(self.part("output"), _ENDED, want.ended_at, self.where, ())

    def part(self, path: str) -> dict[str, Any]:
        """Return a mapping to write into; missing keys are added from the template."""
        here, model = self.doc, blank()
        for key in path.split(".") if path else ():
            model = mapping(model.get(key))
            if not isinstance(here.get(key), dict):
                here[key] = copied(model)
            here = here[key]
        return here

    def _name_file(self, path: str, key: str, name: str) -> None:
        if name in self.where.names and value_at(self.doc, f"{path}.{key}") is None:
            self.part(path)[key] = outside(name, self.around)

    # -- stages and sections

    def _put_stage(self, number: int) -> None:
        path, stage, id = f"stages.stage_{number}", STAGES[number], stage_id(number)
        step, had = self.steps.get(id), self.had.get(id)
        if step is not None and self._differs(step):
            self._put_unit(self.part(path), step)
            if step.status == "done" and stage.file:
                self._name_file(path, stage.file, stage.default)
        if number not in SECTIONED:
            return
        self._put_sections(number)
        # A stage that has not begun, and is not the current one, has no current section.
        place = place_of(self.want.position)
        is_reset = step is not None and step.status == "pending" and had and had.status != "pending"
        if is_reset and place is not None and place[0] != number:
            self.part(path)["current_section"] = None

    def _differs(self, step: StepFact) -> bool:
        had = self.had.get(step.id)
        return had is None or not _has_status(had, step) or had.ended_at != step.ended_at

    def _put_unit(self, part: dict[str, Any], step: StepFact) -> None:
        had = self.had.get(step.id)
        step = with_stated_times(step, had)
        if had is None or not _has_status(had, step):
            part["status"] = unit_word(ID, step.status)
        if not step.id.startswith("stage-4/"):
            form.put_field(part, _ENDED, step.ended_at, self.where, ())

    def _put_sections(self, stage: int) -> None:
        wanted = {
            place[1]: step
            for step in self.steps.values()
            if (place := place_of(step.id)) and place[0] == stage and place[1]
            # The specification has no word for skipped: preserve the section if its file uses one.
            if step.status != "skipped" or getattr(self.had.get(step.id), "status", "") == "skipped"
        }
        found = sections(self.doc, stage)
        if gone := found.keys() - wanted.keys():
            part = self.part(f"stages.stage_{stage}")
            part["sections"] = [e for e in part["sections"] if _index(e) not in gone]
        if new := sorted(wanted.keys() - found.keys()):
            part = self.part(f"stages.stage_{stage}")
            added = [blank_section(stage, index) for index in new]
            part["sections"] = [*sequence(part.get("sections")), *added]
            count, total = len(sections(self.doc, stage)), part.get("total_sections")
            if stage == 3 and (not is_count(total) or total < count):
                part["total_sections"] = count
        for index, section in sections(self.doc, stage).items():
            step = wanted[index]
            if not self._differs(step):
                continue
            self._put_unit(section, step)
            name = ARGUMENTS.format(index)
            is_known = name in self.where.names and section.get("argument_map_file") is None
            if stage == 3 and step.status == "done" and is_known:
                section["argument_map_file"] = outside(name, self.around)

    def _put_position(self) -> None:
        place, here = place_of(self.want.position), self.was.position
        if place is not None and self.want.position != here:
            # The current section can be one that the file does not list, so it has no step.
            is_listed = here in self.steps or here in self.had
            if place[1] or is_listed or not here.startswith(f"{stage_id(place[0])}/"):
                self.move_to(*place)
        elif place is None and _are_done(self.steps) and not _are_done(self.had):
            self.move_to(max(STAGES), None)

    def move_to(self, stage: int, section: int | None) -> None:
        self.doc["current_stage"] = stage
        self.doc["current_stage_name"] = STAGES[stage].name
        if stage in SECTIONED:
            part = self.part(f"stages.stage_{stage}")
            if section is not None or part.get("current_section") is not None:
                part["current_section"] = section

    # -- attributes and logs

    def _put_attributes(self) -> None:
        wanted = self.want.attributes
        for spot in [s for s in spots(self.doc) if s.field.attribute and s.name in wanted]:
            field, new = spot.field, wanted[spot.name]
            if new is not None and read_value(field, new) is None:
                continue  # the field does not allow this value
            before, after = (_get_attribute(field, v, self.around) for v in (spot.value, new))
            if before == after:
                continue
            if isinstance(new, str) and field.kind == "path":
                new = outside(inside(new, self.around), self.around)
            is_missing = spot.name == field.name and spot.key not in spot.part
            part = self.part(field.path.rpartition(".")[0]) if is_missing else spot.part
            part[spot.key] = field.default if new is None else new

    def _put_claims(self) -> None:
        """Write claims to the logs; a claim belongs to the next log entry with the same words."""
        deferred: dict[str, list[dict[str, Any]]] = {}
        for entry in _entries(self.doc, "deferred_verifications"):
            deferred.setdefault(entry["claim_text"], []).append(entry)
        overridden = Counter(e["claim_text"] for e in _entries(self.doc, "user_overrides"))
        updated = self.want.updated_at
        for claim in self.want.claims:
            if not claim.text.strip():
                continue
            at = timestamps.first(claim.at, updated, self.was.updated_at, self.where.now)
            # A claim that was accepted without being deferred has no place and no reason; where
            # the log requires one, `unknown` is written.
            has_origin = claim.reason not in ("", "unknown") or claim.section is not None
            was_deferred = has_origin or not claim.result
            if waiting := deferred.get(claim.text):
                entry = waiting.pop(0)
                if claim.resolved != (entry.get("resolved") is True):
                    entry["resolved"] = claim.resolved
            elif was_deferred:
                values = [claim.text, claim.section, claim.paragraph, defer_reason(claim.reason)]
                self._log("deferred_verifications", *values, timestamps.write(at), claim.resolved)
            if claim.result and overridden[claim.text]:
                overridden[claim.text] -= 1
            elif claim.result:
                # A claim that was deferred first has the time of the deferral.
                at = updated if was_deferred and updated is not None else at
                values = [claim.text, claim.result, OVERRIDE, claim.because, timestamps.write(at)]
                self._log("user_overrides", *values)

    def _log(self, log: str, *values: Any) -> None:
        entry = {field.path: value for field, value in zip(LOGS[log], values, strict=True)}
        self.doc[log] = [*sequence(self.doc.get(log)), entry]

    def _put_revisits(self) -> None:
        """Add the revisits of essay stages that the revision history does not have yet."""
        places = [(revisit, place_of(revisit.step)) for revisit in self.want.revisits]
        stages = {stage_id(place[0]): place[0] for _, place in places if place}
        ours = [replace(one, step=stage_id(place[0])) for one, place in places if place]
        for one in new_revisits(self.was.revisits, ours):
            at = timestamps.write(self.where.now if one.at is None else one.at)
            values = [stages[one.step], one.impact, one.because, list(one.archived), at]
            self._log("revision_history", *values)


def _are_done(steps: Mapping[str, StepFact]) -> bool:
    return all((step := steps.get(stage_id(n))) and step.status == "done" for n in STAGES)


def _has_status(had: StepFact, step: StepFact) -> bool:
    """Return whether the word in the file already stands for the status of a step."""
    return had.status in (step.status, read_unit_status(unit_word(ID, step.status)))


def _index(entry: Any) -> int:
    index = mapping(entry).get("section_index")
    return index if is_count(index, 1) else 0


def defer_reason(reason: str) -> str:
    """Return the specified word that is nearest to a reason for deferring a claim."""
    if reason in DEFER_REASONS:
        return reason
    words = reason.casefold()
    if "time" in words and "out" in words:
        return "timeout"
    return "service_unavailable" if "unavailable" in words else "no_results"


# -- what may not be removed ---------------------------------------------------------------------

_WRONG = ("wrong-type", "bad-stamp", "out-of-range", "stage-name-differs")
_OWN_WORDS = ("status", "current_stage_name")
"""Keys that allow only words of the specification; other keys allow any word."""


def _is_wrong(finding: Finding) -> bool:
    is_fixed = finding.where.endswith(_OWN_WORDS) and finding.code == "unknown-word"
    return is_fixed or (finding.code in _WRONG and not finding.where.endswith("rating"))


def _restore_sections(doc: dict[str, Any], old: dict[str, Any], stage: int) -> list[str]:
    """Restore removed sections in their list and its count; return a sentence for each."""
    listed, had = value_at(doc, f"stages.stage_{stage}.sections"), sections(old, stage)
    lost = had.keys() - sections(doc, stage).keys() if isinstance(listed, list) else set()
    if not lost:
        return []
    listed += [copied(had[index]) for index in sorted(lost)]
    places = {index: place for place, index in enumerate(had)}
    listed.sort(key=lambda entry: places.get(_index(entry), len(had)))
    for path in ("stages.stage_2", "stages.stage_3"):
        part, before = mapping(value_at(doc, path)), value_at(old, f"{path}.total_sections")
        total = part.get("total_sections")
        if is_count(before) and is_count(total) and total < min(before, len(listed)):
            part["total_sections"] = before
    return [f"stages.stage_{stage}.section_{index} was removed" for index in sorted(lost)]


# -- the format ----------------------------------------------------------------------------------


class Essay(Format):
    """The format of specification S3."""

    id = ID
    document = "S3"
    conventions = Conventions(
        backup=".bak",
        logs=("revision_history",),
        line_logs=("stage-1-development-log.md", "stage-4-paragraph-log.md"),
        own_folder="session_dir",
        sees_names=True,
        artifacts=".md",
        salvaged_with=".md",
        home="essays",
        folder_prefix=stage_files.PREFIX,
        unreadable="S3-94",
    )
    signs = Signs(
        words=rb"pipeline_id|current_stage",
        damaged=rb"(?m)^pipeline_id:|^current_stage(_name)?:",
        names=r"session-state\.ya?ml",
    )

    def recognise(self, name: str, value: Any) -> float:
        return salvage.likeness(value)

    def files(self, native_id: str) -> list[str]:
        return [STATE]

    def is_folder_of_session(self, name: str, names: Set[str], *, chosen: bool = False) -> bool:
        if chosen and any(each.startswith("stage-") for each in names):
            return True
        is_dated = stage_files.folder_moment(name) is not None
        return BACKUP in names or (is_dated and any(map(stage_files.is_current, names)))

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        seed = (facts.goal, facts.began_at, where.root, where.now)
        tries = (make_id(*seed, n) for n in range(len(taken) + 1))
        return next(made for made in tries if made not in taken)

    def why_invalid_id(self, native_id: str) -> str:
        is_ours = re.search(ID_PATTERN, native_id)
        return "" if is_ours else "an essay's id is `essay-` and a UUID"

    def why_unusable_id(self, native_id: str) -> str:
        """Return "": any id of another program can be used, as no file is named after it."""
        is_plain = native_id.isprintable() and len(native_id) <= 200 and "/" not in native_id
        return "" if native_id.strip() and is_plain else self.why_invalid_id(native_id)

    def get(self, tree: Tree, where: Where) -> Facts:
        return get_facts(tree, where)

    def put(self, old: Tree | None, facts: Facts, where: Where) -> Tree:
        tree: Tree = copied(old) if old else {}
        name = state_name(tree)
        doc = tree.get(name)
        if isinstance(doc, dict):
            _StateEdit(doc, facts, where).apply()
            # The file of a converted session does not have its folder yet.
            is_astray = where.moved or (where.root and doc.get("session_dir") == "")
            if is_astray and tree != old:
                _set_folder(doc, where.root)
        elif old is None or get_facts(tree, where) != facts:
            id = facts.native_id or self.new_id(facts, where, frozenset())
            tree[name] = _fresh(facts, make_id(id) if self.why_invalid_id(id) else id, where)
        return tree

    def restore_required(self, tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
        doc, old = copied(state_of(tree)), state_of(before)
        if not doc:
            return tree, []
        stage = doc.get("current_stage")
        if stage != old.get("current_stage") and is_count(stage) and stage in STAGES:
            doc["current_stage_name"] = STAGES[stage].name
        lost = [message for n in SECTIONED for message in _restore_sections(doc, old, n)]
        name = state_name(tree)
        now, former = {**tree, name: doc}, {name: old}
        made, notes = restore_required(self, now, former, Where(), lambda _: True, _is_wrong)
        return made, [*lost, *notes]

    def why_incomplete(self, data: bytes, value: Any) -> str:
        return salvage.find_truncation(data, value)

    def first_steps(self) -> list[StepFact]:
        return [StepFact(stage.title, stage_id(n), "stage") for n, stage in STAGES.items()]

    def goal_in(self, bundle: Bundle) -> str:
        return stage_files.thesis(bundle.get(THESIS, b"")).statement

    def reading(self, tree: Tree, where: Where) -> Reading:
        if not state_of(tree):
            return Reading(self.id)
        facts = get_facts(tree, where)
        done = sum(step.status == "done" for step in facts.steps)
        is_complete = facts.status == "completed"
        progress = done / len(facts.steps) if facts.steps else None
        progress = 1.0 if is_complete else progress
        return Reading(self.id, complete=is_complete, status=facts.status, progress=progress)

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
        return find_faults(tree, where, strict=strict)

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        """Return what the files of the folder contain; None if they are not an essay's."""
        made = salvage.recover(bundle, where)
        is_essay = made and (made.data or stage_files.current(bundle) or salvage.remains(bundle))
        if made is None or not is_essay:
            return None
        facts = get_facts({STATE: made.state}, replace(where, names=where.names | {*bundle}))
        facts.goal = made.goal
        titles = {section_id(stage, n): t for stage in SECTIONED for n, t in made.titles.items()}
        facts.steps = [replace(s, title=titles.get(s.id) or s.title) for s in facts.steps]
        tree = {STATE: made.data or made.state}
        return Salvaged(facts, made.level, made.message, made.inferred, made.lost, tree)

    def ask(
        self, bundle: Bundle, where: Where, level: str, kept_as: str
    ) -> tuple[str, Question] | None:
        return (salvage.NOT_RECOVERED, salvage.ask(bundle)) if level in ("", "manual") else None

    def answer(self, choice: str, bundle: Bundle, where: Where) -> tuple[str, Tree] | None:
        match = re.fullmatch(r"stage[-_]?([1-4])", choice)
        if match is None:
            raise InvalidInput(f"{choice} is not a stage", why="stages are stage-1 to stage-4")
        state = salvage.begin_at(int(match[1]), bundle, where)
        return f"Resumed at stage {match[1]}, as you chose.", {STATE: state}


FORMAT = Essay()
