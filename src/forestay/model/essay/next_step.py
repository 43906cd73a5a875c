"""The next step of an essay, and its summary at the end."""

from __future__ import annotations

from msgspec import Struct

from forestay.model.essay.moves import NAMES, Moves
from forestay.model.essay.rules import (
    average_voice,
    missing_steps,
    next_paragraph,
    with_paired_sections,
)
from forestay.model.state import State


class Summary(Struct, frozen=True):
    """The figures of a completed essay."""

    words: int | None
    target_words: int | None
    sections: int
    claims_verified: int
    sources: int
    voice: float | None
    overrides: int
    deferred: int
    resolved: int
    seconds: float


def summary(state: State) -> Summary:
    moves, core = Moves(state), state.core
    claims = moves.claims()
    loose = [c for c in claims if c.section is None and c.resolved and not c.result]
    counted = [moves.count(f"stage_3.section_{n}.verified_claims") for n in moves.sections()]
    score = moves.value("output.voice_consistency_score")
    voice = score if isinstance(score, int | float) else average_voice(moves)
    sources = moves.whole_number("output.sources_verified")
    return Summary(
        words=moves.whole_number("output.total_word_count"),
        target_words=moves.whole_number("stage_2.target_word_count"),
        sections=len(moves.sections()),
        claims_verified=sum(counted) + len(loose),
        sources=len(moves.sources()) if sources is None else sources,
        voice=voice,
        overrides=sum(bool(claim.result) for claim in claims),
        deferred=len(claims),
        resolved=sum(claim.resolved for claim in claims),
        seconds=max(0, (core.ended_at or core.updated_at) - core.began_at - core.away_ms) / 1000,
    )


def next_command(state: State) -> str:
    """Return the next command of an essay, without the leading `forestay`."""
    return ahead(state)[1]


def ahead(state: State) -> tuple[str, str]:
    """Return the next step of an essay in words, and the command that records it."""
    moves = with_paired_sections(state)
    stage, section = moves.position()
    if stage < 3:
        words = {1: "develop the thesis", 2: "structure the essay"}[stage]
        again = f"review {NAMES[stage]} again"
        return again if moves.status(stage) == "needs_review" else words, f"essay approve G{stage}"
    left = moves.sections(stage, "running", "needs_review", "pending")
    here = section if section in left else next(iter(left), None)
    return _in_arguments(moves, here) if stage == 3 else _in_writing(moves, here)


def _in_arguments(moves: Moves, section: int | None) -> tuple[str, str]:
    if section is None:
        return "review all arguments together", "essay approve G3-Final"
    review = moves.status(3, section) == "needs_review"
    words = (
        f"review the arguments of section {section} again" if review else f"argue section {section}"
    )
    return words, missing_steps(moves, section)[0]


def _in_writing(moves: Moves, section: int | None) -> tuple[str, str]:
    if section is not None:
        command = next_paragraph(moves, section)
        if command.startswith("essay approve"):
            return f"review section {section} as a whole", command
        return f"write paragraph {moves.completed(section) + 1} of section {section}", command
    if not moves.value("output.final_essay_file"):
        return "put the final essay together", "essay output final-essay.md"
    waiting = [claim.id for claim in moves.claims() if claim.is_open]
    if waiting:
        return f"check claim {waiting[0]}", f"essay claim resolve {waiting[0]}"
    confirm = any(claim.result for claim in moves.claims())
    return "review the whole essay", f"essay approve G5{' --confirm' * confirm}"
