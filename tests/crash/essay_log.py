"""Scenario of an essay command under faults: its event and its log line both exist, or neither.

This holds after the next command: a process killed between the two leaves the line as pending work.
"""

from collections.abc import Sequence
from pathlib import Path

from forestay.errors import Busy, ReadOnly, StoreFailed
from forestay.formats.essay import fields
from forestay.plans import essay_steps
from tests.crash.mirror import _open
from tests.crash.scenario import Ack, Scenario

SESSION = "s1"
_HOUR = 3_600_000
FILES = {fields.THESIS: "A thesis.\n", fields.OUTLINE: "### Section 1: All of it (~300 words)\n"}


def _prepare(home: str) -> None:
    with _open(home) as opened:
        session = opened.start("An essay", workflow="essay", id=SESSION)
        folder = Path(session.files.bind("essay").root)
        for name, text in FILES.items():
            (folder / name).write_text(text)
        session.essay.approve("G1")
        session.essay.approve("G2")


def _defer(home: str, ack: Ack) -> None:
    with _open(home, later=_HOUR) as opened:
        opened.session(SESSION).essay.claims.defer("It rains", reason="timeout")
        ack("deferred")


def _check(home: str, acked: Sequence[str]) -> list[str]:
    with _open(home, later=2 * _HOUR) as opened:
        session = opened.session(SESSION)
        session.note("the next command")
        claims = len(session.essay.claims.list())
        log = Path(session.files.list()[0].root) / essay_steps.FACTS
        lines = log.read_text().count("It rains") if log.exists() else 0
        left = opened.context.store.machine.file_work.pending(SESSION)
        problems = [f"{claims} claims, {lines} lines"] if claims != lines or claims > 1 else []
        problems += ["acknowledged, but not done"] if acked and not claims else []
        problems += [f"left to do: {left}"] if left else []
        return problems if session.verify().ok else [*problems, "does not verify"]


DEFERRED = Scenario(
    prepare=_prepare, run=_defer, check=_check, refusals=(StoreFailed, Busy, ReadOnly)
)
