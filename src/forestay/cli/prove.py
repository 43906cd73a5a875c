"""Proofs: commands that are run and watched, and whether what they showed still holds.

What the command prints goes out as it comes: on standard output, or on the error stream where
the answer is JSON. It is passed on as it is; only what is kept is looked through for secrets.
"""

from __future__ import annotations

from forestay.base.text import shorten
from forestay.cli.arguments import Command, Parser, with_key
from forestay.cli.common import at_work, confirm, left_out, meant, recorded, tell_others
from forestay.errors import DONE, FAILED, INTERRUPTED, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Part, Screen
    from forestay.model.event import Event
    from forestay.plans.prove import Standing
    from forestay.plans.run_command import Sink

_SAID = 60
_NAMED = 3
_COLOURS = {"fresh": "green", "passed": "green", "stale": "yellow", "failed": "red"}


def _seconds(text: str) -> float:
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _prove_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("argv", nargs="*", metavar="COMMAND", help="what to run, after --; without a shell")
    add("--phase", default="", metavar="N", help="the phase (or task) it is for")
    add("--as", dest="name", default="", metavar="NAME", help="what it proves; a field of a gate")
    add(
        "--inputs",
        action="append",
        default=[],
        metavar="GLOB",
        help="files it depends on, from the root of the project: 'src/**'",
    )
    add("--timeout", type=_seconds, default=None, metavar="S", help="end it after so many seconds")
    add("--again", action="store_true", help="run what is stale or failed once more")
    add("--all", action="store_true", help="with --again: everything, also what holds")
    add("--list", action="store_true", help="the proofs, and whether they still hold")
    with_key(parser)
    parser.description = (
        f"{parser.description}\nExit 0 if the command succeeded, 1 if it failed; both are recorded."
    )


def run_prove(options: Namespace, stay: Forestay, screen: Screen) -> int:
    given = bool(options.argv)
    if options.all and not options.again:
        raise InvalidInput("--all goes with --again", hint="forestay prove --again --all")
    if given + options.again + options.list != 1:
        raise InvalidInput(
            "name a command, or one of --again and --list", hint="forestay prove -- make lint"
        )
    if options.list:
        return _list(stay.current(), screen)
    session = meant(stay)
    return _again(session, options, screen) if options.again else _once(session, options, screen)


def _once(session: Session, options: Namespace, screen: Screen) -> int:
    event = session.proofs.run(
        options.argv,
        phase=options.phase,
        name=options.name,
        inputs=options.inputs,
        timeout=options.timeout,
        sink=_sink(screen),
        key=options.key,
    )
    if screen.json:
        _answer(session, [event], screen)
    else:
        confirm(session, event, screen, *_said(event.body))
    return _code(event.body)


def _answer(session: Session, events: list[Event], screen: Screen) -> None:
    from forestay.api import json_values

    ran = [{"event": recorded(event), **json_values.observed(event.body)} for event in events]
    known = {"repeated": session.repeated, "others": at_work(session)}
    screen.answer({**session.status(), **known, "ran": ran})


def _again(session: Session, options: Namespace, screen: Screen) -> int:
    done: list[Event] = []
    again = session.proofs.run_again(all=options.all, timeout=options.timeout, sink=_sink(screen))
    for one, event in again:
        done.append(event)
        screen.done((f"#{event.seq} ", "dim"), *_said(event.body), *left_out(event))
        if one.why:
            screen.done(("  it was stale: ", "dim"), _reasons(one))
    if screen.json:
        _answer(session, done, screen)
    elif not done:
        screen.line(
            "Everything proven holds. To run it all the same: ",
            ("forestay prove --again --all", "cyan"),
        )
    if not screen.json:
        tell_others(at_work(session), screen)
    return max((_code(event.body) for event in done), default=DONE)


def _list(session: Session, screen: Screen) -> int:
    found = session.proofs.list()
    if screen.json:
        from forestay.api import json_values

        screen.answer({**session.status(), "proofs": [json_values.proof(one) for one in found]})
        return DONE
    screen.long()
    if not found:
        screen.line("There are no proofs yet. Make one: ", ("forestay prove -- COMMAND", "cyan"))
        return DONE
    heads = ("PROOF", "STATE", "PHASE", "COMMAND")
    rows: list[list[Part]] = [[(word, "dim") for word in heads]]
    rows += [[one.row.proof, _state(one), one.row.step, _about(one)] for one in found]
    screen.table(rows)
    if not all(one.holds for one in found):
        screen.hint("next: ", "forestay prove --again")
    return DONE


def _state(one: Standing) -> Part:
    word = "failed, stale" if one.stale and one.word == "failed" else one.word
    return word, _COLOURS.get(one.word, "dim")


def _about(one: Standing) -> str:
    return " – ".join(filter(None, [_line(one.row.argv), _reasons(one)]))


def _reasons(one: Standing) -> str:
    named = [f"{path} {word}" for path, word in one.why[:_NAMED]]
    more = len(one.why) - _NAMED
    return ", ".join([*named, *([f"{more} more"] if more > 0 else [])])


def _line(argv: list[str]) -> str:
    import shlex

    return shorten(shlex.join(argv), _SAID)


def _said(body: Any) -> list[Part]:
    ended: Part = ("passed", "green")
    if body.timed_out:
        ended = ("ran out of time and was ended", "red")
    elif body.interrupted:
        ended = ("was interrupted", "red")
    elif body.exit:
        ended = (f"failed (exit {body.exit})", "red")
    seconds = f" in {body.duration_ms / 1000:.1f} s"
    bound = f"; inputs: {body.files:,} file{'' if body.files == 1 else 's'}" if body.globs else ""
    moved: Part = ("; they changed while it ran, so it is stale", "yellow") if body.changed else ""
    return [f"{body.proof}: {_line(body.argv)} ", ended, seconds, bound, moved]


def _code(body: Any) -> int:
    if body.interrupted:
        return INTERRUPTED
    return FAILED if body.exit or body.timed_out else DONE


def _sink(screen: Screen) -> Sink:
    """Pass on what the command prints. Whoever stops reading does not stop the proof."""
    reads = [True]

    def put(data: bytes) -> None:
        if reads[0]:
            reads[0] = screen.passed_on(data)

    return put


COMMANDS = {
    "prove": Command(
        _prove_arguments,
        run_prove,
        "forestay prove --inputs 'src/**' -- make lint",
        "forestay prove --phase 3 --as tests_pass --inputs 'src/**' -- pytest -q",
        "forestay prove --again",
    ),
}
