"""Commands that belong to one file format: ai-session, its contract, aiterm, orchestrator."""

from __future__ import annotations

import os
import shlex

from forestay.base.text import plural, shorten
from forestay.base.vocabulary import MODES
from forestay.cli.arguments import KEY, Command, arg, count, fixed, flag, read_text
from forestay.cli.brief import RESUME_ARGUMENTS, run_resume
from forestay.cli.common import confirm, current_session
from forestay.cli.files import answer_unusable
from forestay.cli.suggestions import quoted_path, short_path, shorten_paths
from forestay.cli.terminal import SEVERITIES, pick
from forestay.errors import DAMAGED, REFUSED, InvalidInput, NoSession, Refused
from forestay.mirror.recover import Unusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.types import Forestay, Namespace, Screen, Session

_CONTRACT_FIELDS = "path version checksum"


# -- ai-session --------------------------------------------------------------------------------


def run_update(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = _find_feature(options.feature, stay) if options.feature else current_session(stay)
    event = session.files.update(task=options.task, model=options.model, status=options.status)
    confirm(session, event, screen, ("updated ", "green"), session.id)


def _find_feature(feature: str, stay: Forestay) -> Session:
    for binding in stay.context.store.machine.bindings.bindings():
        if binding.format == "ai-session" and binding.native == feature:
            return stay.session(binding.session)
    what = f"no session of this project has ai-session files with the id {feature}"
    raise NoSession(what, hint="adopt it first: forestay adopt", session=feature)


def run_report(options: Namespace, stay: Forestay, screen: Screen) -> None:
    reports = stay.files.report(options.feature, options.root)
    screen.answer(reports=reports)
    for number, report in enumerate(reports):
        screen.block(("\n" if number else "") + str(report))
    if not reports:
        screen.line("no ai-session files are in this folder")


def run_cleanup(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.mirror.ai_session_cleanup import Wanted

    if options.days is not None and not options.stale:
        raise InvalidInput("--days needs --stale", hint="add --stale, or omit --days")
    wanted = Wanted(
        completed=options.completed or not (options.stale or options.empty or options.pattern),
        stale=options.stale,
        days=7 if options.days is None else options.days,
        empty=options.empty,
        pattern=options.pattern or "*",
        keep_artifacts=options.preserve_artifacts,
    )
    done = stay.files.cleanup(options.path, wanted, dry_run=True)
    going = [one for one in done if not one.kept]
    if going and not options.dry_run:
        if not options.yes:
            many = plural(len(going), "session")
            names = ", ".join(one.feature for one in going[:5])
            hint = "to do it, add --yes; to see what would be done, --dry-run"
            refusal = Refused(f"{many} would be archived", why=names, hint=hint)
            lines = [f"  {one.feature}  {one.because}" for one in going]
            screen.require_yes(f"to archive {many}", refusal, *([line] for line in lines))
        done = stay.files.cleanup(options.path, wanted, dry_run=False)
    names = "feature_id=feature path status because archived? kept?"
    screen.answer(dry_run=options.dry_run, sessions=[pick(one, names) for one in done])
    for one in done:
        if one.kept:
            screen.line(("Kept: ", "yellow"), one.feature, f" ({shorten_paths(one.kept)})")
        elif options.dry_run:
            why = f"  {one.because}; it would be moved to .ai-session-archive"
            screen.line(f"Would remove: {one.feature}", (why, "dim"))
        else:
            where = f"  {short_path(one.archived)}"
            screen.line(("Archived: ", "green"), one.feature, (where, "dim"))
    if not done:
        screen.line("nothing to clean up")
    refused = done and not options.dry_run and all(one.kept for one in done)
    return REFUSED if refused else 0


# -- aiterm ------------------------------------------------------------------------------------


def run_live(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.files.live(options.folder, prune=options.prune)
    live = [{**pick(one, *one.__struct_fields__), **pick(one, "pruned? problem?")} for one in found]
    screen.answer(live=live)
    for one in found:
        word = "pruned" if one.pruned else "alive" if one.alive else "dead"
        word = "unread" if one.problem else word
        color = {"alive": "green", "unread": "red"}.get(word, "yellow")
        screen.line((f"{word:<8}", color), one.session_id, "  ", one.problem or one.path)
        if one.task:
            screen.line("        ", (one.task, "dim"))
        if one.conflicts:
            others = f"conflict: {', '.join(one.conflicts)} works on the same path"
            screen.line("        ", (others, "red"))
    if not found:
        screen.line("no one is working, according to aiterm's files")


# -- contract ----------------------------------------------------------------------------------


def run_contract_show(options: Namespace, stay: Forestay, screen: Screen) -> None:
    contract = stay.files.contract.show(options.root, options.spec)
    verdicts = contract.verify_all()
    agents = [
        {**pick(each, "agent date version checksum"), "current": verdicts[each.agent].ok}
        for each in contract.acknowledgments()
    ]
    text = contract.specification.decode("utf-8", "replace")
    screen.answer(pick(contract, _CONTRACT_FIELDS), agents=agents, text=text)
    screen.block(text if options.text else contract.summary())


def run_ack(options: Namespace, stay: Forestay, screen: Screen) -> None:
    path = stay.files.contract.ack(options.agent, options.root, options.spec)
    contract = stay.files.contract.show(options.root, options.spec)
    screen.answer(pick(contract, _CONTRACT_FIELDS), agent=options.agent.strip())
    what = f"contract {contract.version}, sha256 {contract.checksum}"
    screen.done(("Acknowledged ", "green"), what, " in ", short_path(path))


def run_verify(options: Namespace, stay: Forestay, screen: Screen) -> int:
    contract = stay.files.contract.show(options.root, options.spec)
    verdicts = stay.files.contract.verify(options.agent, options.root, options.spec)
    ok = all(verdict.ok for verdict in verdicts.values())
    names = "code severity requirement message=what"
    agents = []
    for name, verdict in verdicts.items():
        findings = [pick(finding, names) for finding in verdict.findings]
        agents.append({"agent": name or None, "ok": verdict.ok, "findings": findings})
    screen.answer(pick(contract, _CONTRACT_FIELDS), ok=ok, agents=agents)
    for name, verdict in verdicts.items():
        good = ("doubtful ", "yellow") if verdict.findings else ("current  ", "green")
        screen.line(good if verdict.ok else ("failed   ", "red"), name or "no agent")
        for finding in verdict.findings:
            severity = (f"{finding.severity:<8}", SEVERITIES[finding.severity])
            screen.line("  ", severity, finding.what, (f"  [{finding.requirement}]", "dim"))
    for name in [name for name, verdict in verdicts.items() if verdict.findings][:1]:
        words = ["forestay", "files", "contract", "ack", "--agent", name or "NAME"]
        given = (("--spec", options.spec), ("--root", options.root))
        words += [word for pair in given if pair[1] for word in pair]
        screen.hint("acknowledge it: ", shlex.join(words))
    return 0 if ok else DAMAGED


# -- orchestrator ------------------------------------------------------------------------------


def run_continue(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.mirror import orchestrator_session

    if orchestrator_session.load(stay.context).kind == orchestrator_session.NONE:
        screen.answer(kind="none", message=orchestrator_session.NOTHING)
        screen.line(orchestrator_session.NOTHING)
        screen.hint("start one: ", 'forestay files orchestrator new "GOAL"')
        return NoSession.exit_code
    try:
        options.chosen = stay.files.orchestrator.current().id
    except Unusable as error:
        return answer_unusable(error, screen)
    return run_resume(options, stay, screen)


def run_history(options: Namespace, stay: Forestay, screen: Screen) -> int:
    found = stay.files.orchestrator.history(options.which, limit=options.limit)
    rows = [one.as_json() for one in found]
    if options.which:
        return _print_archived(rows[0], stay, screen)
    screen.answer(history=rows)
    damaged = [row for row in rows if not (row["status"] or row["goal"])]
    cells = []
    for number, row in enumerate(rows, 1):
        status = "damaged" if row in damaged else row["status"]
        cells.append((str(number), row["id"], status, row["goal"]))
    screen.table(cells, right="0")
    if not rows:
        screen.line(
            "no orchestrator session is archived in this project"
            if options.limit
            else "--limit 0 shows none"
        )
    # The table would cut these lines at the edge of the terminal.
    for row in damaged:
        screen.suggest(f"to recover {row['id']}: ", f"forestay doctor {quoted_path(row['path'])}")
    screen.hint("one of them: ", "forestay files orchestrator history 1" if rows else "")
    return 0


def _print_archived(row: dict[str, str], stay: Forestay, screen: Screen) -> int:
    """Print one archived session from its file."""
    (report,) = stay.files.check(row["path"])
    screen.answer(row, pick(report.reading, "complete progress"))
    known = [(key, row[key]) for key in ("id", "goal", "status", "created")]
    screen.fields([*known, ("file", short_path(row["path"]))])
    if report.is_torn:
        screen.line(("damaged   ", "red"), report.findings[0].what)
        screen.suggest("→ to recover it: ", f"forestay doctor {quoted_path(row['path'])}")
        return DAMAGED
    if owner := stay.context.store.machine.bindings.owner(os.path.realpath(row["path"])):
        screen.hint("it is one of your sessions: ", f"forestay brief {owner.session}")
    else:
        screen.hint("make it one of your sessions: ", f"forestay adopt {quoted_path(row['path'])}")
    return 0


def run_new(options: Namespace, stay: Forestay, screen: Screen) -> int:
    goal = read_text(options.goal, screen)
    try:
        session, archived = stay.files.orchestrator.new(goal, mode=options.mode)
    except Unusable as error:
        return answer_unusable(error, screen)
    screen.answer(session.status, archive=archived or None)
    screen.done(("Started session ", "green"), session.id, " – ", shorten(goal, 44))
    return 0


def run_abort(options: Namespace, stay: Forestay, screen: Screen) -> int:
    try:
        event = stay.files.orchestrator.abort(because=options.because, key=options.key)
    except Unusable as error:
        return answer_unusable(error, screen)
    session = stay.session(event.head.session)
    left = any(b.suspended for b in session.files.list() if b.format == "orchestrator")
    how = "aborted" if left else "aborted and archived"
    confirm(session, event, screen, f"{how}; its state is preserved")
    return 0


def run_save(options: Namespace, stay: Forestay, screen: Screen) -> int:
    bindings = stay.files.orchestrator.save()
    left = [b.suspended for b in bindings if b.suspended]
    session = bindings[0].session
    screen.answer(session=session, files=[b.place for b in bindings], left=left)
    for binding in bindings:
        word = ("not written ", "yellow") if binding.suspended else ("saved ", "green")
        screen.line(word, short_path(binding.place))
    return 1 if left else 0


_CONTRACT = (
    arg("--spec", "FILE", "the project's own specification; default: Forestay's"),
    arg("--root", "DIR", "the folder of the file; default: .ai-session in this folder"),
)

COMMANDS = {
    "files update": Command(
        run_update,
        arg("feature?", "FEATURE", "its id; default: the current session"),
        arg("--task", "ID", "the current task, or none"),
        arg("--model", "NAME", "gemini, opus or sonnet"),
        arg("--status", "WORD", "active, paused or completed"),
        "forestay files update --task=task-2 --model=opus",
        "forestay files update login-2026-01-31 --status=paused",
    ),
    "files report": Command(
        run_report,
        arg("feature?", "FEATURE", "its id; default: all in the folder"),
        arg("--root", "DIR", "the folder of the files; default: .ai-session in this folder"),
        "forestay files report login-2026-01-31",
    ),
    "files live": Command(
        run_live,
        arg("folder?", "DIR", "default: ~/.claude/sessions"),
        flag("--prune", "archive the files of sessions whose process has ended"),
        "forestay files live",
        "forestay files live --prune",
    ),
    "files cleanup": Command(
        run_cleanup,
        arg("path?", "PATH", "a folder; default: .ai-session in this folder"),
        flag("--completed", "completed sessions; the default"),
        flag("--stale", "sessions that were not changed for some days"),
        arg("--days", "N", "with --stale: how many days (default: 7)", type=count),
        flag("--empty", "sessions in which nothing happened"),
        arg("--pattern", "P", "only ids that match, such as *-2025-*; alone: in any state"),
        flag("--archive", "move them to .ai-session-archive (always done)"),
        flag("--preserve-artifacts", "do not move their artifacts"),
        flag("--dry-run", "only show what would be done"),
        flag("--yes", "do not ask"),
        "forestay files cleanup --completed --dry-run",
        "forestay files cleanup --stale --days 30 --yes",
    ),
    "files contract show": Command(
        run_contract_show,
        *_CONTRACT,
        flag("--text", "print the contract itself"),
        "forestay files contract",
        "forestay files contract show --text",
    ),
    "files contract ack": Command(
        run_ack,
        *_CONTRACT,
        arg("--agent", "NAME", "who acknowledges", required=True),
        "forestay files contract ack --agent claude",
        "forestay files contract ack --agent claude --spec docs/contract.md",
    ),
    "files contract verify": Command(
        run_verify,
        *_CONTRACT,
        arg("--agent", "NAME", "check this agent; warn if only others acknowledged it"),
        "forestay files contract verify --agent claude",
        "forestay files contract verify --spec docs/contract.md",
    ),
    "files orchestrator continue": Command(
        run_continue,
        *RESUME_ARGUMENTS,
        fixed(style="orchestrator"),
        "forestay files orchestrator continue",
    ),
    "files orchestrator history": Command(
        run_history,
        arg("which?", "N", "its number in the list, or its id"),
        arg("--limit", "M", "how many (default: 10)", type=count, default=10),
        "forestay files orchestrator history",
        "forestay files orchestrator history 2",
    ),
    "files orchestrator new": Command(
        run_new,
        arg("goal", "GOAL", "what is to be achieved; - reads it from stdin"),
        arg("--mode", "MODE", ", ".join(MODES), choices=MODES, default=MODES[0]),
        'forestay files orchestrator new "Fix the login"',
    ),
    "files orchestrator abort": Command(
        run_abort, arg("--because", "REASON", "why"), KEY, "forestay files orchestrator abort"
    ),
    "files orchestrator save": Command(run_save, "forestay files orchestrator save"),
}
