"""Parameters with few words are typed: a type checker knows the vocabulary of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

import forestay
from forestay import InvalidInput
from forestay.agents.registry import SCOPES
from forestay.api import argument_check
from forestay.base import vocabulary, words
from forestay.model.gates.revisit_impact import IMPACTS
from forestay.model.rules import UNIT_MOVES
from forestay.sync.crypto.key_ring import CONTINUE, READ

VOCABULARY = {
    "Mode": vocabulary.MODES,
    "Status": vocabulary.STATUSES,
    "PauseReason": vocabulary.PAUSE_REASONS,
    "Category": vocabulary.CATEGORIES,
    "FileAction": vocabulary.ACTIONS,
    "CommandStatus": vocabulary.COMMAND_STATUSES,
    "Style": vocabulary.STYLES,
    "Format": vocabulary.FORMATS,
    "Pushback": vocabulary.PUSHBACK,
    "DeferReason": vocabulary.DEFER_REASONS,
    "FactCheck": vocabulary.FACT_CHECKS,
    "Impact": IMPACTS,
    "Scope": SCOPES,
    "ShareMode": (READ, CONTINUE),
}


OF_RESULTS = {
    "UnitStatus": tuple(UNIT_MOVES),
    "Checkpoint": ("pending", "passed", "failed", "overridden", "rolled_back"),
    "ProofState": ("passed", "failed", "fresh", "stale", "not checked"),
    "Life": ("alive", "dead", "unknown"),
}
"""Types that no parameter has."""


@pytest.mark.parametrize("name", [*VOCABULARY, *OF_RESULTS])
def test_type_has_the_words_of_the_engine(name: str) -> None:
    assert get_args(getattr(words, name)) == tuple((VOCABULARY | OF_RESULTS)[name])


def test_every_type_of_words_is_tested_and_known_to_the_argument_check() -> None:
    types = {name for name, value in vars(words).items() if get_args(value)}
    assert types == {*VOCABULARY, *OF_RESULTS} and set(argument_check._WORDS) == set(VOCABULARY)


def test_words_that_a_type_checker_refuses_are_refused_when_called(tmp_path: Path) -> None:
    """The comments are the first half of the test: one that is not needed fails type checking."""
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        with pytest.raises(InvalidInput):
            stay.start("one", mode="nonsense")  # type: ignore[arg-type]
        session = stay.start("one", mode="debug")
        with pytest.raises(InvalidInput):
            session.record.command("make", status="ok")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            session.pause(reason="tired")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            session.brief(style="loud")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            session.agents.fail("a", "lost", category="cosmic")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            session.record.file("a.py", action="renamed")  # type: ignore[arg-type]


def test_briefing_prints_its_text_without_the_fence_for_models(tmp_path: Path) -> None:
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        session = stay.start("Add login")
        fenced, plain = session.brief(), session.brief(fenced=False)
    assert fenced.text.startswith("<<<data ") and str(fenced) == str(plain) == plain.text.rstrip()
    assert str(plain).startswith(f"Session {session.id}")
