"""The port of the file formats: each translates between the files of a session and `Facts`.

A *bundle* is the bytes of the files that one session has in a format, by their names relative to
the session's root. A *tree* is a bundle parsed: plain values by file name (a JSON Lines file is a
list). A format never sees bytes, spelling or comments: `text.document` parses and rewrites text so
that only what changed changes. Nor does it see the journal: it only reads and writes facts.

    parse      bytes → tree                           (text.document, text.safe_parse)
    get        tree → facts                           total: it never raises on a tree
    put        old tree or None, facts → new tree     changes only what the facts changed
    whole      tree, tree before → tree               restores what no program may remove
    check      tree → findings
    salvage    bundle that cannot be parsed → facts, and what was inferred and lost

Laws, tested for all: `put(t, get(t)) == t`; `get(put(t, f))` equals `f` as far as the format has
fields; unknown keys survive; `put` changes no value that it was given and shares those that stay.
What a format has no field for travels as values under the one key `forestay` (`carry_over`).

A sixth format is one folder with a `format` module, and a line in `REGISTRY`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Protocol

from msgspec import Struct

from forestay.base.findings import Finding
from forestay.errors import InvalidInput
from forestay.formats.facts import Facts

Tree = dict[str, Any]
"""File name → plain value."""
Bundle = dict[str, bytes]

EXTRA = "forestay"
"""The one key of our own in other people's files."""

ERROR, WARNING, INFO = "error", "warning", "info"


class Travel(Struct, frozen=True):
    """How a session stands with the remotes of this machine; moments in milliseconds."""

    enabled: bool = False
    last_sync: int = 0
    status: str = ""
    error: str = ""
    devices: tuple[str, ...] = ()
    backend: str = "local"
    encrypted: bool = False
    shared_with: tuple[str, ...] = ()


class Where(Struct, frozen=True):
    """What a layout may know of its surroundings when it writes or judges files.

    `root` is the session's folder, `names` the files in it (relative, with /), both empty when
    unknown; `total` the number of phases that a workflow definition handed in gives; `naive` says
    how stamps without a zone are read ("local" or "utc"). `generation` is the shape that a new
    file is to have, where a layout has several; empty means today's. `travel` is given where this
    machine knows how the session travels: then what a file says of that is ours to write, and
    nothing that a session says. Whoever writes on may be `brief`: logs are shown empty then, and
    of what goes into them the facts tell only what is new. `moved` says that the folder which the
    files name as theirs is not `root`. What was `withdrawn` leaves also lists that only grow.
    `window` is how many tokens the context of an agent holds.
    """

    now: int = 0
    root: str = ""
    names: frozenset[str] = frozenset()
    total: int | None = None
    naive: str = "local"
    project_path: str = ""
    device: str = ""
    generation: str = ""
    travel: Travel | None = None
    brief: bool = False
    moved: bool = False
    window: int = 128_000
    withdrawn: Facts | None = None


class Reading(Struct, frozen=True):
    """What `check` and `adopt` say of a session's files besides the findings."""

    layout: str
    generation: str = ""
    """Which shape of the layout this is, such as `redesign` or `legacy`."""
    version: str = ""
    complete: bool | None = None
    status: str = ""
    progress: float | None = None
    writable: bool = True
    """False for versions that are not known: shown, never written."""
    warning: str = ""
    """What whoever goes on with such files has to know of their shape."""

    @property
    def unwritten(self) -> str:
        """Why files that are not writable are left as they are."""
        form = "a file without its" if self.generation == "document" else f"the {self.generation}"
        known = f"version {self.version}" if self.version else ""
        return f"{known or f'{form} version'} is not written by us"


class Salvaged(Struct):
    """What could be made of damaged files: facts, where each came from, and what is lost."""

    facts: Facts
    level: str = ""
    message: str = ""
    inferred: list[str] = []
    lost: list[str] = []


class Conventions(Struct, frozen=True):
    """What a format wants done around its files: order, locks, backups, archives.

    Names may hold `{id}`, the native id, and are relative to the format's root folder.
    """

    order: tuple[str, ...] = ()
    """Endings of the files in the order in which they are written; others come first."""
    lock: str = ""
    """The format's own lock file, locked while its state is changed."""
    read_lock: str = ""
    """A file that is locked while it is read, so that other programs do not write it."""
    backup: str = ""
    """The ending of the name under which the previous version of the main file is stored."""
    archive: str = ""
    """Where the main file goes when the session has ended."""
    put_away: str = ""
    """Where programs of this format move the folder of a session that is over."""
    folders: tuple[str, ...] = ()
    """Folders that a new session has from the start."""
    logs: tuple[str, ...] = ()
    """Lists in the main file that only grow, from events alone."""
    shared: tuple[str, ...] = ()
    """Files that all sessions of the folder share."""
    line_logs: tuple[str, ...] = ()
    """Other files to which lines are appended."""
    own_folder: str = ""
    """The key of the main file that names the root folder."""
    sees_names: bool = False
    """Whether writing depends on which files lie in the folder."""
    travels: bool = False
    """Whether its files state how the session is synced with other devices."""
    unshared: tuple[str, ...] = ("",)
    """What of a new root folder git ignores: all of it, unless other programs use it too."""
    named_after: tuple[str, str] = ("", "")
    """A folder whose files are named after their sessions, and the requirement for that."""


class Format(Protocol):
    """One on-disk form. Stateless; all methods are pure."""

    id: str
    document: str
    """The number of the document that describes it, such as `S0`."""
    latest: frozenset[str] = frozenset()
    """Lists of facts of which its files have room for the last element only."""
    has_goal: bool = True
    """Whether its files have a field for the goal; else one is made of what else they say."""

    conventions: Conventions = Conventions()
    id_error: str = ""
    """The beginning of the message about an invalid id, where its document gives one."""

    def recognise(self, name: str, value: Any) -> float:
        """How surely a parsed file is of this layout, from 0 to 1, by its shape."""
        ...

    def files(self, native_id: str) -> list[str]:
        """The files that one session has, relative to the layout's root folder, main one first."""
        ...

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        """A native id for a session that gets its first files here."""
        ...

    def valid_id(self, native_id: str) -> str:
        """Why the id is not possible in this layout, or an empty string."""
        ...

    def unkept_id(self, native_id: str) -> str:
        """Why files with this id, which somebody else gave them, cannot be kept, or nothing."""
        return unsafe_id(native_id)

    def get(self, tree: Tree, where: Where) -> Facts: ...

    def put(self, old: Tree | None, facts: Facts, where: Where) -> Tree:
        """Return the files with these facts. With `where.brief`, logs hold only new facts."""
        ...

    def known_as(self, facts: Facts) -> dict[int, str]:
        """Place of a step → the id that new files give it, in a layout that has its own."""
        return {}

    def renewed(self, tree: Tree, where: Where) -> Tree:
        """The same session in today's form of the layout."""
        return tree

    def whole(self, tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
        """The files with what they had `before` and nobody may take out or change, and a sentence
        for each that was."""
        return tree, []

    def torn(self, data: bytes, value: Any) -> str:
        """Why a file that can be parsed was not written to its end all the same, or nothing."""
        return ""

    def reading(self, tree: Tree, where: Where) -> Reading: ...

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]: ...

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        """What the bytes still say when the main file does not parse; None when nothing."""
        ...


REGISTRY: dict[str, tuple[str, str]] = {
    "ai-session": ("forestay.formats.ai_session.format", ".ai-session"),
    "praxis": ("forestay.formats.praxis.format", ".praxis-os/.cache/state"),
    "craft": ("forestay.formats.craft.format", ".craft/cache/orchestration-sessions"),
    "essay": ("forestay.formats.essay.format", ""),
    "orchestrator": ("forestay.formats.orchestrator.format", ".claude"),
}
"""Id → module of its folder, and its root folder in a project; empty: each session has its own."""


@cache
def load_format(id: str) -> Format:
    """The layout of an id; a module is loaded when it is first asked for."""
    require_known(id)
    module = import_module(REGISTRY[id][0])
    made: Format = module.FORMAT
    return made


def conventions_of(id: str) -> Conventions:
    """Return what the format of an id wants done around its files."""
    return load_format(id).conventions


def spelled(chosen: str) -> str:
    """A layout that somebody names, perhaps with an id, in our spelling: `ai_session:ID` too."""
    kind, *native = chosen.split(":", 1)
    known = kind.replace("_", "-")
    require_known(known if known in REGISTRY else kind)
    return ":".join((known, *native))


def require_known(id: str) -> None:
    """Refuse a name that is none of a layout."""
    if id in REGISTRY:
        return
    import difflib

    near = difflib.get_close_matches(id.lower(), REGISTRY, 1)
    hint = f"did you mean {near[0]}?" if near else ""
    why = f"the layouts are {', '.join(REGISTRY)}"
    raise InvalidInput(f"there is no layout {id}", why=why, hint=hint)


def unsafe_id(native_id: str) -> str:
    """Why an id may not be part of a path, or an empty string."""
    if not native_id.strip() or native_id.startswith((".", "-")) or native_id.endswith((".", " ")):
        return "the id is empty, or begins or ends with a sign that no file name should"
    if not native_id.isprintable() or not set(native_id).isdisjoint("/\\:"):
        return "the id holds a sign that has a meaning in paths"
    too_long = len(native_id.encode("utf-8", "replace")) > 200
    return "the id is too long for a file name" if too_long else ""


def require_id(format: Format, native_id: str) -> None:
    """Refuse an id for new files that is not possible in their layout."""
    if problem := format.valid_id(native_id):
        word = format.id_error or f"Invalid {format.id} session ID"
        raise InvalidInput(f"{word} {native_id!r}", why=problem, session=native_id)
