"""What a session file of the essay pipeline says, as facts.

The four stages are steps, and so are the sections of stages 3 and 4; all other single values are
attributes. Claims come from two logs: one that was put off and later let stand by the user stands
in both, and is one claim.

Paths in the session's folder are read relative to it, so that a folder may be moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.layout import Tree, Where, stamps
from holdfast.layout.essay import artifact
from holdfast.layout.essay.form import (
    FIELDS,
    IMPACTS,
    LOGS,
    SECTIONED,
    STAGES,
    Field,
    at,
    folders,
    inside,
    is_count,
    is_placeholder,
    said,
    section_fields,
    section_id,
    sections,
    session_status,
    stage_id,
    state_of,
    unit_status,
)
from holdfast.layout.facts import ClaimFact, Facts, RevisitFact, Scalar, StepFact
from holdfast.layout.value import mapping, sequence, text

UNKNOWN_RESULT = "unknown"


def facts(tree: Tree, where: Where) -> Facts:
    doc = state_of(tree)
    return Facts(
        native_id=native_id(doc),
        status=session_status(doc.get("status")) or "active",
        began_at=stamps.read(doc.get("started_at"), where.naive),
        updated_at=stamps.read(doc.get("last_activity"), where.naive),
        ended_at=stamps.read(at(doc, "output.completed_at"), where.naive),
        position=position(doc),
        steps=[*_steps(doc, where)],
        claims=claims(doc, where),
        revisits=revisits(doc, where),
        artifacts=artifact.current(where.names),
        attributes=dict(_attributes(doc, where)),
    )


def native_id(doc: dict[str, Any]) -> str:
    id = text(doc.get("pipeline_id"))
    return "" if is_placeholder(FIELDS[0], id) else id


def _steps(doc: dict[str, Any], where: Where) -> Iterator[StepFact]:
    for number, stage in STAGES.items():
        value = at(doc, f"stages.stage_{number}")
        if isinstance(value, dict):
            yield _step(value, stage.title, stage_id(number), "stage", "", where)
        if number in SECTIONED:
            for index, section in sections(doc, number).items():
                id, parent = section_id(number, index), stage_id(number)
                yield _step(section, section_title(index), id, "section", parent, where)


def section_title(index: int) -> str:
    """The file does not know what a section is called; the outline does."""
    return f"Section {index}"


def _step(
    value: dict[str, Any], title: str, id: str, unit: str, parent: str, where: Where
) -> StepFact:
    return StepFact(
        title=title,
        id=id,
        unit=unit,
        parent=parent,
        status=unit_status(value.get("status")) or "pending",
        ended_at=None
        if id.startswith("stage-4/")
        else stamps.read(value.get("completed_at"), where.naive),
    )


def stage_of(doc: dict[str, Any]) -> int | None:
    """The current stage by its number, else by its name."""
    number, name = doc.get("current_stage"), doc.get("current_stage_name")
    if is_count(number) and number in STAGES:
        return int(number)
    return next((n for n, stage in STAGES.items() if stage.name == name), None)


def section_of(doc: dict[str, Any], stage: int | None) -> int | None:
    """The current section of a stage that has sections."""
    index = at(doc, f"stages.stage_{stage}.current_section") if stage in SECTIONED else None
    return index if is_count(index, 1) and index < 1_000_000 else None


def position(doc: dict[str, Any]) -> str:
    stage = stage_of(doc)
    section = section_of(doc, stage)
    if stage is None:
        return ""
    return stage_id(stage) if section is None else section_id(stage, section)


# -- attributes ----------------------------------------------------------------------------------


def value_of(field: Field, value: Any, around: list[str]) -> Scalar:
    """What a field says beyond its default, or None."""
    found = said(field, value)
    if found is not None and field.kind == "path":
        found = inside(found, around)
    return None if found == field.default else found


def _attributes(doc: dict[str, Any], where: Where) -> Iterator[tuple[str, Scalar]]:
    around = folders(doc, where)
    for field in FIELDS:
        value = value_of(field, at(doc, field.path), around) if field.attribute else None
        if value is not None:
            yield field.name, value
    for stage in SECTIONED:
        for index, section in sections(doc, stage).items():
            for name, field in section_fields(stage, index):
                value = value_of(field, section.get(field.path), around)
                if value is not None:
                    yield name, value


# -- claims --------------------------------------------------------------------------------------


def claims(doc: dict[str, Any], where: Where) -> list[ClaimFact]:
    found = [_deferred(entry, where) for entry in entries(doc, "deferred_verifications")]
    open_ones: dict[str, list[ClaimFact]] = {}
    for claim in found:
        open_ones.setdefault(claim.text, []).append(claim)
    for entry in entries(doc, "user_overrides"):
        waiting = open_ones.get(entry["claim_text"])
        if waiting:
            claim = waiting.pop(0)
        else:
            claim = _overridden(entry, where)
            found.append(claim)
        claim.result = text(entry.get("fact_checker_result")) or UNKNOWN_RESULT
        claim.because = text(entry.get("user_rationale"))
    return found


def entries(doc: dict[str, Any], log: str) -> list[dict[str, Any]]:
    """The entries of a log of claims that name a claim."""
    listed = (mapping(entry) for entry in sequence(doc.get(log)))
    return [entry for entry in listed if text(entry.get("claim_text")).strip()]


def _deferred(entry: dict[str, Any], where: Where) -> ClaimFact:
    _, section, paragraph, *_ = LOGS["deferred_verifications"]
    return ClaimFact(
        text=entry["claim_text"],
        reason=text(entry.get("reason")),
        section=said(section, entry.get("section")),
        paragraph=said(paragraph, entry.get("paragraph")),
        resolved=entry.get("resolved") is True,
        at=stamps.read(entry.get("added_at"), where.naive),
    )


def _overridden(entry: dict[str, Any], where: Where) -> ClaimFact:
    """Letting a claim stand settles it."""
    at = stamps.read(entry.get("logged_at"), where.naive)
    return ClaimFact(text=entry["claim_text"], resolved=True, at=at)


# -- revisits ------------------------------------------------------------------------------------


def revisits(doc: dict[str, Any], where: Where) -> list[RevisitFact]:
    """The entries of the revision history that name a stage."""
    listed = (mapping(entry) for entry in sequence(doc.get("revision_history")))
    stages = ((entry, entry.get("stage_revisited")) for entry in listed)
    return [_revisit(entry, n, where) for entry, n in stages if is_count(n, 1) and n in STAGES]


def _revisit(entry: dict[str, Any], stage: int, where: Where) -> RevisitFact:
    impact = text(entry.get("impact"))
    return RevisitFact(
        step=stage_id(stage),
        because=text(entry.get("reason")),
        impact=impact if impact in IMPACTS else "",
        archived=[n for n in sequence(entry.get("downstream_archived")) if isinstance(n, str)],
        at=stamps.read(entry.get("timestamp"), where.naive),
    )
