"""List every command: its group, the module that runs it, and a one-line summary; and find one.

A name of two or three words is an action of a *family* (`task add`, `device key show`). Only the
module of the requested command is loaded.
"""

from __future__ import annotations

from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Everyday": {
        "start": ("session", "start a session and make it the current one of this folder"),
        "resume": ("brief", "resume a session: what happened, what changed, what comes next"),
        "brief": ("brief", "print the briefing for the next agent; changes nothing"),
        "status": ("status", "show where the current session stands"),
        "list": ("status", "list the sessions of this project"),
        "log": ("log", "show what happened, in order"),
        "search": ("log", "search goals, notes, messages, decisions, errors and titles"),
        "show": ("show", "show everything a session holds, now or at an earlier point"),
        "diff": ("show", "show what changed between two points of a session"),
        "note": ("record", "save a note"),
        "decide": ("record", "record a decision, its reason and the rejected options"),
        "task list": ("record", "list the tasks of the session; the same as `forestay task`"),
        "task add": ("record", "add a task"),
        "task start": ("record", "start a task"),
        "task done": ("record", "complete a task"),
        "task block": ("record", "mark a task as blocked"),
        "task unblock": ("record", "make a blocked task available again"),
        "task skip": ("record", "skip a task"),
        "undo": ("record", "undo the last command, or one event"),
        "pause": ("session", "pause the session"),
        "complete": ("session", "complete the session: its goal is reached"),
        "settle": ("settle", "show contradictions between devices and settle them"),
    },
    "Agents": {
        "install": ("install", "make an agent record its sessions and start with a briefing"),
        "uninstall": ("install", "remove Forestay from an agent's settings"),
        "agent list": ("record", "list the agents of the session; the same as `forestay agent`"),
        "agent start": ("record", "record that an agent starts"),
        "agent progress": ("record", "record how far an agent is"),
        "agent done": ("record", "record that an agent finished"),
        "agent fail": ("record", "record that an agent failed"),
        "agent retry": ("record", "record that a failed agent runs again"),
        "agent timeout": ("record", "record that an agent timed out"),
        "adopt": ("adopt", "turn session files of other programs into sessions"),
        "mcp": ("mcp", "serve agents over the Model Context Protocol"),
    },
    "Plans": {
        "workflow list": ("workflow", "list the workflows of this project, and the built-in ones"),
        "workflow show": ("workflow", "show what a workflow requires, phase by phase"),
        "workflow check": ("workflow", "check a workflow definition, line by line"),
        "workflow new": ("workflow", "write a workflow definition to edit"),
        "phase list": ("phase", "list the phases of the plan; the same as `forestay phase`"),
        "phase gate": ("phase", "show what a gate requires and whether it would pass"),
        "phase done": ("phase", "submit the current phase; its gate judges the evidence"),
        "phase fail": ("phase", "record a failed attempt at the current phase"),
        "phase retry": ("phase", "start another attempt at the current phase"),
        "phase rollback": ("phase", "go back to a phase and repeat everything after it"),
        "phase total": ("phase", "set how many phases there are, once that is known"),
        "prove": ("prove", "run a command as a proof that holds until its inputs change"),
        "revisit": ("revisit", "preview going back to a step; with --apply, go back"),
        "essay list": ("essay_commands", "list the essays that have their own folder"),
        "essay show": ("essay_commands", "print the essay so far"),
        "essay resume": ("essay_commands", "resume an essay"),
        "essay approve": ("essay_commands", "approve what waits at a gate, for the user"),
        "essay section list": ("essay_commands", "list the sections; the same as `essay section`"),
        "essay section add": ("essay_commands", "add a section"),
        "essay section start": ("essay_commands", "start work on a section"),
        "essay section done": ("essay_commands", "record the argument map of a section"),
        "essay paragraph done": ("essay_commands", "approve a paragraph, for the user"),
        "essay claim list": ("essay_commands", "list the claims; the same as `essay claim`"),
        "essay claim defer": ("essay_commands", "record that a claim cannot be checked now"),
        "essay claim resolve": ("essay_commands", "record the check of a deferred claim"),
        "essay claim override": ("essay_commands", "accept a claim despite its check"),
        "essay calibrate": ("essay_commands", "rate how much the text sounds like the user"),
        "essay voice": ("essay_commands", "record the voice check of a section"),
        "essay output": ("essay_commands", "record the file of the final essay"),
        "essay pushback": ("essay_commands", "set how hard to question the author"),
    },
    "Files": {
        "files list": ("files", "list the bound files of the session; same as `forestay files`"),
        "files bind": ("files", "write the session's files in a format, and update them"),
        "files unbind": ("files", "stop writing the files of a format"),
        "files restore": ("files", "rewrite damaged or missing files from the journal"),
        "files check": ("files", "check session files against their specification"),
        "files convert": ("files", "write a copy of a session file in another format"),
        "files update": ("format_commands", "set task, model or status, as ai-session programs do"),
        "files report": ("format_commands", "summarize ai-session files in figures"),
        "files live": ("format_commands", "show who is working now, according to aiterm's files"),
        "files cleanup": ("format_commands", "archive ai-session files that are finished"),
        "files contract show": ("format_commands", "show who has acknowledged the contract"),
        "files contract ack": ("format_commands", "acknowledge the contract as an agent"),
        "files contract verify": ("format_commands", "check that the contract is acknowledged"),
        "files orchestrator continue": ("format_commands", "resume the orchestrator session"),
        "files orchestrator history": ("format_commands", "list archived orchestrator sessions"),
        "files orchestrator new": ("format_commands", "start a session, archive the current one"),
        "files orchestrator abort": (
            "format_commands",
            "abort the session; its state is preserved",
        ),
        "files orchestrator save": ("format_commands", "write the session's files now"),
    },
    "Devices": {
        "sync": ("remote", "exchange sessions with other devices; --push or --pull: one way"),
        "remote list": ("remote", "list the remotes; the same as `forestay remote`"),
        "remote add": ("remote", "add a folder or a bucket for exchanging sessions"),
        "remote remove": ("remote", "remove a remote; nothing is deleted there"),
        "remote check": ("remote", "test a remote and list foreign objects there"),
        "device list": ("devices", "list the devices that can read your sessions"),
        "device add": ("devices", "ask to add this device, then confirm it"),
        "device approve": ("devices", "approve a device by its code"),
        "device revoke": ("devices", "revoke a device; it cannot read anything new"),
        "device rename": ("devices", "rename a device"),
        "device key init": ("devices", "create the key of this device and a recovery code"),
        "device key show": ("devices", "show the key of this device, never its secret"),
        "device key export": ("devices", "write the key to a file, protected by a passphrase"),
        "device key import": ("devices", "import an exported key"),
        "device key recover": ("devices", "recover your sessions with the code and a remote"),
        "device key rotate": ("devices", "create new keys; the old ones still open older data"),
        "share list": ("devices", "list the people a session is shared with"),
        "share add": ("devices", "allow a person to read or continue a session"),
        "share remove": ("devices", "stop sharing a session with a person"),
    },
    "Record": {
        "record command": ("record", "record a command and its result"),
        "record file": ("record", "record a file change"),
        "record artifact": ("record", "save a file's content with the session"),
        "record tokens": ("record", "record how many tokens the context holds"),
        "record compaction": ("record", "record that the context was compacted"),
        "record error": ("record", "record an error"),
        "record model": ("record", "record the model that works on the session"),
        "record attribute": ("record", "set an attribute of your own"),
        "record rename": ("record", "change the goal of the session"),
    },
    "Lifecycle": {
        "session use": ("session", "make a session the current one of this folder"),
        "session fail": ("session", "mark the session as failed; it can be resumed"),
        "session abort": ("session", "abort the session permanently"),
        "session abandon": ("session", "abandon the session; it can be reopened"),
        "session reopen": ("session", "reopen a completed or abandoned session"),
        "session archive": ("session", "hide a finished session from the list"),
        "session unarchive": ("session", "return an archived session to the list"),
        "session forget": ("forget", "erase a session, or some of its events, permanently"),
    },
    "Care": {
        "doctor": ("health", "find problems and show how to fix them"),
        "verify": ("health", "check that all stored data is unchanged"),
        "backup create": ("health", "write everything to one file"),
        "backup restore": ("health", "merge a backup into this home"),
        "backup export": ("health", "write one session with its artifacts to a file"),
        "backup import": ("health", "import sessions from a file"),
        "backup move": ("health", "copy everything to another store and continue there"),
        "config": ("settings", "show all settings, show one, or set one"),
        "config completion": ("settings", "print the completion script of a shell"),
        "init": ("settings", "mark this folder, so that the project is recognized anywhere"),
        "help": ("settings", "show help for a command; --all: for all of them"),
    },
    "For installed hooks": {
        "hook": ("hook", "print the briefing for an agent; run by its hook"),
        "ingest": ("hook", "record the events that hooks have spooled"),
    },
}

COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
WITHOUT_MODEL = frozenset(("settings", "status", "mcp"))
"""Modules that read only the catalogue and the settings, or load everything anyway."""

DEFAULT_ACTIONS = {
    "config": "",
    "files contract": "show",
    "device key": "show",
    "essay paragraph": "done",
}
"""The action of a family when none is typed, if it is not `list`."""

FAMILIES = tuple(
    dict.fromkeys(
        " ".join(words[:count])
        for words in map(str.split, COMMANDS)
        for count in range(1, len(words))
    )
)


def actions_of(family: str) -> list[str]:
    """Return the next words that can follow a family's name."""
    lead = f"{family} "
    return list(
        dict.fromkeys(n.removeprefix(lead).split()[0] for n in COMMANDS if n.startswith(lead))
    )


# Options of every command, before or after it.
WITH_VALUE = {
    "--home": ("DIR", "the folder of all data (FORESTAY_HOME)"),
    "--store": ("URL", "the database, if not the one in the home (FORESTAY_STORE)"),
    "--session": ("SESSION", "the session to use (FORESTAY_SESSION)"),
}
FLAGS = {
    "--json": "answer with one JSON object",
    "--quiet": "print no confirmation",
    "--no-color": "no color (NO_COLOR)",
    "--help": "show this help",
}
SHORT = {"--quiet": "-q", "--help": "-h"}


# -- find a command ----------------------------------------------------------------------------


def split(argv: list[str]) -> tuple[str, list[str]]:
    """Return the name of the command (up to three words, "" for none) and everything else."""
    words: list[str] = []
    rest: list[str] = []
    left = iter(argv)
    for word in left:
        if word == "--":
            return " ".join(words), [*rest, word, *left]
        if word.startswith("-") and word != "-":
            rest.append(word)
            if word in WITH_VALUE:
                rest += [value for _, value in zip(range(1), left, strict=False)]
            continue
        name = " ".join([*words, word])
        if words and " ".join(words) in COMMANDS and name not in COMMANDS:
            return " ".join(words), [*rest, word, *left]  # `config brief_budget 2000`
        words.append(word)
        if name not in FAMILIES:
            break
    return " ".join(words), [*rest, *left]


def locate(name: str) -> tuple[str, Any]:
    """Return what a command does in one line, and the command; loads only the module it is in."""
    if name not in COMMANDS and name:
        raise _unknown(name)
    module, help = (
        COMMANDS[name] if name else ("status", "show the current session and what to type next")
    )
    found = __import__(f"forestay.cli.{module}", fromlist=["COMMANDS"])
    command = found.COMMANDS[name]
    command.name = name
    return help, command


def _unknown(name: str) -> InvalidInput:
    from forestay.cli.suggestions import suggest_commands  # start-up

    name = name[:100]
    near = [f"forestay {one}" for one in suggest_commands(name, (*COMMANDS, *FAMILIES))]
    hint = f"did you mean: {' or '.join(near)}?" if near else help_hint(name.rpartition(" ")[0])
    return InvalidInput(f"there is no command '{name}'", hint=hint)


def help_hint(family: str) -> str:
    """Return the line to type for help on a family of commands, or on all of them."""
    return f"see: forestay {family} --help" if family else "see all commands: forestay --help"
