"""The commands install and uninstall: hooks and tools in the settings of an agent."""

from __future__ import annotations

from forestay.cli.arguments import Command, arg, flag
from forestay.cli.terminal import pick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.agents.install import Change, Plan
    from forestay.cli.types import Forestay, Namespace, Part, Screen


def run_install(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if not options.agent:
        _print_agents(stay, screen)
        return
    plan = stay.agents.install(
        options.agent, options.scope, tools=not options.no_tools, dry_run=options.dry_run
    )
    _print_plan(plan, "installed in", options, screen)
    if options.dry_run:
        return
    for line in plan.says:
        screen.line(("  note    ", "yellow"), line)
    if plan.events:
        screen.line("Its next session is recorded and starts with a briefing.")
    scope = " --scope project" if plan.scope == "project" else ""
    screen.hint("→ check it: ", "forestay doctor")
    screen.hint("→ remove it: ", f"forestay uninstall {plan.agent}{scope}")


def run_uninstall(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if not options.agent:
        _print_agents(stay, screen)
        return
    plan = stay.agents.uninstall(options.agent, options.scope, dry_run=options.dry_run)
    if not (options.dry_run or plan.changes or plan.runs):
        screen.line(f"Forestay is not installed in {plan.title}, {_reach(plan)}")
    _print_plan(plan, "removed from", options, screen)
    if not options.dry_run and (plan.changes or plan.runs):
        screen.line("What was recorded is not deleted.")


def _print_agents(stay: Forestay, screen: Screen) -> None:
    """List the agents, and where Forestay is installed."""
    from forestay.agents.registry import AGENTS

    there = {(plan.agent, plan.scope) for plan in stay.agents.installed()}
    values = []
    rows: list[list[Part]] = []
    for name, agent in AGENTS.items():
        user, project = (name, "user") in there, (name, "project") in there
        values.append({"agent": name, "title": agent.title, "user": user, "project": project})
        places = ("for all projects" if user else "", "for this project" if project else "")
        rows.append([(name, "cyan"), agent.title, *((place, "green") for place in places)])
    screen.answer(agents=values)
    screen.table(rows)
    if not there:
        screen.hint("→ ", "forestay install claude-code")


def _reach(plan: Plan) -> str:
    return "for all your projects" if plan.scope == "user" else "for this project"


def _print_plan(plan: Plan, done: str, options: Namespace, screen: Screen) -> None:
    """Print what was changed; with --dry-run, what would be changed."""
    files = [change.path for change in plan.changes]
    values = pick(plan, "agent scope runs events notes=says")
    screen.answer(values, dry_run=options.dry_run, files=files)
    if options.dry_run:
        for change in plan.changes:
            screen.block(_difference(change))
        for command in plan.runs:
            screen.line(("would run  ", "cyan"), " ".join(command))
        for line in plan.says:
            screen.line(("note  ", "yellow"), line)
        if not plan.changes and not plan.runs:
            screen.line("nothing would change")
    elif plan.changes or plan.runs or done == "installed in":
        screen.line((done, "green"), f" {plan.title}, {_reach(plan)}")
        for change in plan.changes:
            word = "created" if change.before is None else "changed"
            word = "removed" if change.after is None else word
            screen.line((f"  {word:<8}", "dim"), change.path)
        for command in plan.runs:
            screen.line(("  ran     ", "dim"), " ".join(command))


def _difference(change: Change) -> str:
    from difflib import unified_diff

    def lines(data: bytes | None) -> list[str]:
        return (data or b"").decode("utf-8", "replace").splitlines()

    old, new = change.before, change.after
    names = ["/dev/null" if data is None else change.path for data in (old, new)]
    return "\n".join(unified_diff(lines(old), lines(new), names[0], names[1], lineterm=""))


_AGENT = arg("agent?", "AGENT", "claude-code, codex, gemini, opencode, qwen, cursor or agents-md")
_SCOPE = arg(
    "--scope",
    "",
    "for all your projects (user), or for this one",
    choices=("user", "project"),
    default="user",
)
_DRY_RUN = flag("--dry-run", "only show what would change")

COMMANDS = {
    "install": Command(
        run_install,
        _AGENT,
        _SCOPE,
        _DRY_RUN,
        flag("--no-tools", "hooks only, no MCP server"),
        "forestay install claude-code",
        "forestay install codex --dry-run",
        "forestay install gemini --scope project",
    ),
    "uninstall": Command(run_uninstall, _AGENT, _SCOPE, _DRY_RUN, "forestay uninstall claude-code"),
}
