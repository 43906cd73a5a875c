"""Every command has a method, and every command that a message names exists."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest

from forestay.cli import mcp, settings
from forestay.cli.dispatch import parse
from forestay.cli.errors import typable_moves
from forestay.cli.table import COMMANDS, FAMILIES, split
from forestay.errors import InvalidInput, Refused
from forestay.model.event import Body
from forestay.model.rules import AGENT_VERBS, SESSION_MOVES, STEP_VERBS, decide
from tests.cli.support import command_method, find_method, method_name
from tests.model import test_rules as rules

SOURCE = Path(__file__).parents[2] / "src" / "forestay"

# Commands about the command line itself, and their functions.
OF_THE_LINE = {
    "completion": settings.completion,
    "help": settings.run_help,
    "mcp": mcp.run_mcp,
}

# Moves of the rules that have no command yet.
LATER = {"task fail", "task review", "task revisit"}


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_command_is_a_documented_method(verb: str) -> None:
    name = method_name(verb)
    method = find_method(name) or OF_THE_LINE.get(name.rpartition(".")[2])
    assert callable(method), f"forestay {verb} has no method"
    assert method.__doc__ or method in OF_THE_LINE.values()


def test_every_option_for_a_task_or_an_agent_is_a_parameter() -> None:
    for verb in (
        "task add",
        "task done",
        "agent start",
        "agent done",
        "agent fail",
        "record command",
    ):
        names = inspect.signature(command_method(verb)).parameters
        options = {name for name in vars(parse(verb, _least(verb))[1]) if name not in _SHARED}
        assert options <= set(names) | {"title"}, verb


_SHARED = {"home", "store", "session", "json", "quiet", "no_color", "help"}


def _least(verb: str) -> list[str]:
    return ["x", "--error", "e"] if verb == "agent fail" else ["x"]


# -- refusals ----------------------------------------------------------------------------------


def _refusals() -> list[Refused]:
    """Return one refusal for every refused move, in every status of sessions, tasks and agents."""
    sessions = [rules.Session(*way) for way in rules.WAYS.values()]
    steps = [rules.step_in(status) for status in rules.STEP_WAYS]
    agents = [rules.Session(rules.START, *way) for way in rules.AGENT_WAYS.values()]
    moves: list[Body] = [*rules.COMMANDS.values(), rules.START]
    moves += [body for body, _ in (*rules.STEP_COMMANDS.values(), *rules.AGENT_COMMANDS.values())]
    found = []
    for session in (*sessions, *steps, *agents):
        for move in moves:
            try:
                decide(session.state, move)
            except Refused as refused:
                found.append(refused)
    return found


def test_refusal_names_only_existing_or_later_commands() -> None:
    refusals = _refusals()
    assert len(refusals) > 100
    for refused in refusals:
        shown = typable_moves(refused.legal)
        for move in refused.legal:
            words = shlex.split(move)
            assert move in shown or " ".join(words[:2]) in LATER, move
        for move in shown:
            name, rest = split(shlex.split(move))
            parse(name, rest)
        assert shown or refused.hint, f"{refused} suggests no command"


def test_every_move_of_the_model_has_a_command_except_later_ones() -> None:
    verbs = {f"task {verb}" for status in STEP_VERBS.values() for verb in status}
    verbs |= {f"agent {verb}" for status in AGENT_VERBS.values() for verb in status}
    assert verbs - COMMANDS.keys() == LATER
    assert set(SESSION_MOVES) == set(rules.WAYS)


# -- messages ----------------------------------------------------------------------------------


def _texts() -> list[tuple[str, str]]:
    """Return every string of the source that is not a docstring, with its file."""
    found = []
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        printed = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        }  # docstrings
        found += [
            (path.name, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if id(node) not in printed
        ]
    return found


def test_every_command_that_a_message_names_exists() -> None:
    first = {name.split()[0] for name in COMMANDS}
    named = 0
    for file, text in _texts():
        for typed in re.findall(r"\bforestay ([a-z]+(?: [a-z]+)*)", text):
            words = typed.split()
            if words[0] in _PROSE:
                continue
            named += 1
            assert words[0] in first, f"{file} names `forestay {words[0]}`: {text!r}"
            name, _ = split(words)
            assert name in COMMANDS or name in FAMILIES, f"{file}: {text!r}"
    assert named > 50


_PROSE = {"machine", "setup", "pack", "home", "writes", "database", "keeps", "project"}
_PROSE |= {"migration"}


def test_an_unknown_action_of_a_family_is_refused_with_near_ones() -> None:
    with pytest.raises(InvalidInput, match="task xx") as caught:
        parse("task xx", [])
    assert caught.value.hint == "see: forestay task --help"
