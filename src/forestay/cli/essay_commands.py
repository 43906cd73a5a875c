"""Commands for essays: gates, sections, paragraphs, claims, voice, output, and resuming one."""

from __future__ import annotations

import shlex

from forestay.base.text import plural, shorten
from forestay.base.vocabulary import FACT_CHECKS, GATES, SETTLING, VOICE_MODES
from forestay.cli.arguments import Command, arg, flag
from forestay.cli.brief import RESUME_ARGUMENTS, run_resume
from forestay.cli.common import Verb, confirm
from forestay.cli.suggestions import short_path
from forestay.cli.terminal import pick
from forestay.errors import DAMAGED
from forestay.model.timing import brief

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.arguments import Argument
    from forestay.cli.types import Any, Forestay, Namespace, Part, Screen, Session
    from forestay.plans.essay_steps import Done


_WIDTH = 70


# -- verbs -------------------------------------------------------------------------------------


def _report(session: Session, done: Done, screen: Screen) -> None:
    """Print what was recorded, what is still missing, and what comes next."""
    more = pick(done, "said=message missing warnings following=next")
    more |= {name: value for name, value in pick(done, "claim action ask").items() if value}
    summary = done.summary
    if summary is not None:
        more["summary"] = pick(summary, *summary.__struct_fields__)
    confirm(session, done.event, screen, (shorten(done.message, 200), "green"), **more)
    for warning in done.warnings:
        screen.done("  ", ("! ", "yellow"), warning)
    for command in done.missing:
        screen.done("  still missing: ", (f"forestay {command}", "cyan"))
    if done.ask:
        screen.done("  ask the user: ", done.ask)
    if summary is not None:
        target = f" of {summary.target_words:,}" if summary.target_words else ""
        sources = plural(summary.sources, "unique source")
        screen.fields(
            [
                ("words", f"{summary.words:,}{target}" if summary.words is not None else ""),
                ("sections", str(summary.sections)),
                ("claims", f"{summary.claims_verified} verified, {sources}"),
                ("voice", f"{summary.voice:g}/5" if summary.voice is not None else "not checked"),
                ("overrides", str(summary.overrides)),
                ("deferred", f"{summary.resolved} of {summary.deferred} resolved"),
                ("time spent", brief(summary.seconds)),
            ]
        )
    screen.hint("next: ", f"forestay {done.next}" if done.next else "forestay session archive")


# -- lists -------------------------------------------------------------------------------------


def run_sections(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    found = session.essay.sections.list()
    sections = [pick(one, *one.__struct_fields__) for one in found]
    screen.answer(session.status, sections=sections)
    words = {"done": "completed", "pending": "not started", "running": "in progress"}
    rows = []
    for one in found:
        arguments, paragraphs = (
            words.get(word, word.replace("_", " ")) for word in (one.arguments, one.paragraphs)
        )
        total = "?" if one.total is None else str(one.total)
        voice = "" if one.voice is None else f"{one.voice:g}/5"
        written = f"{one.completed} of {total}, {paragraphs}"
        counts = [str(one.verified), str(one.deferred)]
        rows.append([str(one.number), arguments, *counts, written, voice, one.title])
    head = "SECTION ARGUMENTS VERIFIED DEFERRED PARAGRAPHS VOICE TITLE"
    screen.listing(head, rows, "no sections yet; the outline has them: forestay essay approve G2")


def run_claims(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    found = session.essay.claims.list()
    screen.answer(session.status, claims=found)
    rows: list[list[Part]] = []
    for one in found:
        state: Part = f"overridden: {one.result}" if one.result else ("resolved", "green")
        if one.is_open:
            state = (f"deferred: {one.reason}", "yellow")
        rows.append([one.id, state, str(one.section or ""), shorten(one.text, _WIDTH)])
    screen.listing("CLAIM - SECTION TEXT", rows, "no claim was deferred")


def run_show(options: Namespace, stay: Forestay, screen: Screen) -> None:
    path, text = stay.current().essay.show()
    screen.answer(path=path, text=text, words=len(text.split()))
    screen.start_paging()
    screen.line((short_path(path), "dim"))
    screen.block(text)


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    from forestay.plans import essay_sessions

    essays = stay.essays.list()
    text = essay_sessions.list_text(stay.context)
    screen.answer(essays=essays, text=text)
    screen.block(text)
    for one in essays:
        if one.abandoned_days:
            resume = screen.as_typed(f"forestay essay resume {shlex.quote(one.name)}")
            screen.warn((f"{one.name}: no work for ", "yellow"), plural(one.abandoned_days, "day"))
            screen.warn("  to resume it: ", (resume, "cyan"))
            screen.warn("  to clean it up: move its folder away, ", short_path(one.path))
    screen.hint("resume one: ", "forestay essay resume 1" if essays else "")
    if not essays:
        screen.hint("start one: ", 'forestay start "GOAL" --workflow essay --bind essay')


# -- resume ------------------------------------------------------------------------------------


def run_essay_resume(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.cli.files import answer_unusable
    from forestay.mirror.recover import Unusable
    from forestay.plans.essay_sessions import Faulty

    try:
        options.chosen = stay.essays.resume(options.which, anyway=options.anyway).id
    except Unusable as error:
        return answer_unusable(error, screen)
    except Faulty as error:
        # The user must decide what to do about contradictions between the state and the files.
        anyway = f"forestay essay resume {shlex.quote(error.name)} --anyway"
        screen.answer(kind="invalid", faults=error.faults, choices={"continue": anyway})
        for fault in error.faults:
            screen.line(("error    ", "red"), fault)
        screen.line("How do you want to proceed?")
        screen.suggest("continue with the state in the session file → ", anyway)
        screen.line("or correct the files first, and try again")
        return DAMAGED
    return run_resume(options, stay, screen)


def _step(*parts: Argument | str, **more: Any) -> Verb:
    return Verb("", *parts, report=_report, **more)


_SECTION = "N the section; default: the current one"

COMMANDS = {
    "essay approve": _step(
        "forestay essay approve G1",
        "forestay essay approve G3 --section 2",
        "forestay essay approve G5 --confirm",
        gate=f"GATE {', '.join(GATES)}; G3.2 is G3 of section 2",
        section=_SECTION,
        paragraph="N for G4: the paragraph",
        last="for G4: it is the last paragraph of its section",
        confirm="for G5: confirm the overrides",
    ),
    "essay section list": Command(run_sections, "forestay essay section"),
    "essay section add": _step(
        'forestay essay section add 4 --title "What remains"',
        number="N the number of the section",
        title="TITLE its title",
    ),
    "essay section start": _step(
        "forestay essay section start 2",
        "forestay essay section start 1 --stage 4",
        choices={"stage": (3, 4)},
        number="N the number of the section",
        stage="3|4 3: its argument map, 4: its paragraphs; default: the first incomplete one",
    ),
    "essay section done": _step(
        "forestay essay section done 1 --map stage-3-section-1-arguments.md",
        number="N the number of the section",
        map="FILE its argument map; default: stage-3-section-N-arguments.md",
        verified="N verified claims; default: counted in the map",
        deferred="N deferred claims; default: counted in the map",
    ),
    "essay paragraph done": _step(
        "forestay essay paragraph done 1",
        "forestay essay paragraph done 3 --last",
        method="essay paragraph_done",
        number="N the number of the paragraph",
        section=_SECTION,
        last="it is the last one of its section",
    ),
    "essay claim list": Command(run_claims, "forestay essay claim"),
    "essay claim defer": _step(
        'forestay essay claim defer "Nine in ten programs got slower" --reason timeout',
        text="TEXT the claim",
        reason="WORD",
        section=_SECTION,
        paragraph="N the paragraph it is in",
    ),
    "essay claim resolve": _step(
        "forestay essay claim resolve c1 --source https://example.org/study",
        id="ID the claim, such as c1",
        result=f"WORD {', '.join(SETTLING)}",
        sources="SOURCE what it was checked with; can be repeated",
    ),
    "essay claim override": _step(
        'forestay essay claim override c1 --result contested --because "I measured it"',
        id="ID the claim, such as c1",
        result=f"WORD the result of the check: {', '.join(FACT_CHECKS)}",
        because="REASON why it is accepted",
    ),
    "essay calibrate": _step(
        'forestay essay calibrate 4 --notes "shorter sentences" --reference hybrid',
        choices={"reference": VOICE_MODES},
        rating="1-5 5 sounds just like the user",
        notes="TEXT what is off",
        reference=f"WORD what the voice is compared with: {', '.join(VOICE_MODES)}",
        again="rate it again",
    ),
    "essay voice": _step(
        "forestay essay voice 4.5 --section 1",
        "forestay essay voice skip --because timeout",
        score="SCORE 1 to 5, or skip",
        section=_SECTION,
        because="REASON why it was skipped",
    ),
    "essay output": _step(
        "forestay essay output final-essay.md",
        file="FILE the final essay",
        words="N its number of words; default: counted",
        sources="N its number of sources; default: those of the claims",
        voice="SCORE its voice score; default: the mean of the sections",
    ),
    "essay pushback": _step("forestay essay pushback light", level="LEVEL"),
    "essay show": Command(run_show, "forestay essay show"),
    "essay list": Command(run_list, "forestay essay list"),
    "essay resume": Command(
        run_essay_resume,
        arg("which", "N", "its number in `forestay essay list`, or its name"),
        flag("--anyway", "even if its state contradicts its files"),
        *RESUME_ARGUMENTS,
        "forestay essay resume 1",
    ),
}
