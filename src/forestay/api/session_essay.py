"""Verbs for an essay on its way through the pipeline: gates, sections, claims, voice, output."""

from __future__ import annotations

from forestay.api.session_base import SessionBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from forestay.model.state import Claim
    from forestay.plans.essay_steps import Done, SectionListed


class EssayVerbs(SessionBase):
    """What happens to an essay; in a session that is none they are refused."""

    def approve(
        self,
        gate: str,
        *,
        section: int | None = None,
        paragraph: int | None = None,
        last: bool = False,
        confirm: bool = False,
        key: str = "",
    ) -> Done:
        """The user approves what waits at a gate of an essay: G1, G2, G3, G3-Final, G4, …

        G3 and the G4s are for a section, the current one unless named. `last` says that no
        paragraph follows. `confirm` confirms the user's overrides, which G5 asks for.
        """
        from forestay.plans import essay_steps

        return essay_steps.approve(
            self, gate, section=section, paragraph=paragraph, last=last, confirm=confirm, key=key
        )

    def section_list(self) -> list[SectionListed]:
        """The sections of an essay, with how each stands in its arguments and its paragraphs."""
        from forestay.plans import essay_steps

        return essay_steps.sections(self)

    def section_add(self, number: int, *, title: str = "", key: str = "") -> Done:
        """Add a section to an essay by hand; the outline's come with its approval."""
        from forestay.plans import essay_steps

        return essay_steps.section_add(self, number, title=title, key=key)

    def section_start(self, number: int, *, stage: int | None = None, key: str = "") -> Done:
        """Work on a section: on its arguments, or, when they are completed, its paragraphs."""
        from forestay.plans import essay_steps

        return essay_steps.section_start(self, number, stage=stage, key=key)

    def section_done(
        self,
        number: int,
        *,
        map: str = "",
        verified: int | None = None,
        deferred: int | None = None,
        key: str = "",
    ) -> Done:
        """The argument map of a section is there; with G3 approved that completes its arguments.

        How many claims are verified and deferred is counted in the map unless it is told.
        """
        from forestay.plans import essay_steps

        return essay_steps.section_done(
            self, number, map=map, verified=verified, deferred=deferred, key=key
        )

    def paragraph_done(
        self, number: int, *, section: int | None = None, last: bool = False, key: str = ""
    ) -> Done:
        """The user approves a paragraph: the same as G4."""
        from forestay.plans import essay_steps

        return essay_steps.approve(
            self, "G4", section=section, paragraph=number, last=last, key=key
        )

    def claim_list(self) -> list[Claim]:
        """Every claim that was deferred, with what became of it."""
        return self._rows("claim")

    def claim_defer(
        self,
        text: str,
        *,
        reason: str,
        section: int | None = None,
        paragraph: int | None = None,
        key: str = "",
    ) -> Done:
        """A claim could not be checked now, for one of three reasons; it must be before G5."""
        from forestay.plans import essay_steps

        return essay_steps.claim_defer(
            self, text, reason=reason, section=section, paragraph=paragraph, key=key
        )

    def claim_resolve(
        self, id: str, *, result: str = "verified", sources: Sequence[str] = (), key: str = ""
    ) -> Done:
        """A deferred claim is checked, with what came out and the sources that were used."""
        from forestay.plans import essay_steps

        return essay_steps.claim_resolve(self, id, result=result, sources=sources, key=key)

    def claim_override(self, id: str, *, result: str, because: str, key: str = "") -> Done:
        """The user lets a claim stand although the check says otherwise, for a reason."""
        from forestay.plans import essay_steps

        return essay_steps.claim_override(self, id, result=result, because=because, key=key)

    def calibrate(
        self,
        rating: int,
        *,
        notes: str = "",
        reference: str = "",
        again: bool = False,
        key: str = "",
    ) -> Done:
        """How close the first voice result sounds to the user, 1 to 5; asked once."""
        from forestay.plans import essay_steps

        return essay_steps.calibrate(
            self, rating, notes=notes, reference=reference, again=again, key=key
        )

    def voice(
        self,
        score: float | None,
        *,
        section: int | None = None,
        because: str = "",
        key: str = "",
    ) -> Done:
        """The voice check of a section, 1 to 5; None when it was skipped, with the reason."""
        from forestay.plans import essay_steps

        return essay_steps.voice(self, score, section=section, because=because, key=key)

    def output(
        self,
        file: str,
        *,
        words: int | None = None,
        sources: int | None = None,
        voice: float | None = None,
        key: str = "",
    ) -> Done:
        """The final essay is in a file; words are counted unless they are told."""
        from forestay.plans import essay_steps

        return essay_steps.output(self, file, words=words, sources=sources, voice=voice, key=key)

    def pushback(self, level: str, *, key: str = "") -> Done:
        """How hard the essay's author wants to be questioned: full, light or minimal."""
        from forestay.plans import essay_steps

        return essay_steps.pushback(self, level, key=key)

    def essay_show(self) -> tuple[str, str]:
        """The essay so far: the file that holds the most of it, and its text."""
        from forestay.plans import essay_steps

        return essay_steps.so_far(self)
