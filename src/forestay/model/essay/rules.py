"""Which moves an essay is made of, and when each is refused.

A *gate* is where the user must approve: G1 and G2 for the first two stages, G3 for the arguments
of a section, G3-Final for all of them together, G4 for a paragraph, G4-Section for a section's
paragraphs, G5 for the whole essay.

A section may be written while others are still argued: stages overlap, but each section goes
through them in order.

Each function gets the essay as `Moves` under the writer lock and adds events to it; what is refused
here records nothing, and no two processes can make the same move.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from forestay.base.hashing import digest_of
from forestay.base.text import plural, shorten
from forestay.base.vocabulary import GATES, SETTLING
from forestay.errors import InvalidInput, Refused
from forestay.model import event as ev
from forestay.model.essay.moves import NAMES, SOURCE, Moves, is_essay, step_id
from forestay.model.rules import check_working
from forestay.model.state import Checkpoint, Claim, State, Step

MOST_SECTIONS = 999
_SHOWN = 60

# -- gates -------------------------------------------------------------------------------------


class Gate(Struct, frozen=True):
    name: str
    section: int | None = None
    paragraph: int | None = None

    def __str__(self) -> str:
        numbers = [str(n) for n in (self.section, self.paragraph) if n is not None]
        return ".".join([self.name, *numbers])


_GATE = re.compile(
    r"(G[1-5])(?:[-_. ]?(FINAL|SECTION))?(?:[-_. ]([1-9]\d{0,5}))?(?:[-_. ]([1-9]\d{0,5}))?",
    re.ASCII | re.IGNORECASE,
)
_NUMBERS = {"G3": 1, "G4": 2, "G4-Section": 1}


def parse_gate(text: str, section: int | None = None, paragraph: int | None = None) -> Gate:
    """Return the gate in a text: `G3-Final`, `g3 final`; `G3.2` is G3 of section 2."""
    match = _GATE.fullmatch(text.strip())
    name = "-".join(part.capitalize() for part in match.group(1, 2) if part) if match else ""
    if match is None or name not in GATES:
        raise InvalidInput(
            f"there is no gate {shorten(text, 40)}", why=f"the gates are {', '.join(GATES)}"
        )
    given = [int(digits) if digits else None for digits in match.group(3, 4)]
    numbers = [_agree(n, m) for n, m in zip(given, (section, paragraph), strict=True)]
    most = _NUMBERS.get(name, 0)
    if any(number is not None for number in numbers[most:]):
        part = "section" if numbers[0] is not None and not most else "paragraph"
        raise InvalidInput(f"gate {name} is not for a single {part}", hint=f"leave out the {part}")
    return Gate(name, *numbers)


def _agree(one: int | None, other: int | None) -> int | None:
    if one is not None and other is not None and one != other:
        raise InvalidInput(f"the gate names {one}, the option {other}", hint="give the number once")
    return other if one is None else one


def require_essay(state: State) -> None:
    if not is_essay(state):
        hint = 'forestay start "GOAL" --workflow essay --bind essay'
        raise Refused("the session is not an essay", hint=hint, session=state.core.session)


def begin(state: State) -> Moves:
    """Return the moves of an essay that is being worked on; refuse any other session."""
    require_essay(state)
    check_working(state)
    return with_paired_sections(state)


def with_paired_sections(state: State) -> Moves:
    """Return the moves of an essay, with a section of stage 4 for each of stage 3.

    Files of other programs have none in stage 4 before it begins, and lack later ones.
    """
    moves = Moves(state)
    for section in moves.sections(3):
        if not moves.status(4, section):
            step = state.step(step_id(3, section))
            moves.add(4, section, step.title if step else f"Section {section}")
    return moves


# -- stages ------------------------------------------------------------------------------------


def _require_open_stage(moves: Moves, stage: int, gate: str) -> None:
    """Refuse to approve a stage that is approved already, or before an earlier one is."""
    if moves.status(stage) == "done":
        raise Refused(f"{NAMES[stage]} is approved already", why=f"stage {stage} is completed")
    waits = [n for n in NAMES if n < stage and moves.status(n) != "done"]
    if waits:
        first, why = ("G1", "G2", "G3-Final")[waits[0] - 1], f"stage {waits[0]} is not completed"
        raise Refused(f"{gate} cannot be approved yet", why=why, legal=[f"essay approve {first}"])


def _complete_stage(
    moves: Moves, gate: str, stage: int, files: Sequence[str] = (), **more: object
) -> None:
    """Approve and complete a stage, with the tasks that its plan lists in it."""
    moves.start(stage)
    moves.approve(gate, step_id(stage), **more)
    for row in moves.state.rows.select("step", open_only=True):
        if isinstance(row, Step) and row.parent == step_id(stage) and row.unit == "task":
            moves.bodies.append(ev.StepCompleted(step=row.id))
    moves.complete(stage, files=files)


def _advance_past(moves: Moves, stage: int) -> int:
    """Move to the first later stage that is not done; return its number if it begins now."""
    following = next((n for n in NAMES if n > stage and moves.status(n) != "done"), 0)
    begins = moves.status(following) == "pending" if following else False
    if begins:
        moves.start(following)
    if following in (3, 4):
        moves.advance(following)
    elif following:
        moves.set_position(following)
    return following if begins else 0


def approve_thesis(
    moves: Moves, artifact: ev.ArtifactSaved, *, claim_type: str | None, log: str = ""
) -> None:
    _require_open_stage(moves, 1, "G1")
    moves.save_artifact(artifact)
    named = {"thesis_file": artifact.path, "claim_type": claim_type, "development_log": log}
    moves.set_fields("stage_1", **named)
    _complete_stage(moves, "G1", 1, [artifact.path])
    moves.message = "the thesis is approved"
    if _advance_past(moves, 1) == 2:
        moves.message += "; stage 2 begins: the outline"


class Outline(Struct, frozen=True):
    """An outline: the number of sections, and the titles of those that it describes."""

    total: int | None = None
    titles: Mapping[int, str] = {}
    words: int | None = None
    audience: str | None = None


def approve_outline(moves: Moves, artifact: ev.ArtifactSaved, outline: Outline) -> None:
    _require_open_stage(moves, 2, "G2")
    total = _count_sections(outline, moves.sections())
    _skip_sections(moves, [n for n in moves.sections() if n > total], total)
    moves.save_artifact(artifact)
    moves.set_fields("stage_2", outline_file=artifact.path, target_word_count=outline.words)
    moves.set_fields("stage_2", audience=outline.audience, total_sections=total)
    moves.set("stage_3.total_sections", total)
    for stage in (3, 4):
        for number in range(1, total + 1):
            moves.ensure_section(stage, number, outline.titles.get(number, ""))
    _complete_stage(moves, "G2", 2, [artifact.path], sections=total)
    moves.message = f"the outline is approved, with {plural(total, 'section')}"
    if _advance_past(moves, 2) == 3:
        moves.message += "; stage 3 begins with section 1"


def _count_sections(outline: Outline, added: Sequence[int]) -> int:
    """Return the number of sections; refuse an outline that contradicts itself or has none."""
    described = sorted(n for n in outline.titles if n > 0)
    total = outline.total or (described[-1] if described else max(added, default=0))
    if not total:
        why = "no line `### Section 1: Title (~300 words)` is in it"
        raise Refused("the outline names no sections", why=why, legal=["essay section add 1"])
    if total > MOST_SECTIONS:
        raise Refused(
            f"the outline has {total} sections", why=f"at most {MOST_SECTIONS} are allowed"
        )
    lost = [n for n in range(1, total + 1) if n not in described] if described else []
    beyond = [n for n in described if n > total]
    if lost or beyond:
        why = f"it announces {total} sections and describes {_list(described)}"
        which = f"lost section {_list(lost)}" if lost else f"has a section {_list(beyond)} too many"
        raise Refused(f"the outline {which}", why=why, hint="correct the outline, then try again")
    return total


def _skip_sections(moves: Moves, gone: Sequence[int], total: int) -> None:
    """Skip sections that the outline no longer has; refuse if work would be lost."""
    worked = [n for n in gone if _has_work(moves, n)]
    if worked:
        raise Refused(
            f"the outline lost section {_list(worked)}",
            why=f"it has {plural(total, 'section')} now, and there is work in what it lost",
            hint="put it back into the outline, or archive all later work:"
            " forestay revisit 2 --impact major --apply",
        )
    for section in gone:
        moves.skip(3, section)
        moves.skip(4, section)


def _has_work(moves: Moves, section: int) -> bool:
    begun = any(moves.status(stage, section) not in ("", "pending") for stage in (3, 4))
    mapped = moves.value(f"stage_3.section_{section}.argument_map_file")
    return begun or bool(mapped) or moves.completed(section) > 0


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _not_completed(sections: Sequence[int]) -> str:
    words = ("sections", "are") if len(sections) > 1 else ("section", "is")
    return f"{words[0]} {_list(sections)} {words[1]} not completed"


# -- arguments ---------------------------------------------------------------------------------


def find_section(moves: Moves, section: int | None, stage: int) -> int:
    """Return the section: the given one, else the current one of the stage."""
    if section is None:
        here = moves.position()
        section = here[1] if here[0] == stage else None
    if section is None:
        found = moves.sections(stage, "running", "needs_review")
        what = f"no section of stage {stage} is current"
        if not found:
            raise Refused(
                what, why="no section is being worked on", legal=_steps_before(moves, stage)
            )
        if len(found) > 1:
            raise Refused(
                what, why=f"several are being worked on: {_list(found)}", hint="--section N"
            )
        section = found[0]
    if not moves.status(stage, section):
        known = moves.sections(stage)
        why = f"the sections are {_list(known)}" if known else "the outline is not approved"
        legal = _steps_for_unargued(moves) if known else _steps_before(moves, stage)
        raise Refused(f"there is no section {section}", why=why, legal=legal)
    return section


def _steps_for_unargued(moves: Moves) -> list[str]:
    """Return the command that adds a section to stage 3 which only stage 4 has."""
    if moves.status(3) == "done" or not set(moves.sections(4)) - set(moves.sections()):
        return []
    return [f"essay section add {max(moves.sections(), default=0) + 1}"]


def _steps_before(moves: Moves, stage: int) -> list[str]:
    """Return the commands that have to come before work on a section of a stage."""
    if moves.status(3) in ("pending", ""):
        return ["essay approve G2" if moves.status(1) == "done" else "essay approve G1"]
    ready = [n for n in moves.sections(stage, "pending") if stage == 3 or moves.is_argued(n)]
    if ready:
        return [f"essay section start {ready[0]} --stage {stage}"]
    left = moves.sections(3, "running", "needs_review", "pending")
    return missing_steps(moves, left[0]) if left else []


def _require_open_arguments(moves: Moves, section: int, what: str) -> None:
    """Refuse to change the arguments of a section that is done, or before stage 3."""
    if moves.status(3) in ("pending", ""):
        raise Refused(what, why="stage 3 has not begun", legal=_steps_before(moves, 3))
    if moves.status(3, section) == "done":
        why = f"the arguments of section {section} are completed"
        raise Refused(what, why=why, legal=[f"essay section start {section} --stage 4"])


def add_section(moves: Moves, section: int, title: str = "") -> None:
    known = moves.sections()
    if section in known:
        raise Refused(f"there is already a section {section}")
    following = max(known, default=0) + 1
    if section != following:
        what, why = f"section {section} cannot be added", "sections are numbered without gaps"
        raise Refused(what, why=why, legal=[f"essay section add {following}"])
    if section > MOST_SECTIONS:
        raise Refused(f"an essay has at most {MOST_SECTIONS} sections")
    if moves.status(3) == "done":
        raise Refused("no section can be added", why="the arguments are approved as a whole")
    for stage in (3, 4):
        moves.add(stage, section, title or f"Section {section}")
    for stage in (2, 3):
        moves.set(f"stage_{stage}.total_sections", section, always=True)
    moves.message = f"section {section} is added"


def start_section(moves: Moves, section: int, stage: int | None = None) -> None:
    find_section(moves, section, 3)
    stage = stage or (4 if moves.status(3, section) == "done" else 3)
    if stage == 4:
        _begin_writing(moves, section)
    else:
        _require_open_arguments(moves, section, f"section {section} cannot be begun in stage 3")
        moves.start(3, section)
    moves.set_position(stage, section)
    moves.message = f"section {section}: {'its paragraphs' if stage == 4 else 'its arguments'}"


def _begin_writing(moves: Moves, section: int) -> None:
    """Start a section of stage 4; stage 3 may continue with other sections."""
    if moves.status(4, section) == "done":
        raise Refused(f"section {section} is written", why="its paragraphs are approved")
    if not moves.is_argued(section):
        what, why = f"section {section} cannot be written yet", "its arguments are not completed"
        raise Refused(what, why=why, legal=missing_steps(moves, section))
    moves.start(4)
    moves.start(4, section)


def record_map(
    moves: Moves,
    section: int,
    artifact: ev.ArtifactSaved,
    *,
    verified: int | None,
    deferred: int | None,
) -> None:
    """Record the argument map of a section; with its approval that completes the section."""
    find_section(moves, section, 3)
    _require_open_arguments(moves, section, f"no argument map of section {section} can be recorded")
    if moves.status(3, section) == "pending":
        moves.start(3, section)
    moves.save_artifact(artifact)
    field = f"stage_3.section_{section}"
    moves.set(f"{field}.argument_map_file", artifact.path, always=True)
    waiting = sum(claim.section == section and claim.is_open for claim in moves.claims())
    deferred = None if deferred is None else max(deferred, waiting)
    moves.set_fields(field, verified_claims=verified, deferred_claims=deferred)
    moves.message = f"the argument map of section {section} is recorded"
    if moves.status(3, section) == "running" and _is_approved(moves, section):
        return _complete_arguments(moves, section, artifact.path)
    moves.missing = [f"essay approve G3 --section {section}"]
    moves.set_position(3, section)


def approve_section_arguments(
    moves: Moves, section: int | None, artifact: ev.ArtifactSaved | None = None
) -> None:
    """Approve G3; with the argument map that completes the section."""
    section = find_section(moves, section, 3)
    _require_open_arguments(moves, section, f"G3 cannot be approved for section {section}")
    running = moves.status(3, section) == "running"
    if running and _is_approved(moves, section):
        what, why = f"G3 is approved for section {section} already", "its map is not recorded"
        raise Refused(what, why=why, legal=missing_steps(moves, section))
    if moves.status(3, section) == "pending":
        moves.start(3, section)
    moves.save_artifact(artifact)
    moves.approve("G3", step_id(3, section), section=section)
    moves.message = f"the arguments of section {section} are approved"
    path = moves.value(f"stage_3.section_{section}.argument_map_file")
    if path:
        return _complete_arguments(moves, section, str(path))
    moves.missing = [_map_command(section)]
    moves.set_position(3, section)


def _complete_arguments(moves: Moves, section: int, path: str) -> None:
    moves.complete(3, section, [path])
    moves.message += f"; section {section} is completed"
    moves.advance(3)


def _is_approved(moves: Moves, section: int) -> bool:
    """Return whether G3 was approved since the section was started last."""
    row = moves.state.rows.get("checkpoint", step_id(3, section))
    step = moves.state.step(step_id(3, section))
    if not isinstance(row, Checkpoint) or step is None:
        return False
    passed = row.verdict in ("passed", "overridden")
    return passed and 0 < step.started_at <= row.at


def _map_command(section: int) -> str:
    return f"essay section done {section} --map stage-3-section-{section}-arguments.md"


def missing_steps(moves: Moves, section: int) -> list[str]:
    """Return the commands that complete a section of stage 3."""
    mapped = moves.value(f"stage_3.section_{section}.argument_map_file")
    commands = [] if mapped else [_map_command(section)]
    review = moves.status(3, section) == "needs_review"
    if review or not _is_approved(moves, section):
        commands.append(f"essay approve G3 --section {section}")
    return commands


def approve_arguments(moves: Moves) -> None:
    """Approve G3-Final: the arguments of all sections together."""
    _require_open_stage(moves, 3, "G3-Final")
    left = [n for n in moves.sections() if moves.status(3, n) != "done"]
    why = ""
    if left:
        why, legal = _not_completed(left), missing_steps(moves, left[0])
    elif legal := _steps_for_unargued(moves):
        why = "a section that is to be written has no arguments"
    elif not moves.sections():
        why, legal = "there are no sections", ["essay section add 1"]
    if why:
        raise Refused("the arguments cannot be approved as a whole yet", why=why, legal=legal)
    moves.set("stage_3.birds_eye_approved", True)
    _complete_stage(moves, "G3-Final", 3, sections=len(moves.sections()))
    moves.message = "the arguments are approved as a whole"
    if _advance_past(moves, 3) == 4:
        moves.message += "; stage 4 begins with section 1, paragraph 1"


# -- paragraphs --------------------------------------------------------------------------------


def approve_paragraph(
    moves: Moves,
    number: int | None,
    *,
    section: int | None = None,
    last: bool = False,
    draft: str,
    log: str = "",
) -> tuple[int, int]:
    """Approve G4, the next paragraph of a section; return the section and the number."""
    section = find_section(moves, section, 4)
    if moves.status(4, section) != "running":
        _begin_writing(moves, section)
    field = f"stage_4.section_{section}"
    number = moves.completed(section) + 1 if number is None else number
    _require_next_paragraph(moves, section, number)
    step = f"{step_id(4, section)}/paragraph-{number}"
    moves.approve("G4", step, section=section, paragraph=number)
    moves.set_fields("stage_4", draft_file=draft, paragraph_log=log)
    moves.set_fields(field, total_paragraphs=number if last else None, completed_paragraphs=number)
    moves.set_position(4, section)
    moves.message = f"paragraph {number} of section {section} is approved"
    return section, number


def _require_next_paragraph(moves: Moves, section: int, number: int) -> None:
    total = moves.whole_number(f"stage_4.section_{section}.total_paragraphs")
    before, legal = moves.completed(section), [next_paragraph(moves, section)]
    if number <= before:
        raise Refused(f"paragraph {number} of section {section} is approved already", legal=legal)
    what = f"paragraph {number} of section {section} cannot be approved"
    if total is not None and number > total:
        raise Refused(what, why=f"the section has {plural(total, 'paragraph')}", legal=legal)
    if number > before + 1:
        raise Refused(what, why=f"paragraph {before + 1} comes first", legal=legal)


def next_paragraph(moves: Moves, section: int) -> str:
    total = moves.whole_number(f"stage_4.section_{section}.total_paragraphs")
    before = moves.completed(section)
    if total is not None and before >= total:
        return f"essay approve G4-Section --section {section}"
    return f"essay paragraph done {before + 1} --section {section}"


def approve_section_text(moves: Moves, section: int | None, *, last: bool = False) -> None:
    """Approve G4-Section: all paragraphs of a section."""
    section = find_section(moves, section, 4)
    if moves.status(4, section) not in ("running", "needs_review"):
        done = moves.status(4, section) == "done"
        raise Refused(
            f"section {section} {'is written already' if done else 'is not begun in stage 4'}",
            legal=[] if done else [f"essay section start {section} --stage 4"],
        )
    field, before = f"stage_4.section_{section}", moves.completed(section)
    total = moves.whole_number(f"{field}.total_paragraphs")
    if total is None and not last:
        raise Refused(
            f"how many paragraphs section {section} has is not known",
            why=f"{before} are approved",
            legal=[f"essay approve G4-Section --section {section} --last"] if before else [],
        )
    if before == 0 or (total is not None and before < total):
        why = (
            f"{before} of {total} paragraphs are approved" if total else "no paragraph is approved"
        )
        legal = [next_paragraph(moves, section)]
        raise Refused(f"section {section} is not written yet", why=why, legal=legal)
    moves.set(f"{field}.total_paragraphs", before)
    moves.approve("G4-Section", step_id(4, section), section=section, paragraphs=before)
    moves.complete(4, section)
    moves.message = f"section {section} is written, with {plural(before, 'paragraph')}"
    moves.advance(4)


# -- claims ------------------------------------------------------------------------------------


def defer_claim(
    moves: Moves, text: str, reason: str, section: int | None, paragraph: int | None
) -> None:
    """Defer the check of a claim; without a section it belongs to the current one."""
    if section is None:
        section = moves.position()[1]
    if section is not None:
        section = find_section(moves, section, 3)
    same = [c for c in moves.claims() if c.is_open and (c.text, c.section) == (text, section)]
    if same:
        raise Refused(f"that claim is deferred already, as {same[0].id}")
    taken, number = {claim.id for claim in moves.claims()}, len(moves.claims()) + 1
    while f"c{number}" in taken:
        number += 1
    deferred = ev.ClaimDeferred(
        claim=f"c{number}", text=text, reason=reason, section=section, paragraph=paragraph
    )
    if section is not None:
        field = f"stage_3.section_{section}.deferred_claims"
        waiting = sum(c.is_open and c.section == section for c in moves.claims()) + 1
        # The argument map may have counted them already.
        moves.set(field, max(moves.count(field), waiting))
    moves.bodies.append(deferred)
    where = f" in section {section}" if section is not None else ""
    moves.message = f"claim c{number}{where} is deferred: {reason}"


def resolve_claim(moves: Moves, id: str, result: str, sources: Sequence[str]) -> None:
    claim = _open_claim(moves, id)
    if result not in SETTLING:
        what, why = f"a claim that is {result} cannot be resolved", "the user has to decide"
        raise Refused(what, why=why, legal=[f'claim override {id} --result {result} --because "…"'])
    _count(moves, claim.section, deferred_claims=-1, verified_claims=int(result == "verified"))
    moves.set(f"claim.{id}.result", result)
    for source in dict.fromkeys(sources):
        moves.set(f"{SOURCE}{digest_of(source.strip().encode())[:12]}", source.strip())
    moves.bodies.append(ev.ClaimResolved(claim=id))
    moves.message = f"claim {id} is resolved: {result.replace('_', ' ')}"


def override_claim(moves: Moves, id: str, result: str, because: str) -> None:
    claim = _open_claim(moves, id)
    if not because.strip():
        raise InvalidInput("an override needs a reason", hint='--because "…"')
    _count(moves, claim.section, deferred_claims=-1)
    moves.bodies.append(ev.ClaimOverridden(claim=id, result=result, because=because))
    moves.message = (
        f"claim {id} stays by decision of the user, although it is {result.replace('_', ' ')}"
    )


def _open_claim(moves: Moves, id: str) -> Claim:
    found = next((claim for claim in moves.claims() if claim.id == id), None)
    if found is None:
        waiting = ", ".join(claim.id for claim in moves.claims() if claim.is_open)
        raise Refused(f"there is no claim {shorten(id, 40)}", why=f"open: {waiting or 'none'}")
    if not found.is_open:
        how = "overridden" if found.result else "resolved"
        raise Refused(f"claim {id} is {how} already")
    return found


def _count(moves: Moves, section: int | None, **by: int) -> None:
    for word, change in by.items():
        if section is not None and change:
            field = f"stage_3.section_{section}.{word}"
            moves.set(field, max(0, moves.count(field) + change))


# -- voice, calibration, output ----------------------------------------------------------------

ACTIONS = {
    5: "the voice holds: continue",
    4: "close: polish what stands out, then continue",
    3: "it drifts: revise the sentences that were named",
    2: "far off: rewrite these paragraphs and compare with the reference",
    1: "another voice: read the reference, then write the section again",
}
"""Score of a voice check → what to do about it."""


def action_for_score(score: float) -> str:
    return ACTIONS[max(1, min(5, int(score)))]


def require_score(score: object, what: str) -> float:
    number = isinstance(score, int | float) and not isinstance(score, bool)
    if not number or not 1 <= score <= 5:  # type: ignore[operator]
        raise InvalidInput(f"{what} cannot be {score}", why="it must be from 1 to 5")
    return score  # type: ignore[return-value]


def calibrate_voice(
    moves: Moves, rating: int, notes: str = "", reference: str = "", *, again: bool = False
) -> None:
    before = moves.value("voice_calibration.first_assessment_user_rating")
    if before is not None and not again:
        what = f"the voice is calibrated: the first result was rated {before}"
        raise Refused(what, legal=[f"essay calibrate {rating} --again"])
    given = {"calibration_notes": notes, "voice_reference_mode": reference}
    moves.set_fields("voice_calibration", **given)
    moves.set("voice_calibration.first_assessment_user_rating", rating, always=True)
    moves.message = f"the user rates the voice {rating}/5"


def record_voice_check(
    moves: Moves, score: float | None, section: int | None, why: str = ""
) -> None:
    """Record a voice check of a section, or that it was skipped."""
    section = find_section(moves, section, 4)
    if moves.status(4, section) == "pending":
        legal = [f"essay section start {section} --stage 4"]
        raise Refused(f"section {section} has no paragraphs to check", legal=legal)
    if score is None:
        text = f"the voice check of section {section} was skipped{f': {why}' if why else ''}"
        moves.bodies.append(ev.NoteAdded(text=text))
    else:
        text = f"voice of section {section}: {score:g}/5, {action_for_score(score)}"
        moves.set(f"stage_4.section_{section}.voice_check_score", score, always=True)
    moves.message = text


def record_output(
    moves: Moves,
    artifact: ev.ArtifactSaved,
    *,
    words: int,
    sources: int | None = None,
    voice: float | None = None,
) -> None:
    if moves.status(4) in ("pending", ""):
        raise Refused("there is no final essay yet", why="stage 4 has not begun")
    moves.save_artifact(artifact)
    moves.set("output.final_essay_file", artifact.path, always=True)
    moves.set_fields(
        "output",
        total_word_count=words,
        sources_verified=(len(moves.sources()) or None) if sources is None else sources,
        voice_consistency_score=average_voice(moves) if voice is None else voice,
    )
    moves.message = f"the final essay is recorded: {words:,} words"


def average_voice(moves: Moves) -> float | None:
    """Return the average of the sections' voice scores."""
    found = [moves.value(f"stage_4.section_{n}.voice_check_score") for n in moves.sections(4)]
    scores = [s for s in found if isinstance(s, int | float) and not isinstance(s, bool)]
    return round(sum(scores) / len(scores), 1) if scores else None


def set_pushback(moves: Moves, level: str) -> None:
    moves.set("pushback_level", level, always=True)
    moves.message = f"pushback is {level} now"


# -- the end -----------------------------------------------------------------------------------


def approve_essay(moves: Moves, *, confirm: bool = False) -> None:
    """Approve G5, the whole essay: no claim is open, and every override is confirmed again."""
    _require_open_stage(moves, 4, "G5")
    left = [n for n in moves.sections(4) if moves.status(4, n) != "done"]
    if left or not moves.sections(4):
        why = _not_completed(left) if left else "there are no sections"
        legal = [next_paragraph(moves, left[0])] if left else []
        raise Refused("the essay is not written yet", why=why, legal=legal)
    waiting = [claim for claim in moves.claims() if claim.is_open]
    if waiting:
        count = plural(len(waiting), "deferred claim is", "deferred claims are")
        legal = [f"essay claim resolve {waiting[0].id}"]
        raise Refused(f"{count} not resolved", why=_claims(waiting), legal=legal)
    stood = [claim for claim in moves.claims() if claim.result]
    if stood and not confirm:
        count = plural(len(stood), "override is", "overrides are")
        legal = ["essay approve G5 --confirm"]
        raise Refused(f"{count} not confirmed", why=_claims(stood), legal=legal)
    final = moves.value("output.final_essay_file")
    if not final:
        raise Refused("the final essay is not recorded", legal=["essay output final-essay.md"])
    _complete_stage(moves, "G5", 4, [str(final)], overrides=len(stood))
    moves.bodies.append(ev.SessionCompleted())
    moves.message = "the essay is approved and completed"


def _claims(claims: Sequence[Claim]) -> str:
    texts = [f"{c.id}: {shorten(c.text, _SHOWN)} ({c.result or c.reason})" for c in claims[:20]]
    more = f"; and {len(claims) - 20} more" if len(claims) > 20 else ""
    return "; ".join(texts) + more
