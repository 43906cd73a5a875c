"""The verbs of an essay: gates, sections, paragraphs, claims, voice and output."""

from __future__ import annotations

import argparse

from forestay.base.text import plural, shorten
from forestay.base.vocabulary import (
    DEFER_REASONS,
    FACT_CHECKS,
    GATES,
    PUSHBACK,
    SETTLING,
    VOICE_MODES,
)
from forestay.cli.arguments import Command, Parser, count, nothing, spoken, with_key
from forestay.cli.common import confirm, meant
from forestay.cli.suggestions import shown_path
from forestay.model.timing import brief

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Part, Screen
    from forestay.model.state import Claim
    from forestay.plans.essay_steps import Done, SectionListed

_SAID = 70
_SKIP = "skip"


def _tell(session: Session, done: Done, screen: Screen) -> None:
    """What was recorded, what is still missing, and what comes next."""
    confirm(
        session,
        done.event,
        screen,
        (shorten(done.said, 200), "green"),
        said=done.said,
        missing=done.missing,
        warnings=done.warnings,
        following=done.next,
        **_more(done),
    )
    if screen.json:
        return
    for warning in done.warnings:
        screen.done("  ", ("! ", "yellow"), warning)
    for command in done.missing:
        screen.done("  still missing: ", (f"forestay {command}", "cyan"))
    if done.ask:
        screen.done("  ask the user: ", done.ask)
    if done.summary is not None:
        _tell_summary(done, screen)
    screen.hint("next: ", f"forestay {done.next}" if done.next else "forestay session archive")


def _more(done: Done) -> dict[str, Any]:
    """Fields that only some verbs have."""
    found: dict[str, Any] = {"claim": done.claim, "action": done.action, "ask": done.ask}
    if done.summary is not None:
        names = done.summary.__struct_fields__
        found["summary"] = {name: getattr(done.summary, name) for name in names}
    return {name: value for name, value in found.items() if value}


def _tell_summary(done: Done, screen: Screen) -> None:
    told = done.summary
    assert told is not None
    target = f" of {told.target_words:,}" if told.target_words else ""
    sources = plural(told.sources, "unique source")
    screen.fields(
        [
            ("words", f"{told.words:,}{target}" if told.words is not None else ""),
            ("sections", str(told.sections)),
            ("claims", f"{told.claims_verified} verified, {sources}"),
            ("voice", f"{told.voice:g}/5" if told.voice is not None else "not checked"),
            ("overrides", str(told.overrides)),
            ("deferred", f"{told.resolved} of {told.deferred} resolved"),
            ("time spent", brief(told.seconds)),
        ]
    )


# -- gates -------------------------------------------------------------------------------------


def _section_option(parser: Parser) -> None:
    parser.add_argument(
        "--section", type=count, metavar="N", help="the section; else the current one"
    )


def _approve_arguments(parser: Parser) -> None:
    parser.add_argument("gate", metavar="GATE", help=f"{', '.join(GATES)}; G3.2 is G3 of section 2")
    _section_option(parser)
    parser.add_argument("--paragraph", type=count, metavar="N", help="of G4: the paragraph")
    parser.add_argument("--last", action="store_true", help="no paragraph of the section follows")
    parser.add_argument("--confirm", action="store_true", help="of G5: the overrides stand")
    with_key(parser)


def run_approve(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.approve(
        options.gate,
        section=options.section,
        paragraph=options.paragraph,
        last=options.last,
        confirm=options.confirm,
        key=options.key,
    )
    _tell(session, done, screen)


def _paragraph_arguments(parser: Parser) -> None:
    parser.add_argument("number", type=count, metavar="N", help="the number of the paragraph")
    _section_option(parser)
    parser.add_argument("--last", action="store_true", help="it is the last one of its section")
    with_key(parser)


def run_paragraph(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.paragraph_done(
        options.number, section=options.section, last=options.last, key=options.key
    )
    _tell(session, done, screen)


# -- sections ----------------------------------------------------------------------------------


def _number_argument(parser: Parser) -> None:
    parser.add_argument("number", type=count, metavar="N", help="the number of the section")


def _add_arguments(parser: Parser) -> None:
    _number_argument(parser)
    parser.add_argument("--title", default="", metavar="TITLE", help="what it is called")
    with_key(parser)


def run_add(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.sections.add(options.number, title=options.title, key=options.key)
    _tell(session, done, screen)


def _start_arguments(parser: Parser) -> None:
    _number_argument(parser)
    parser.add_argument(
        "--stage",
        type=count,
        choices=(3, 4),
        metavar="3|4",
        help="its arguments or its paragraphs; else whichever is not completed",
    )
    with_key(parser)


def run_start(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.sections.start(options.number, stage=options.stage, key=options.key)
    _tell(session, done, screen)


def _done_arguments(parser: Parser) -> None:
    _number_argument(parser)
    parser.add_argument(
        "--map",
        default="",
        metavar="FILE",
        help="its argument map; else stage-3-section-N-arguments.md",
    )
    parser.add_argument(
        "--verified", type=count, metavar="N", help="claims verified; else counted in the map"
    )
    parser.add_argument(
        "--deferred", type=count, metavar="N", help="claims deferred; else counted in the map"
    )
    with_key(parser)


def run_done(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.sections.done(
        options.number,
        map=options.map,
        verified=options.verified,
        deferred=options.deferred,
        key=options.key,
    )
    _tell(session, done, screen)


def run_sections(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    found = session.essay.sections.list()
    if screen.json:
        rows = [{n: getattr(one, n) for n in one.__struct_fields__} for one in found]
        screen.answer({**session.status(), "sections": rows})
        return
    head = ("SECTION", "ARGUMENTS", "VERIFIED", "DEFERRED", "PARAGRAPHS", "VOICE", "TITLE")
    table: list[list[Part]] = [[(word, "dim") for word in head], *(_row(one) for one in found)]
    screen.table(table if found else [])
    if not found:
        screen.line(
            "no sections yet; they come with the outline: ", ("forestay essay approve G2", "cyan")
        )


def _row(one: SectionListed) -> list[Part]:
    total = "?" if one.total is None else str(one.total)
    return [
        str(one.number),
        _status(one.arguments),
        str(one.verified),
        str(one.deferred),
        f"{one.completed} of {total}, {_status(one.paragraphs)}",
        "" if one.voice is None else f"{one.voice:g}/5",
        one.title,
    ]


def _status(word: str) -> str:
    words = {"done": "completed", "pending": "not started", "running": "in progress"}
    return words.get(word, word.replace("_", " "))


# -- claims ------------------------------------------------------------------------------------


def _defer_arguments(parser: Parser) -> None:
    parser.add_argument("text", metavar="TEXT", help="the claim; - reads it from stdin")
    parser.add_argument(
        "--reason",
        required=True,
        choices=DEFER_REASONS,
        metavar="WORD",
        help=", ".join(DEFER_REASONS),
    )
    _section_option(parser)
    parser.add_argument("--paragraph", type=count, metavar="N", help="the paragraph it is in")
    with_key(parser)


def run_defer(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.claims.defer(
        spoken(options.text, screen),
        reason=options.reason,
        section=options.section,
        paragraph=options.paragraph,
        key=options.key,
    )
    _tell(session, done, screen)


def _resolve_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the claim, such as c1")
    parser.add_argument(
        "--result",
        choices=FACT_CHECKS,
        default="verified",
        metavar="WORD",
        help=", ".join(SETTLING),
    )
    parser.add_argument(
        "--source",
        dest="sources",
        action="append",
        default=[],
        metavar="SOURCE",
        help="what it was checked with; may be repeated",
    )
    with_key(parser)


def run_resolve(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.claims.resolve(
        options.id, result=options.result, sources=options.sources, key=options.key
    )
    _tell(session, done, screen)


def _override_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the claim, such as c1")
    parser.add_argument(
        "--result",
        required=True,
        choices=FACT_CHECKS,
        metavar="WORD",
        help=f"what the check says: {', '.join(FACT_CHECKS)}",
    )
    parser.add_argument("--because", required=True, metavar="REASON", help="why it stands")
    with_key(parser)


def run_override(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.claims.override(
        options.id, result=options.result, because=options.because, key=options.key
    )
    _tell(session, done, screen)


def run_claims(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    found = session.essay.claims.list()
    if screen.json:
        screen.answer({**session.status(), "claims": [_claim(one) for one in found]})
        return
    rows: list[list[Part]] = [
        [one.id, _standing(one), str(one.section or ""), shorten(one.text, _SAID)] for one in found
    ]
    head: list[Part] = [(word, "dim") for word in ("CLAIM", "", "SECTION", "TEXT")]
    screen.table([head, *rows] if rows else [])
    if not rows:
        screen.line("no claim was deferred")


def _standing(claim: Claim) -> Part:
    if claim.is_open:
        return (f"deferred: {claim.reason}", "yellow")
    return f"overridden: {claim.result}" if claim.result else ("resolved", "green")


def _claim(one: Claim) -> dict[str, Any]:
    names = ("id", "text", "reason", "section", "paragraph", "resolved", "result", "because")
    return {name: getattr(one, name) for name in names}


# -- voice, output, pushback -------------------------------------------------------------------


def _calibrate_arguments(parser: Parser) -> None:
    parser.add_argument("rating", type=count, metavar="1-5", help="5 sounds just like the user")
    parser.add_argument("--notes", default="", metavar="TEXT", help="what is off")
    parser.add_argument(
        "--reference",
        choices=VOICE_MODES,
        default="",
        metavar="WORD",
        help=f"what the voice is compared with: {', '.join(VOICE_MODES)}",
    )
    parser.add_argument("--again", action="store_true", help="although it was asked before")
    with_key(parser)


def run_calibrate(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.calibrate(
        options.rating,
        notes=spoken(options.notes, screen),
        reference=options.reference,
        again=options.again,
        key=options.key,
    )
    _tell(session, done, screen)


def score(text: str) -> float | None:
    """A voice score, or None for a check that was skipped."""
    if text == _SKIP:
        return None
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 5") from None


def _voice_arguments(parser: Parser) -> None:
    parser.add_argument("score", type=score, metavar="SCORE", help=f"1 to 5, or {_SKIP}")
    _section_option(parser)
    parser.add_argument("--because", default="", metavar="REASON", help="why it was skipped")
    with_key(parser)


def run_voice(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.voice(
        options.score, section=options.section, because=options.because, key=options.key
    )
    _tell(session, done, screen)


def _output_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the final essay")
    parser.add_argument("--words", type=count, metavar="N", help="else they are counted")
    parser.add_argument("--sources", type=count, metavar="N", help="else those of the claims")
    parser.add_argument("--voice", type=score, metavar="SCORE", help="else the sections' mean")
    with_key(parser)


def run_output(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    done = session.essay.output(
        options.file,
        words=options.words,
        sources=options.sources,
        voice=options.voice,
        key=options.key,
    )
    _tell(session, done, screen)


def _pushback_arguments(parser: Parser) -> None:
    parser.add_argument("level", choices=PUSHBACK, metavar="LEVEL", help=", ".join(PUSHBACK))
    with_key(parser)


def run_pushback(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    _tell(session, session.essay.pushback(options.level, key=options.key), screen)


def run_show(options: Namespace, stay: Forestay, screen: Screen) -> None:
    path, text = stay.current().essay.show()
    screen.answer({"path": path, "text": text, "words": len(text.split())})
    screen.long()
    screen.line((shown_path(path), "dim"))
    screen.block(text)


COMMANDS = {
    "essay approve": Command(
        _approve_arguments,
        run_approve,
        "forestay essay approve G1",
        "forestay essay approve G3 --section 2",
        "forestay essay approve G5 --confirm",
    ),
    "essay section list": Command(nothing, run_sections, "forestay essay section"),
    "essay section add": Command(
        _add_arguments, run_add, 'forestay essay section add 4 --title "What remains"'
    ),
    "essay section start": Command(
        _start_arguments,
        run_start,
        "forestay essay section start 2",
        "forestay essay section start 1 --stage 4",
    ),
    "essay section done": Command(
        _done_arguments,
        run_done,
        "forestay essay section done 1 --map stage-3-section-1-arguments.md",
    ),
    "essay paragraph done": Command(
        _paragraph_arguments,
        run_paragraph,
        "forestay essay paragraph done 1",
        "forestay essay paragraph done 3 --last",
    ),
    "essay claim list": Command(nothing, run_claims, "forestay essay claim"),
    "essay claim defer": Command(
        _defer_arguments,
        run_defer,
        'forestay essay claim defer "Nine in ten programs got slower" --reason timeout',
    ),
    "essay claim resolve": Command(
        _resolve_arguments,
        run_resolve,
        "forestay essay claim resolve c1 --source https://example.org/study",
    ),
    "essay claim override": Command(
        _override_arguments,
        run_override,
        'forestay essay claim override c1 --result contested --because "I measured it"',
    ),
    "essay calibrate": Command(
        _calibrate_arguments,
        run_calibrate,
        'forestay essay calibrate 4 --notes "shorter sentences" --reference hybrid',
    ),
    "essay voice": Command(
        _voice_arguments,
        run_voice,
        "forestay essay voice 4.5 --section 1",
        "forestay essay voice skip --because timeout",
    ),
    "essay output": Command(_output_arguments, run_output, "forestay essay output final-essay.md"),
    "essay pushback": Command(_pushback_arguments, run_pushback, "forestay essay pushback light"),
    "essay show": Command(nothing, run_show, "forestay essay show"),
}
