"""The commands install and uninstall: hooks and tools in the settings of an agent."""

from __future__ import annotations

from forestay.cli.arguments import Command, arg, flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.agents.install import Change, Plan
    from forestay.cli.types import Any, Forestay, Namespace, Screen


def run_install(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if not options.agent:
        _print_agents(stay, screen)
        return
    plan = stay.agents.install(
        options.agent, options.scope, tools=not options.no_tools, dry_run=options.dry_run
    )
    screen.answer(_values(plan, options.dry_run))
    if options.dry_run:
        _show(plan, screen)
        return
    screen.line(("installed ", "green"), f"in {plan.title}, {_reach(plan)}")
    _print_places(plan, screen)
    for line in plan.says:
        screen.line(("  note    ", "yellow"), line)
    if plan.events:
        screen.line("Its next session is recorded and starts with a briefing.")
    screen.hint("→ check it: ", "forestay doctor")
    screen.hint("→ remove it: ", f"forestay uninstall {_words(plan)}")


def run_uninstall(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if not options.agent:
        _print_agents(stay, screen)
        return
    plan = stay.agents.uninstall(options.agent, options.scope, dry_run=options.dry_run)
    screen.answer(_values(plan, options.dry_run))
    if options.dry_run:
        _show(plan, screen)
    elif plan.changes or plan.runs:
        screen.line(("removed ", "green"), f"from {plan.title}, {_reach(plan)}")
        _print_places(plan, screen)
        screen.line("What was recorded is not deleted.")
    else:
        screen.line(f"Forestay is not installed in {plan.title}, {_reach(plan)}")


def _print_agents(stay: Forestay, screen: Screen) -> None:
    """List the agents, and where Forestay is installed."""
    from forestay.agents.registry import AGENTS

    there = {(plan.agent, plan.scope) for plan in stay.agents.installed()}
    rows = [
        {
            "agent": name,
            "title": agent.title,
            "user": (name, "user") in there,
            "project": (name, "project") in there,
        }
        for name, agent in AGENTS.items()
    ]
    screen.answer({"agents": rows})
    screen.table(
        [
            (
                (str(row["agent"]), "cyan"),
                str(row["title"]),
                ("for all projects", "green") if row["user"] else ("", ""),
                ("for this project", "green") if row["project"] else ("", ""),
            )
            for row in rows
        ]
    )
    if not there:
        screen.hint("→ ", "forestay install claude-code")


def _values(plan: Plan, dry_run: bool) -> dict[str, Any]:
    return {
        "agent": plan.agent,
        "scope": plan.scope,
        "dry_run": dry_run,
        "files": [change.path for change in plan.changes],
        "runs": plan.runs,
        "events": plan.events,
        "notes": plan.says,
    }


def _reach(plan: Plan) -> str:
    return "for all your projects" if plan.scope == "user" else "for this project"


def _words(plan: Plan) -> str:
    return f"{plan.agent} --scope project" if plan.scope == "project" else plan.agent


def _print_places(plan: Plan, screen: Screen) -> None:
    for change in plan.changes:
        word = (
            "removed" if change.after is None else "created" if change.before is None else "changed"
        )
        screen.line((f"  {word:<8}", "dim"), change.path)
    for command in plan.runs:
        screen.line(("  ran     ", "dim"), " ".join(command))


def _show(plan: Plan, screen: Screen) -> None:
    for change in plan.changes:
        screen.block(_difference(change))
    for command in plan.runs:
        screen.line(("would run  ", "cyan"), " ".join(command))
    for line in plan.says:
        screen.line(("note  ", "yellow"), line)
    if not plan.changes and not plan.runs:
        screen.line("nothing would change")


def _difference(change: Change) -> str:
    from difflib import unified_diff

    def lines(data: bytes | None) -> list[str]:
        return (data or b"").decode("utf-8", "replace").splitlines()

    old, new = change.before, change.after
    names = ["/dev/null" if data is None else change.path for data in (old, new)]
    return "\n".join(unified_diff(lines(old), lines(new), names[0], names[1], lineterm=""))


COMMANDS = {
    "install": Command(
        run_install,
        arg("agent?", "AGENT", "claude-code, codex, gemini, opencode, qwen, cursor or agents-md"),
        arg(
            "--scope",
            "",
            "for all your projects (user), or for this one",
            choices=("user", "project"),
            default="user",
        ),
        flag("--dry-run", "only show what would change"),
        flag("--no-tools", "hooks only, no MCP server"),
        "forestay install claude-code",
        "forestay install codex --dry-run",
        "forestay install gemini --scope project",
    ),
    "uninstall": Command(
        run_uninstall,
        arg("agent?", "AGENT", "claude-code, codex, gemini, opencode, qwen, cursor or agents-md"),
        arg(
            "--scope",
            "",
            "for all your projects (user), or for this one",
            choices=("user", "project"),
            default="user",
        ),
        flag("--dry-run", "only show what would change"),
        "forestay uninstall claude-code",
    ),
}
