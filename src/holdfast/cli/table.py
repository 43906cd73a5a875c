"""Every command: its group, the module that knows it, and what it does in one line.

A name of two words is an action of a *family* (`task add`). Only the module of the command that
was asked for is loaded.
"""

from __future__ import annotations

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Begin, leave, pick up": {
        "start": ("life", "begin a session and make it the current one of this folder"),
        "resume": ("brief", "pick a session up: who died, what changed, what comes next"),
        "brief": ("brief", "what the next reader must know; changes nothing"),
        "pause": ("life", "lay the session aside"),
        "use": ("life", "make a session the current one of this folder"),
    },
    "Look": {
        "status": ("status", "where the current session stands"),
        "list": ("status", "the sessions of this project"),
        "log": ("log", "what happened, in order"),
        "search": ("log", "find words in goals, notes, messages, decisions, errors, titles"),
        "show": ("show", "everything a session holds, now or at an earlier point"),
        "diff": ("show", "what changed between two points of a session"),
    },
    "Record": {
        "note": ("record", "keep a remark"),
        "decide": ("record", "keep a decision, its reason and what was rejected"),
        "error": ("record", "keep an error"),
        "command": ("record", "keep that a command ran and how it ended"),
        "file": ("record", "keep that a file changed"),
        "artifact": ("record", "keep a file's content with the session"),
        "tokens": ("record", "keep how many tokens the context holds"),
        "compressed": ("record", "keep that the context was compressed"),
        "undo": ("record", "take the last command back, or an event"),
        "rename": ("life", "give the session another goal"),
        "model": ("life", "keep which model works on the session"),
        "attr": ("life", "set an attribute of your own"),
    },
    "Tasks": {
        "task list": ("work", "the tasks of the session; `holdfast task` alone does the same"),
        "task add": ("work", "add a task"),
        "task start": ("work", "begin a task"),
        "task done": ("work", "a task is done"),
        "task block": ("work", "a task cannot go on"),
        "task unblock": ("work", "a blocked task can be taken up again"),
        "task skip": ("work", "leave a task out"),
    },
    "Proof and change": {
        "prove": ("prove", "run a command and keep how it ended, until its inputs change"),
        "revisit": ("revisit", "go back to a step: what that means, and with --apply do it"),
    },
    "Phases of a plan": {
        "phase list": ("phase", "the phases of the plan; `holdfast phase` alone does the same"),
        "phase gate": ("phase", "what a phase's gate asks, what there is, whether it would pass"),
        "phase done": ("phase", "hand the current phase in; its gate judges the evidence"),
        "phase fail": ("phase", "an attempt at the current phase failed"),
        "phase retry": ("phase", "begin another attempt at the current phase"),
        "phase rollback": ("phase", "go back to a phase; all after it is to be done anew"),
        "phase total": ("phase", "say how many phases there are, once that is known"),
    },
    "Essays": {
        "approve": ("pipeline", "the user approves what waits at a gate"),
        "section list": ("pipeline", "the sections; `holdfast section` alone does the same"),
        "section add": ("pipeline", "add a section by hand"),
        "section start": ("pipeline", "work on a section"),
        "section done": ("pipeline", "the argument map of a section is there"),
        "paragraph done": ("pipeline", "the user approves a paragraph"),
        "claim list": ("pipeline", "claims; `holdfast claim` alone does the same"),
        "claim defer": ("pipeline", "a claim cannot be checked now"),
        "claim resolve": ("pipeline", "a deferred claim is checked"),
        "claim override": ("pipeline", "the user lets a claim stand, for a reason"),
        "calibrate": ("pipeline", "how close the first voice result sounds to the user"),
        "voice": ("pipeline", "the voice check of a section"),
        "output": ("pipeline", "the final essay is in a file"),
        "pushback": ("pipeline", "how hard the author wants to be questioned"),
        "essay show": ("pipeline", "the essay so far"),
    },
    "Agents": {
        "agent list": ("work", "the agents of the session; `holdfast agent` alone does the same"),
        "agent start": ("work", "an agent begins"),
        "agent progress": ("work", "how far an agent is"),
        "agent done": ("work", "an agent has finished"),
        "agent fail": ("work", "an agent failed"),
        "agent retry": ("work", "a failed agent runs again"),
        "agent timeout": ("work", "an agent took too long"),
    },
    "Hooks of agents": {
        "ingest": ("hook", "record what hooks of agents said and nobody has taken up yet"),
        "hook": ("hook", "what an agent is told when it starts; run by its hook"),
    },
    "Workflows": {
        "workflow list": ("workflow", "the workflows that can be used here"),
        "workflow show": ("workflow", "what a workflow asks for, phase by phase"),
        "workflow check": ("workflow", "what is wrong with a definition, line by line"),
        "workflow new": ("workflow", "write a definition to begin with"),
    },
    "End": {
        "complete": ("life", "the goal is reached"),
        "fail": ("life", "the session failed; it may be resumed"),
        "abort": ("life", "stop for good"),
        "abandon": ("life", "give it up; it may be reopened"),
        "reopen": ("life", "take a completed or abandoned session up again"),
        "archive": ("life", "put a finished session out of the way"),
        "unarchive": ("life", "bring an archived session back into the list"),
        "forget": ("forget", "erase everything a session says, or some events, for good"),
    },
    "Files of other programs": {
        "adopt": ("layouts", "make sessions of the files that other programs left"),
        "check": ("layouts", "what is wrong with session files, by their document"),
        "convert": ("layouts", "write a session file in another layout, beside it"),
        "layouts list": ("layouts", "where this session's files are kept too"),
        "layouts add": ("layouts", "keep this session's files in a layout"),
        "layouts remove": ("layouts", "let a layout's files be"),
        "layouts restore": ("layouts", "write damaged or missing files anew from the journal"),
        "layouts update": ("cleanup", "set task, model or status, as ai-session programs do"),
        "layouts report": ("cleanup", "how ai-session files stand, in figures"),
        "layouts live": ("cleanup", "who is at work now, as the files of aiterm tell"),
        "contract show": ("contract", "who has acknowledged the session-state contract"),
        "contract ack": ("contract", "an agent acknowledges the contract"),
        "contract verify": ("contract", "whether the contract is acknowledged as it is now"),
        "cleanup": ("cleanup", "put ai-session files away that are over"),
    },
    "By the documents' own words": {
        "orchestrator continue": ("documents", "go on with the project's orchestrator session"),
        "orchestrator history": ("documents", "its archived sessions, or one of them"),
        "orchestrator new": ("documents", "begin another; the current one is archived"),
        "orchestrator abort": ("documents", "stop the current one; its state is preserved"),
        "orchestrator save": ("documents", "write the orchestrator session's files now"),
        "essay list": ("documents", "the essays that have a folder of their own"),
        "essay resume": ("documents", "go on with an essay"),
    },
    "In your agents": {
        "install": ("install", "let an agent record its sessions and begin with a briefing"),
        "uninstall": ("install", "take that out of an agent again"),
        "mcp": ("mcp", "serve agents by the Model Context Protocol"),
    },
    "Several devices": {
        "sync": ("remote", "take what other devices pushed, and push what was recorded here"),
        "push": ("remote", "put what was recorded here on a remote, sealed"),
        "pull": ("remote", "take what others put on a remote"),
        "settle": ("settle", "what devices contradict each other about, and settling it"),
        "remote list": ("remote", "the remotes; `holdfast remote` alone does the same"),
        "remote add": ("remote", "name a folder or a bucket through which sessions travel"),
        "remote remove": ("remote", "forget a remote; nothing is deleted there"),
        "remote check": ("remote", "try a remote, and look what else lies there"),
        "key init": ("key", "make the key of this device, and a recovery code"),
        "key show": ("key", "the key of this device; never its secret"),
        "key export": ("key", "write the key into a file, in a passphrase"),
        "key import": ("key", "take over a key that was exported"),
        "key recover": ("key", "come back with the recovery code and a remote"),
        "key rotate": ("key", "begin new keys; what was sealed before stays as it is"),
        "devices list": ("key", "the devices that read your sessions"),
        "devices add": ("key", "ask that this device be let in; then confirm it"),
        "devices approve": ("key", "let in a device that shows its code"),
        "devices revoke": ("key", "put a device out; it reads nothing new"),
        "devices rename": ("key", "call a device by another name"),
        "share": ("share", "let a person read a session, or continue it"),
        "unshare": ("share", "let someone read no more of a session"),
    },
    "Care": {
        "verify": ("care", "check that everything is as it was written"),
        "doctor": ("care", "what is wrong here, and what would mend it"),
        "backup": ("care", "write everything into one file"),
        "restore": ("care", "merge a backup into this home"),
        "move": ("move", "copy everything into another store, and go on there"),
        "export": ("care", "write one session with its artifacts into a file"),
        "import": ("care", "take the sessions of a file in"),
        "config": ("settings", "settings: all, one, or set one"),
        "init": ("settings", "mark this folder, so that it is recognised anywhere"),
        "completion": ("settings", "print the completion script of a shell"),
        "help": ("settings", "help on a command"),
    },
}

COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
WITHOUT_MODEL = frozenset(("settings", "status", "mcp"))
"""Modules whose commands look at the catalogue and the settings only, or load everything anyway."""

ALONE = {"contract": "show", "key": "show", "paragraph": "done"}
"""What a family does without an action, where that is not `list`."""

FAMILIES = tuple(dict.fromkeys(name.split()[0] for name in COMMANDS if " " in name))

# Options that every command has, before or after it.
WITH_VALUE = {
    "--home": ("DIR", "where everything is kept (HOLDFAST_HOME)"),
    "--store": ("URL", "the database, if not the one in the home (HOLDFAST_STORE)"),
    "--session": ("SESSION", "the session meant (HOLDFAST_SESSION)"),
}
FLAGS = {
    "--json": "answer with one JSON object",
    "--quiet": "do not confirm what was done",
    "--no-color": "no colour (NO_COLOR)",
    "--help": "show this help",
}
SHORT = {"--quiet": "-q", "--help": "-h"}
