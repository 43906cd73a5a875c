"""List every command: its group, the module that runs it, and a one-line summary.

A name of two or three words is an action of a *family* (`task add`, `device key show`). Only the
module of the requested command is loaded.
"""

from __future__ import annotations

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
        "note": ("facts", "save a note"),
        "decide": ("facts", "record a decision, its reason and the rejected options"),
        "task list": ("tasks", "list the tasks of the session; the same as `forestay task`"),
        "task add": ("tasks", "add a task"),
        "task start": ("tasks", "start a task"),
        "task done": ("tasks", "complete a task"),
        "task block": ("tasks", "mark a task as blocked"),
        "task unblock": ("tasks", "make a blocked task available again"),
        "task skip": ("tasks", "skip a task"),
        "undo": ("facts", "undo the last command, or one event"),
        "pause": ("session", "pause the session"),
        "complete": ("session", "complete the session: its goal is reached"),
        "settle": ("settle", "show contradictions between devices and settle them"),
    },
    "Agents": {
        "install": ("install", "make an agent record its sessions and start with a briefing"),
        "uninstall": ("install", "remove Forestay from an agent's settings"),
        "agent list": ("tasks", "list the agents of the session; the same as `forestay agent`"),
        "agent start": ("tasks", "record that an agent starts"),
        "agent progress": ("tasks", "record how far an agent is"),
        "agent done": ("tasks", "record that an agent finished"),
        "agent fail": ("tasks", "record that an agent failed"),
        "agent retry": ("tasks", "record that a failed agent runs again"),
        "agent timeout": ("tasks", "record that an agent timed out"),
        "adopt": ("files", "turn session files of other programs into sessions"),
        "mcp": ("mcp", "serve agents over the Model Context Protocol"),
    },
    "Plans": {
        "workflow list": ("workflow", "list the workflows available here"),
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
        "revisit": ("revisit", "preview going back to a step; with --apply, do it"),
        "essay list": ("documents", "list the essays that have their own folder"),
        "essay show": ("pipeline", "print the essay so far"),
        "essay resume": ("documents", "resume an essay"),
        "essay approve": ("pipeline", "approve what waits at a gate, for the user"),
        "essay section list": ("pipeline", "list the sections; the same as `essay section`"),
        "essay section add": ("pipeline", "add a section"),
        "essay section start": ("pipeline", "start work on a section"),
        "essay section done": ("pipeline", "record the argument map of a section"),
        "essay paragraph done": ("pipeline", "approve a paragraph, for the user"),
        "essay claim list": ("pipeline", "list the claims; the same as `essay claim`"),
        "essay claim defer": ("pipeline", "record that a claim cannot be checked now"),
        "essay claim resolve": ("pipeline", "record the check of a deferred claim"),
        "essay claim override": ("pipeline", "accept a claim despite its check, for the user"),
        "essay calibrate": ("pipeline", "rate how close the first voice result is to the user"),
        "essay voice": ("pipeline", "record the voice check of a section"),
        "essay output": ("pipeline", "record the file of the final essay"),
        "essay pushback": ("pipeline", "set how hard to question the author"),
    },
    "Files": {
        "files list": ("files", "list the bound files of the session; same as `forestay files`"),
        "files bind": ("files", "keep the session's files up to date in a format"),
        "files unbind": ("files", "stop writing the files of a format"),
        "files restore": ("files", "rewrite damaged or missing files from the journal"),
        "files check": ("files", "check session files against their specification"),
        "files convert": ("files", "write a copy of a session file in another format"),
        "files update": ("cleanup", "set task, model or status, as ai-session programs do"),
        "files report": ("cleanup", "summarize ai-session files in figures"),
        "files live": ("cleanup", "show who is working now, according to aiterm's files"),
        "files cleanup": ("cleanup", "archive ai-session files that are finished"),
        "files contract show": ("contract", "show who has acknowledged the session contract"),
        "files contract ack": ("contract", "acknowledge the contract as an agent"),
        "files contract verify": ("contract", "check that the current contract is acknowledged"),
        "files orchestrator continue": ("documents", "resume the project's orchestrator session"),
        "files orchestrator history": ("documents", "list archived orchestrator sessions"),
        "files orchestrator new": ("documents", "start a new one and archive the current one"),
        "files orchestrator abort": ("documents", "abort the current one; its state is preserved"),
        "files orchestrator save": ("documents", "write the orchestrator session's files now"),
    },
    "Devices": {
        "sync": ("remote", "exchange sessions with other devices; --push or --pull: one way"),
        "remote list": ("remote", "list the remotes; the same as `forestay remote`"),
        "remote add": ("remote", "add a folder or a bucket for exchanging sessions"),
        "remote remove": ("remote", "remove a remote; nothing is deleted there"),
        "remote check": ("remote", "test a remote and list foreign objects there"),
        "device list": ("key", "list the devices that can read your sessions"),
        "device add": ("key", "ask to add this device, then confirm it"),
        "device approve": ("key", "approve a device by its code"),
        "device revoke": ("key", "revoke a device; it cannot read anything new"),
        "device rename": ("key", "rename a device"),
        "device key init": ("key", "create the key of this device and a recovery code"),
        "device key show": ("key", "show the key of this device, never its secret"),
        "device key export": ("key", "write the key to a file, protected by a passphrase"),
        "device key import": ("key", "import an exported key"),
        "device key recover": ("key", "recover your sessions with the recovery code and a remote"),
        "device key rotate": ("key", "create new keys; what was sealed before stays as it is"),
        "share list": ("share", "list the people a session is shared with"),
        "share add": ("share", "allow a person to read or continue a session"),
        "share remove": ("share", "stop sharing a session with a person"),
    },
    "Record": {
        "record command": ("facts", "record a command and its result"),
        "record file": ("facts", "record a file change"),
        "record artifact": ("facts", "save a file's content with the session"),
        "record tokens": ("facts", "record how many tokens the context holds"),
        "record compaction": ("facts", "record that the context was compacted"),
        "record error": ("facts", "record an error"),
        "record model": ("session", "record the model that works on the session"),
        "record attribute": ("session", "set an attribute of your own"),
        "record rename": ("session", "change the goal of the session"),
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
        "verify": ("health", "check that everything is stored as it was written"),
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
        "hook": ("hook", "print what an agent reads when it starts; run by its hook"),
        "ingest": ("hook", "record the events that hooks have spooled"),
    },
}

COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
WITHOUT_MODEL = frozenset(("settings", "status", "mcp"))
"""Modules that read only the catalogue and the settings, or load everything anyway."""

ALONE = {"config": "", "files contract": "show", "device key": "show", "essay paragraph": "done"}
"""What a family does without an action, where that is not `list`."""

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
