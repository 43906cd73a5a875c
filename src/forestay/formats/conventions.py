"""Customs: what a layout wants done beside its files: order, locks, backups, archives.

The documents agree on little here, so this is a table. Names may hold `{id}`, the native id, and
are relative to the layout's root folder.
"""

from __future__ import annotations

from msgspec import Struct


class Custom(Struct, frozen=True):
    order: tuple[str, ...] = ()
    """Endings of the files in the order in which they are written; others come first."""
    lock: str = ""
    """A file of the layout's own that is locked while its state is changed."""
    read_lock: str = ""
    """A file that is locked for others' reading while it is read."""
    backup: str = ""
    """What the previous version of the main file is called, after its name."""
    archive: str = ""
    """Where the main file goes when the session has ended."""
    put_away: str = ""
    """Where its programs put the folder of a session that is over."""
    folders: tuple[str, ...] = ()
    """Folders that a new session has from the start."""
    logs: tuple[str, ...] = ()
    """Lists in the main file that are only added to, from events alone."""
    shared: tuple[str, ...] = ()
    """Files that all sessions of the folder have together."""
    line_logs: tuple[str, ...] = ()
    """Files beside those of the layout that are added to line by line."""
    own_folder: str = ""
    """The key of the main file that names the root folder."""
    sees_names: bool = False
    """Whether writing depends on which files lie in the folder."""
    travels: bool = False
    """Whether its files tell how the session stands with other devices."""
    unshared: tuple[str, ...] = ("",)
    """What of a new root folder is of no concern to git: all of it, unless others use it too."""


CUSTOMS: dict[str, Custom] = {
    "ai-session": Custom(
        order=("implementation-plan.yaml", "history.jsonl", "state.yaml", "active-features.yaml"),
        lock="{id}/.state.lock",
        read_lock="{id}/implementation-plan.yaml",
        put_away="../.ai-session-archive/{id}",
        folders=("{id}/artifacts",),
        shared=("active-features.yaml",),
    ),
    "craft": Custom(logs=("files_modified",), travels=True),
    "essay": Custom(
        backup=".bak",
        logs=("revision_history",),
        line_logs=("stage-1-development-log.md", "stage-4-paragraph-log.md"),
        own_folder="session_dir",
        sees_names=True,
    ),
    "orchestrator": Custom(
        archive="orchestrator-history/{id}.json",
        unshared=("orchestrator-session.json", "orchestrator-history/"),
    ),
}

NAMED_AFTER = {
    ".praxis-os/.cache/state": "X1-1",
    ".craft/cache/orchestration-sessions": "X2-1",
    ".claude/orchestrator-history": "S4-6",
}
"""Folders whose files are named after their sessions → the requirement that says so."""


_NONE = Custom()


def custom(format_id: str) -> Custom:
    return CUSTOMS.get(format_id, _NONE)
