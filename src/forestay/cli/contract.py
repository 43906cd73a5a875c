"""The session-state contract: who has acknowledged it, acknowledging it, and whether that holds."""

from __future__ import annotations

from forestay.cli.arguments import Command, Parser
from forestay.cli.suggestions import shown_path
from forestay.cli.terminal import SEVERITIES
from forestay.errors import DAMAGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.base.findings import Finding
    from forestay.cli.terminal import Screen
    from forestay.formats.ai_session.contract import Verdict
    from forestay.mirror.contract_file import Contract


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "--spec", default="", metavar="FILE", help="the project's own specification; else ours"
    )
    parser.add_argument(
        "--root", default="", metavar="DIR", help="where the file is; else .ai-session here"
    )


def _show_arguments(parser: Parser) -> None:
    _arguments(parser)
    parser.add_argument("--text", action="store_true", help="the contract itself")


def _verify_arguments(parser: Parser) -> None:
    _arguments(parser)
    parser.add_argument(
        "--agent", default="", metavar="NAME", help="this one; that only others did is a warning"
    )


def _ack_arguments(parser: Parser) -> None:
    _arguments(parser)
    parser.add_argument("--agent", required=True, metavar="NAME", help="who acknowledges")


def run_show(options: Namespace, stay: Forestay, screen: Screen) -> None:
    contract = stay.files.contract.show(options.root, options.spec)
    verdicts = contract.verify_all()
    agents = [
        {
            "agent": each.agent,
            "date": each.date,
            "version": each.version,
            "checksum": each.checksum,
            "current": verdicts[each.agent].ok,
        }
        for each in contract.acknowledgments()
    ]
    text = contract.specification.decode("utf-8", "replace")
    screen.answer({**_values(contract), "agents": agents, "text": text})
    if options.text:
        screen.block(text)
    else:
        for line in contract.summary().splitlines():
            screen.line(line)


def _values(contract: Contract) -> dict[str, Any]:
    return {
        "path": contract.path,
        "version": contract.version,
        "checksum": contract.checksum,
    }


def run_ack(options: Namespace, stay: Forestay, screen: Screen) -> None:
    path = stay.files.contract.ack(options.agent, options.root, options.spec)
    contract = stay.files.contract.show(options.root, options.spec)
    screen.answer({**_values(contract), "agent": options.agent.strip()})
    what = f"contract {contract.version}, sha256 {contract.checksum}"
    screen.done(("Acknowledged ", "green"), what, " in ", shown_path(path))


def run_verify(options: Namespace, stay: Forestay, screen: Screen) -> int:
    contract = stay.files.contract.show(options.root, options.spec)
    verdicts = stay.files.contract.verify(options.agent, options.root, options.spec)
    ok = all(verdict.ok for verdict in verdicts.values())
    told = [_verdict_values(name, verdict) for name, verdict in verdicts.items()]
    screen.answer({"ok": ok, **_values(contract), "agents": told})
    for name, verdict in verdicts.items():
        _tell(name, verdict, screen)
    for name in [name for name, verdict in verdicts.items() if verdict.findings][:1]:
        screen.hint("acknowledge it: ", _ack_command(options, name))
    return 0 if ok else DAMAGED


def _ack_command(options: Namespace, agent: str) -> str:
    """What acknowledges the very contract that was looked at."""
    import shlex

    words = ["forestay", "files", "contract", "ack", "--agent", agent or "NAME"]
    given = (("--spec", options.spec), ("--root", options.root))
    return shlex.join([*words, *(word for pair in given if pair[1] for word in pair)])


def _verdict_values(name: str, verdict: Verdict) -> dict[str, Any]:
    findings = [_finding_values(finding) for finding in verdict.findings]
    return {"agent": name or None, "ok": verdict.ok, "findings": findings}


def _finding_values(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "requirement": finding.requirement,
        "message": finding.what,
    }


def _tell(name: str, verdict: Verdict, screen: Screen) -> None:
    good = ("doubtful ", "yellow") if verdict.findings else ("current  ", "green")
    screen.line(good if verdict.ok else ("failed   ", "red"), name or "nobody")
    for finding in verdict.findings:
        severity = (f"{finding.severity:<8}", SEVERITIES[finding.severity])
        screen.line("  ", severity, finding.what, (f"  [{finding.requirement}]", "dim"))


COMMANDS = {
    "files contract show": Command(
        _show_arguments, run_show, "forestay files contract", "forestay files contract show --text"
    ),
    "files contract ack": Command(
        _ack_arguments,
        run_ack,
        "forestay files contract ack --agent claude",
        "forestay files contract ack --agent claude --spec docs/contract.md",
    ),
    "files contract verify": Command(
        _verify_arguments,
        run_verify,
        "forestay files contract verify --agent claude",
        "forestay files contract verify --spec docs/contract.md",
    ),
}
