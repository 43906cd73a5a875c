"""The command prove: run a command as a proof, and show whether proofs still hold.

The command's output is passed through unchanged: to standard output, or to the error stream where
the answer is JSON. Secrets are removed only from what is stored.
"""

from __future__ import annotations

import argparse
import shlex

from forestay.api.status import event_receipt
from forestay.base.text import plural, shorten
from forestay.cli.arguments import KEY, Command, arg, flag
from forestay.cli.common import (
    confirm,
    current_session,
    other_holders,
    removed_secrets,
    warn_others,
)
from forestay.cli.terminal import pick
from forestay.errors import DONE, FAILED, INTERRUPTED, InvalidInput
from forestay.plans.prove import result_to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.types import Any, Event, Forestay, Namespace, Part, Screen, Session
    from forestay.plans.prove import ProofInfo
    from forestay.plans.run_command import Sink

_WIDTH, _NAMED = 60, 3
_COLORS = {"fresh": "green", "passed": "green", "stale": "yellow", "failed": "red"}


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def run_prove(options: Namespace, stay: Forestay, screen: Screen) -> int:
    if options.all and not options.again:
        raise InvalidInput("--all needs --again", hint="forestay prove --again --all")
    if bool(options.argv) + options.again + options.list != 1:
        what = "name a command, or one of --again and --list"
        raise InvalidInput(what, hint="forestay prove -- make lint")
    if options.list:
        _print_list(stay.current(), screen)
        return DONE
    session = current_session(stay)
    if options.again:
        return _prove_again(session, options, screen)
    given = pick(options, "phase name inputs timeout key")
    event = session.proofs.run(options.argv, sink=_sink(screen), **given)
    if screen.json:
        _answer(session, [event], screen)
    else:
        confirm(session, event, screen, *_result(event.body))
    return _exit_code(event.body)


def _answer(session: Session, events: list[Event], screen: Screen) -> None:
    ran = [{"event": event_receipt(event), **result_to_json(event.body)} for event in events]
    others = other_holders(session)
    screen.answer(session.status, repeated=session.repeated, others=others, ran=ran)


def _prove_again(session: Session, options: Namespace, screen: Screen) -> int:
    done: list[Event] = []
    again = session.proofs.run_again(all=options.all, timeout=options.timeout, sink=_sink(screen))
    for one, event in again:
        done.append(event)
        screen.done((f"#{event.seq} ", "dim"), *_result(event.body), *removed_secrets(event))
        if one.because:
            screen.done(("  it was stale: ", "dim"), _reasons(one))
    _answer(session, done, screen)
    if not done:
        screen.suggest("Every proof holds. To run them anyway: ", "forestay prove --again --all")
    warn_others(other_holders(session), screen)
    return max([_exit_code(event.body) for event in done], default=DONE)


def _print_list(session: Session, screen: Screen) -> None:
    found = session.proofs.list()
    screen.answer(session.status, proofs=found)
    rows: list[list[Part]] = []
    for one in found:
        word = "failed, stale" if one.stale and one.state == "failed" else one.state
        what = " – ".join(filter(None, [_line(one.argv), _reasons(one)]))
        rows.append([one.proof, (word, _COLORS.get(one.state, "dim")), one.phase, what])
    empty = "There are no proofs yet. Add one: forestay prove -- COMMAND"
    screen.listing("PROOF STATE PHASE COMMAND", rows, empty)
    if not all(one.holds for one in found):
        screen.hint("next: ", "forestay prove --again")


def _reasons(one: ProofInfo) -> str:
    named = [f"{file.path} {file.what}" for file in one.because[:_NAMED]]
    more = len(one.because) - _NAMED
    return ", ".join([*named, *([f"{more} more"] if more > 0 else [])])


def _line(argv: list[str]) -> str:
    return shorten(shlex.join(argv), _WIDTH)


def _result(body: Any) -> list[Part]:
    ended: Part = ("passed", "green")
    if body.timed_out:
        ended = ("was stopped by the timeout", "red")
    elif body.interrupted:
        ended = ("was interrupted", "red")
    elif body.exit:
        ended = (f"failed (exit {body.exit})", "red")
    seconds = f" in {body.duration_ms / 1000:.1f} s"
    bound = f"; inputs: {plural(body.files, 'file')}" if body.globs else ""
    moved: Part = ("; they changed while it ran, so it is stale", "yellow") if body.changed else ""
    return [f"{body.proof}: {_line(body.argv)} ", ended, seconds, bound, moved]


def _exit_code(body: Any) -> int:
    if body.interrupted:
        return INTERRUPTED
    return FAILED if body.exit or body.timed_out else DONE


def _sink(screen: Screen) -> Sink:
    """Return a function that passes output through; a closed pipe does not stop the proof."""
    is_open = [True]

    def put(data: bytes) -> None:
        if is_open[0]:
            is_open[0] = screen.pass_through(data)

    return put


COMMANDS = {
    "prove": Command(
        run_prove,
        arg("argv*", "COMMAND", "what to run, after --; without a shell"),
        arg("--phase", "N", "the phase (or task) it is for"),
        arg("--as", "NAME", "what it proves: the name of a gate's evidence", dest="name"),
        arg(
            "--inputs", "GLOB", "files it depends on, such as 'src/**'; can be repeated", many=True
        ),
        arg("--timeout", "S", "stop it after this many seconds", type=_seconds),
        flag("--again", "run stale and failed proofs again"),
        flag("--all", "with --again: all proofs"),
        flag("--list", "list the proofs and whether they still hold"),
        KEY,
        "forestay prove --inputs 'src/**' -- make lint",
        "forestay prove --phase 3 --as tests_pass --inputs 'src/**' -- pytest -q",
        "forestay prove --again",
        about="\nExit 0 if the command succeeded, 1 if it failed; both are recorded.",
    )
}
