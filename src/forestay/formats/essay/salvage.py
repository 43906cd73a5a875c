"""Recover an essay whose session file cannot be read, by the first of these rungs that works:

    whole        only the bytes are odd (a byte order mark, UTF-16, zeros): the text is valid
    backup       `session-state.yaml.bak` is valid: it becomes the state again
    artifacts    the results of the stages show how far the work has come
    manual       no result exists: the user chooses where to resume (`Question`, then `begin_at`)

On the last two rungs, identity, configuration and logs come from the readable parts of the damaged
file (`remains`: top-level keys whose lines are complete). Progress comes from the artifacts alone,
as the specification demands: a list of stages that breaks off would show too little progress.

This module neither writes files nor asks the user.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base.findings import Choice, Question
from forestay.base.text import plural
from forestay.formats import timestamps
from forestay.formats.coerce import mapping
from forestay.formats.essay import stage_files
from forestay.formats.essay.fields import (
    BACKUP,
    DRAFT,
    DRAFT_LOG,
    FIELDS,
    FINAL,
    OUTLINE,
    STAGES,
    STATE,
    THESIS,
    THESIS_LOG,
    blank,
    blank_section,
    is_placeholder,
    make_id,
    outside,
    read_session_status,
    stage_id,
    value_at,
)
from forestay.formats.port import Bundle, Where
from forestay.formats.salvage import READ_ANYWAY, ends_within_a_line, read_damaged

FROM_BACKUP = "Session state recovered from backup. Last state update may be lost."
FROM_ARTIFACTS = (
    "Session state reconstructed from artifact files. Some metadata may be approximate."
)
NOT_RECOVERED = "Session state could not be automatically recovered."

_LOST = (
    *("style_profile_path", "samples_dir_path", "pushback_level", "voice_calibration"),
    *("deferred_verifications", "user_overrides", "revision_history"),
)
"""Values that only the session file contains, so they are lost with it."""
_KEPT = ("pipeline_id", "started_at", "last_activity", "status", "session_dir", *_LOST, "output")
_FIELD = {field.path: field for field in FIELDS}


class Recovery(Struct):
    level: str
    """The rung: `none` (the file is intact), `whole`, `backup`, `artifacts` or `manual`."""
    message: str
    state: dict[str, Any]
    """The session file to write; on the rung `manual` it is not complete yet."""
    data: bytes | None = None
    """The bytes of that session file if they exist: the decoded text, or the backup."""
    question: Question | None = None
    goal: str = ""
    titles: dict[int, str] = {}
    """The titles of the sections, by number."""
    inferred: list[str] = []
    lost: list[str] = []


def recover(bundle: Bundle, where: Where) -> Recovery | None:
    """Return the first rung that works, with the state to write; None if no file is an essay's."""
    state, backup = (
        read_damaged(bundle.get(name, b""), "yaml", _is_state, is_torn=find_truncation)
        for name in (STATE, BACKUP)
    )
    if state and state.rung == "whole":
        data, message = state.text.encode(), "; ".join(state.remarks) or READ_ANYWAY
        if data == bundle[STATE]:
            return Recovery("none", "", state.value, data)
        return Recovery("whole", message, state.value, data)
    if backup and backup.rung == "whole" and not backup.remarks:
        lost = "what changed after the backup was made"
        return Recovery("backup", FROM_BACKUP, backup.value, bundle[BACKUP], lost=[lost])
    if not (stage_files.current(bundle) or STATE in bundle or BACKUP in bundle):
        return None
    made = _Rebuild(bundle, where).recovery
    if any(_results(bundle, stage) for stage in STAGES):
        return made
    return replace(made, level="manual", message=NOT_RECOVERED, question=ask(bundle))


def ask(bundle: Bundle) -> Question:
    """Return the question at which stage to resume, for the rung `manual`."""
    choices = tuple(
        Choice(stage_id(n), f"Stage {n}: {stage.title}", ", ".join(_results(bundle, n)))
        for n, stage in STAGES.items()
    )
    first = next((n for n in STAGES if not _results(bundle, n)), max(STAGES))
    files = sorted(name for name in bundle if name not in (STATE, BACKUP))
    return Question("Where do you want to resume?", choices, stage_id(first), tuple(files))


def begin_at(stage: int, bundle: Bundle, where: Where) -> dict[str, Any]:
    """Return a fresh state that resumes at the stage the user chose.

    Earlier stages are completed if their result file exists, else marked for review; later stages
    are not started.
    """
    made, fresh = _Rebuild(bundle, where).recovery.state, blank()["stages"]
    for number in STAGES:
        part = made["stages"][f"stage_{number}"]
        if number > stage:
            made["stages"][f"stage_{number}"] = fresh[f"stage_{number}"]
        elif number == stage:
            part.update(status="in_progress", completed_at=None)
        else:
            part["status"] = "completed" if _results(bundle, number) else "needs_review"
    made.update(status="in_progress", current_stage=stage, current_stage_name=STAGES[stage].name)
    return made


def _results(bundle: Bundle, stage: int) -> list[str]:
    """Return the existing result files of a stage."""
    if stage == 3:
        return [name for name in stage_files.current(bundle) if stage_files.section_in(name)]
    names = (STAGES[stage].default, FINAL) if stage == 4 else (STAGES[stage].default,)
    return [name for name in names if name in bundle]


# -- what is left of damaged files ---------------------------------------------------------------


def _is_state(value: Any) -> bool:
    return likeness(value) >= 0.5


def likeness(value: Any) -> float:
    """Return how surely a value is an essay's session state, by its shape."""
    stages = mapping(mapping(value).get("stages"))
    known = sum(f"stage_{number}" in stages for number in STAGES)
    marks = ("pipeline_id", "current_stage", "current_stage_name", "pushback_level")
    share = sum(mark in mapping(value) for mark in marks) / len(marks)
    return round(0.5 * known / len(STAGES) + 0.5 * share, 2) if known else 0.2 * share


def find_truncation(data: bytes, doc: Any) -> str:
    """Return why a file that can be parsed is only the beginning of a session file, or "".

    Such a file ends inside a line and lacks the last keys of the template. Its last value cannot be
    trusted: 15 may have been 1500.
    """
    order = [field.path for field in FIELDS]
    if list(mapping(doc)) == sorted(mapping(doc)):
        order.sort(key=lambda path: path.split("."))  # as many programs write them

    def has(path: str) -> bool:
        above, _, key = path.rpartition(".")
        return key in mapping(value_at(doc, above))

    lacking = [path for path in order if not has(path)]
    is_end = lacking != [] and lacking == order[-len(lacking) :]
    return f"it breaks off before `{lacking[0]}`" if is_end and ends_within_a_line(data) else ""


def remains(bundle: Bundle) -> dict[str, Any]:
    """Return the top-level keys and values that can still be read, from the state or its backup."""
    found = [read_damaged(bundle.get(name, b""), "yaml") for name in (BACKUP, STATE)]
    values = {key: value for left in found if left for key, value in left.value.items()}
    return {key: values[key] for key in _KEPT if values.get(key) is not None}


# -- the state from the artifacts ----------------------------------------------------------------


class _Rebuild:
    """Create a state from the files of a folder; `recovery` is the result."""

    def __init__(self, bundle: Bundle, where: Where) -> None:
        self.bundle, self.where = bundle, where
        self.outline = stage_files.outline(bundle.get(OUTLINE, b""), where.naive)
        self.state, self.inferred, self.lost = blank(), list[str](), list[str]()
        self._read_remains()
        self._infer_times()
        thesis = stage_files.thesis(bundle.get(THESIS, b""), where.naive)
        self._read_result(1, thesis.approval, thesis_file=THESIS, development_log=THESIS_LOG)
        self._read_result(2, self.outline.approval, outline_file=OUTLINE)
        self.part(1)["claim_type"] = thesis.claim_type
        self.part(2).update(
            total_sections=self.outline.total,
            target_word_count=self.outline.words,
            audience=self.outline.audience,
        )
        self._read_arguments()
        self._read_draft()
        self._read_output()
        self._set_position()
        self.recovery = Recovery("artifacts", FROM_ARTIFACTS, self.state)
        self.recovery.inferred, self.recovery.lost = self.inferred, self.lost
        self.recovery.goal, self.recovery.titles = thesis.statement, self.outline.titles

    def part(self, stage: int) -> dict[str, Any]:
        made: dict[str, Any] = self.state["stages"][f"stage_{stage}"]
        return made

    def path(self, name: str) -> str | None:
        return outside(name, self.around) if name in self.bundle else None

    def _read_remains(self) -> None:
        """Set the identity from the damaged files, the folder's name and the clock."""
        state, found = self.state, remains(self.bundle)
        kept = {key: value for key, value in found.items() if self._is_usable(key, value)}
        for key, value in kept.items():
            state[key] = {**state[key], **value} if isinstance(value, dict) else value
        self.inferred += [f"{key}: from the readable part of the file" for key in kept]
        self.lost += [key for key in _LOST if key not in kept]
        # Derive the id from the folder, so that a second attempt gives the same id.
        state["pipeline_id"] = state["pipeline_id"] or make_id(self.where.root)
        state["session_dir"] = self.where.root or state["session_dir"]
        self.around = [state["session_dir"].rstrip("/")] if state["session_dir"] else []

    def _is_usable(self, key: str, value: Any) -> bool:
        field = _FIELD.get(key)
        if type(value) is not type(self.state[key]) or (field and is_placeholder(field, value)):
            return False
        return key != "status" or read_session_status(value) in ("paused", "abandoned")

    def _infer_times(self) -> None:
        naive = self.where.naive
        made = stage_files.folder_moment(self.where.root.rstrip("/").rpartition("/")[2], naive)
        began = ("now", self.where.now) if made is None else ("the folder's name", made)
        for key, source, moment in (
            ("started_at", *began),
            ("last_activity", "now", self.where.now),
        ):
            if timestamps.read(self.state[key], naive) is None:
                self.state[key] = timestamps.write(moment)
                self.inferred.append(f"{key}: {source}")

    def _read_result(self, stage: int, approval: stage_files.Approval, **files: str) -> None:
        """Mark a stage as completed with the first of the files that exists."""
        result = next(iter(files.values()))
        if result in self.bundle:
            self.part(stage).update(status="completed", completed_at=_stamp(approval.at))
            self.part(stage).update({key: self.path(name) for key, name in files.items()})
            doubt = "" if approval.given else ", but the user has not approved it"
            self.inferred.append(f"stage {stage} is completed: {result} exists{doubt}")

    def _read_arguments(self) -> None:
        maps = {n: name for name in self.bundle if (n := stage_files.section_in(name))}
        known = {*range(1, (self.outline.total or 0) + 1), *maps}
        if not known:
            return
        made = [blank_section(3, index) for index in sorted(known)]
        for section in made:
            if name := maps.get(section["section_index"]):
                found = stage_files.arguments(self.bundle[name], self.where.naive)
                section.update(
                    status="completed" if found.approval.given else "in_progress",
                    argument_map_file=self.path(name),
                    verified_claims=found.verified,
                    deferred_claims=found.deferred,
                    completed_at=_stamp(found.approval.at),
                )
        todo = [s["section_index"] for s in made if s["status"] != "completed"]
        self.part(3).update(
            status="in_progress" if todo or DRAFT not in self.bundle else "completed",
            total_sections=max(known),
            current_section=todo[0] if todo else max(known),
            sections=made,
        )
        self.inferred.append(f"stage 3: {len(made) - len(todo)} of {len(made)} sections completed")
        self.lost.append("stages.stage_3.birds_eye_approved")

    def _read_draft(self) -> None:
        is_finished = FINAL in self.bundle
        if DRAFT not in self.bundle and not is_finished:
            return
        drafted = stage_files.number_sections(
            stage_files.draft(self.bundle.get(DRAFT, b"")), self.outline.titles
        )
        known = {*range(1, (self.outline.total or 0) + 1), *drafted}
        made = [blank_section(4, index) for index in sorted(known)]
        for section in made:
            draft = drafted.get(section["section_index"])
            if draft:
                section["status"] = "completed" if draft.closed else "in_progress"
                section["completed_paragraphs"] = draft.paragraphs
            if is_finished:
                section["status"] = "completed"
            if draft and section["status"] == "completed":
                section["total_paragraphs"] = draft.paragraphs
        todo = [s["section_index"] for s in made if s["status"] != "completed"]
        current = todo[0] if todo else max(known, default=None)
        done = drafted[current].paragraphs if current in drafted else 0
        self.part(4).update(
            status="completed" if is_finished else "in_progress",
            current_section=current,
            current_paragraph=done + 1 if current else None,
            draft_file=self.path(DRAFT),
            paragraph_log=self.path(DRAFT_LOG),
            sections=made,
        )
        written = plural(sum(section.paragraphs for section in drafted.values()), "paragraph")
        self.inferred.append(f"stage 4: {written} in {plural(len(drafted), 'section')}")
        self.lost += ["voice_check_score of the sections"]
        self.lost += ["total_paragraphs of the sections"] if todo else []

    def _read_output(self) -> None:
        """Set the output values from the final essay, and report those that are lost."""
        part = self.state["output"]
        named = str(part["final_essay_file"]).rpartition("/")[2]
        part["final_essay_file"] = self.path(named) or self.path(FINAL)
        if FINAL not in self.bundle:
            return
        self.state["status"] = "completed"
        self.inferred.append(f"the session is completed: {FINAL} exists")
        if part["total_word_count"] is None:
            part["total_word_count"] = stage_files.words(self.bundle[FINAL])
            self.inferred.append(f"output.total_word_count: counted in {FINAL}")
        self.lost += [f"output.{key}" for key, value in part.items() if value is None]

    def _set_position(self) -> None:
        """Set the current stage; earlier stages without a result are marked for review."""
        reached = [n for n in STAGES if self.part(n)["status"] != "not_started"]
        stage = max(reached, default=1)
        for number in range(1, stage):
            if number not in reached:
                self.part(number)["status"] = "needs_review"
                self.inferred.append(f"stage {number} needs review: its result is missing")
        if stage < 3 and self.part(stage)["status"] == "completed":
            stage += 1
        self.state.update(current_stage=stage, current_stage_name=STAGES[stage].name)


def _stamp(moment: int | None) -> str | None:
    return None if moment is None else timestamps.write(moment)
