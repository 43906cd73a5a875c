"""Damaged session files: what can be made of them, told with the commands that do it."""

from __future__ import annotations

import shlex

from forestay.cli.suggestions import shown_path, told_from_here, typed_path
from forestay.errors import DAMAGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.base.findings import Question
    from forestay.cli.terminal import Screen
    from forestay.mirror.recover import Case


_SHOWN = 40
_RUNGS = {
    "journal": "from the journal",
    "backup": "from the backup beside it",
    "artifacts": "from what is left of it",
    "user": "only if you say how",
}


def run_recover(options: Namespace, stay: Forestay, screen: Screen) -> int:
    case = stay.files.recover(
        options.path, out=options.output, fix=options.fix, choose=options.choose
    )
    if case is None:
        screen.answer({"ok": True, "case": None})
        screen.line(("readable ", "green"), shown_path(options.path))
        screen.hint("check its content: ", f"forestay files check {typed_path(options.path)}")
        return 0
    asked = bool(options.output or options.fix)
    screen.answer({"ok": asked, "case": case_values(case)})
    tell_case(case, screen, acted=asked, chosen=options.choose)
    return 0 if asked else DAMAGED


def case_values(case: Case) -> dict[str, Any]:
    """A case as the JSON answer has it."""
    return {
        "layout": case.layout,
        "path": case.path,
        "session": case.session or None,
        "what": case.what,
        "rung": case.rung,
        "message": case.message,
        "inferred": case.inferred,
        "lost": case.lost,
        "damaged": case.damaged,
        "missing": case.missing,
        "kept": case.kept,
        "written": case.written,
        "question": None if case.question is None else _question_values(case.question),
    }


def _question_values(question: Question) -> dict[str, Any]:
    choices = [
        {"id": c.id, "title": c.title, "says": c.detail or None, "command": c.command or None}
        for c in question.choices
    ]
    return {
        "text": question.text,
        "choices": choices,
        "recommended": question.recommended,
        "files": question.files,
        "menu": question.menu or None,
    }


def tell_case(case: Case, screen: Screen, *, acted: bool, chosen: str = "") -> None:
    word = ("recovered ", "green") if acted else ("damaged   ", "red")
    screen.line(word, case.message if acted else _told(case.what, case))
    if not acted:
        screen.line("          ", (f"can be recovered {_RUNGS[case.rung]}", "dim"))
    _tell_some("inferred", case.inferred, screen)
    _tell_some("lost", case.lost, screen)
    for path in case.kept:
        screen.line(("  kept     ", "dim"), f"{shown_path(path)} (the damaged bytes)")
    for path in case.written:
        screen.line(("  written  ", "dim"), shown_path(path))
    if case.question is not None and not acted:
        _ask(case, case.question, screen)
    elif not acted:
        _offer(case, screen, chosen)


def _told(text: str, case: Case) -> str:
    return told_from_here(text, *dict.fromkeys([case.path, *case.damaged, *case.missing]))


def _tell_some(word: str, lines: list[str], screen: Screen) -> None:
    for line in lines[:_SHOWN]:
        screen.line((f"  {word:<9}", "dim"), line)
    if len(lines) > _SHOWN:
        screen.line("           ", (f"{len(lines) - _SHOWN} more like this", "dim"))


def _ask(case: Case, question: Question, screen: Screen) -> None:
    screen.line()
    if question.menu:
        screen.block(question.menu)
    else:
        screen.line((case.message, "bold"))
        for name in question.files:
            screen.line(("  there is ", "dim"), name)
        screen.line(question.text)
    screen.line()
    for choice in question.choices:
        best = ("  recommended", "green") if choice.id == question.recommended else ""
        says = "" if question.menu or not choice.detail else f": {choice.detail}"
        screen.line((f"{choice.id:<9} ", "cyan"), choice.title, says, best)
        if choice.command:
            screen.offer("          → ", _told(choice.command, case))


def _offer(case: Case, screen: Screen, chosen: str) -> None:
    doctor = f"forestay doctor {typed_path(case.path)}"
    choice = f" --choose {shlex.quote(chosen)}" if chosen else ""
    screen.line(("nothing is changed yet; afterwards: ", "dim"), case.message)
    if case.rung != "journal":
        screen.offer("→ beside it: ", f"{doctor} -o OUT{choice}")
    screen.offer("→ in place, the old bytes kept: ", f"{doctor} --fix{choice}")
