"""The interface of a file format, which translates between a session's files and `Facts`.

A *bundle* has the bytes of one session's files in a format, by their names relative to the format's
root folder. A *tree* is a parsed bundle: plain values by file name (a JSON Lines file is a list). A
format never sees bytes, spelling or comments: `text.document` parses text and rewrites only changed
values. Nor does it see the journal: it only reads and writes facts.

    parse      bytes → tree                           (text.document, text.safe_parse)
    get        tree → facts                           total: it never raises on a tree
    put        old tree or None, facts → new tree     changes only what the facts changed
    restore_required  tree, tree before → tree        restores keys that no program may remove
    check      tree → findings
    salvage    bundle that cannot be parsed → facts, and what was inferred and lost

Laws, tested for all: `put(t, get(t)) == t`; `get(put(t, f))` equals `f` as far as the format has
fields; unknown keys survive; `put` does not modify its arguments, and its result shares unchanged
parts with them. Facts without a field in the format are stored under the key `forestay`
(`carry_over`).

To add a format, add one folder with a `format` module, and a line in `registry`.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from forestay.base.findings import Finding, Question
from forestay.errors import InvalidInput
from forestay.formats.facts import Facts, StepFact
from forestay.formats.registry import REGISTRY as REGISTRY

Tree = dict[str, Any]
"""File name → plain value."""
Bundle = dict[str, bytes]

EXTRA = "forestay"
"""The one key that we add to the files of other programs."""

ERROR, WARNING, INFO = "error", "warning", "info"


class Travel(Struct, frozen=True):
    """How a session is synced with the remotes of this machine; times in milliseconds."""

    enabled: bool = False
    last_sync: int = 0
    status: str = ""
    error: str = ""
    devices: tuple[str, ...] = ()
    backend: str = "local"
    encrypted: bool = False
    shared_with: tuple[str, ...] = ()


class Where(Struct, frozen=True):
    """What a format can know about the surroundings when it reads, writes or checks files.

    `root` is the session's folder, `names` the files in it (relative, with /), both empty if
    unknown. `total` is the number of phases in the workflow definition. `naive` is how times
    without a zone are read ("local" or "utc"). `generation` is the form of a new file if a format
    has several; empty for the current one. `travel` is how the session is synced, None if this
    machine does not know; if it does, that part of a file is written and never read. With `brief`,
    logs are passed in empty and the facts have only new entries for them. `moved` means that the
    folder named in the files is not `root`. Facts in `withdrawn` are removed even from lists that
    only grow. `window` is the number of tokens in an agent's context.
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
    """What `check` and `adopt` report about a session's files besides the findings."""

    format: str
    generation: str = ""
    """Which form of the format this is, such as `redesign` or `legacy`."""
    version: str = ""
    complete: bool | None = None
    status: str = ""
    progress: float | None = None
    writable: bool = True
    """False for unknown versions, which are shown but never written."""
    warning: str = ""
    """A warning for users who continue with files of this form, or an empty text."""

    @property
    def read_only_reason(self) -> str:
        """Return the reason why files with `writable` false are not changed."""
        form = "a file without its" if self.generation == "document" else f"the {self.generation}"
        known = f"version {self.version}" if self.version else ""
        return f"{known or f'{form} version'} is not supported for writing"


class Salvaged(Struct):
    """The content of damaged files: facts, which of them were inferred, and what is lost."""

    facts: Facts
    level: str = ""
    message: str = ""
    inferred: list[str] = []
    lost: list[str] = []
    tree: Tree = {}
    """Files to write that cannot be made from the facts; bytes are written unchanged."""


class Listed(NamedTuple):
    """A session in a file that all sessions of a folder share: its id, status and entry."""

    id: str
    status: str
    where: str


class Signs(Struct, frozen=True):
    """What identifies the files of a format before, or without, parsing them."""

    words: bytes = b""
    """A pattern that every file of the format contains, so that others need not be parsed."""
    damaged: bytes = rb"(?!)"
    """A pattern in the first bytes of a file of the format that cannot be parsed."""
    names: str = r"(?!)"
    """A pattern for the names of its files in any folder."""
    names_in_place: str = r"(?!)"
    """A pattern for the names of files in its root folder, whatever they contain."""


class Conventions(Struct, frozen=True):
    """How a format handles its files: order of writing, locks, backups, archives.

    Names may hold `{id}`, the native id, and are relative to the format's root folder.
    """

    order: tuple[str, ...] = ()
    """Endings of file names in the order of writing; files with other endings come first."""
    lock: str = ""
    """The format's own lock file, locked while its state is changed."""
    read_lock: str = ""
    """A file that is locked while it is read, so that other programs do not write it."""
    backup: str = ""
    """The ending of the name under which the previous version of the main file is stored."""
    archive: str = ""
    """The path to which the main file is moved when the session has ended."""
    put_away: str = ""
    """The folder into which other programs move the folder of an ended session."""
    folders: tuple[str, ...] = ()
    """Folders that a new session has from the start."""
    logs: tuple[str, ...] = ()
    """Lists in the main file that only grow; all their elements come from events."""
    shared: tuple[str, ...] = ()
    """Files that all sessions of the folder share."""
    line_logs: tuple[str, ...] = ()
    """Other files to which lines are appended."""
    own_folder: str = ""
    """The key of the main file that names the root folder."""
    sees_names: bool = False
    """Whether the content to write depends on which files are in the folder."""
    travels: bool = False
    """Whether its files state how the session is synced with other devices."""
    unshared: tuple[str, ...] = ("",)
    """The paths that git ignores in a new root folder; "" stands for the whole folder."""
    named_after: tuple[str, str] = ("", "")
    """A folder whose files are named after their sessions, and the requirement for that."""
    artifacts: str = ""
    """What a session produced: a folder, or the ending of files in the folder of its main file."""
    salvaged_with: str = ""
    """The ending of files in the same folder from which a damaged session is restored."""
    home: str = ""
    """The folder in our home for new sessions, if the format has no root folder."""
    folder_prefix: str = ""
    """The beginning of the names of the folders in `home`."""
    root_setting: str = ""
    """The setting that changes the root folder."""
    definitions: str = ""
    """The folder of a project that has definitions of workflows."""
    readme: str = ""
    """The text of the README.md in a new root folder."""
    unreadable: str = ""
    """The requirement that a file breaks if it cannot be read."""


class Format(Protocol):
    """One file format. Stateless; all methods are pure."""

    id: str
    document: str
    """The number of the specification of the format, such as `S0`."""
    latest: frozenset[str] = frozenset()
    """Lists of facts of which its files have room for the last element only."""
    has_goal: bool = True
    """Whether its files have a field for the goal; if not, it is derived from other fields."""

    conventions: Conventions = Conventions()
    signs: Signs = Signs()
    id_error: str = ""
    """The beginning of the message about an invalid id, if the specification gives one."""

    def recognise(self, name: str, value: Any) -> float:
        """Return how certainly a parsed file has this format, from 0 to 1."""
        ...

    def files(self, native_id: str) -> list[str]:
        """Return the files of a session, relative to the format's root folder, main file first.

        A session has either several files in a folder named after it, or a single file.
        """
        ...

    def file_of(self, name: str, value: Any) -> tuple[str, str]:
        """Return which one of `files("{id}")` a parsed file is, and the id that it states."""
        return self.files("{id}")[0], self.get({name: value}, Where()).native_id

    def damaged_file_of(self, name: str, data: bytes) -> str:
        """Return which one of `files("{id}")` an unparsable file is; "" if its name decides."""
        return ""

    def is_folder_of_session(self, name: str, names: Set[str], *, chosen: bool = False) -> bool:
        """Return whether a folder has files of a session whose main file is missing.

        If the user named the folder (`chosen`), fewer signs are enough.
        """
        return False

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        """Return a native id for a session without files in this format."""
        ...

    def why_invalid_id(self, native_id: str) -> str:
        """Return why the id is not allowed in this format, or an empty string."""
        ...

    def why_unusable_id(self, native_id: str) -> str:
        """Return why files with this id from another program cannot be used, or ""."""
        return unsafe_id(native_id)

    def get(self, tree: Tree, where: Where) -> Facts: ...

    def put(self, old: Tree | None, facts: Facts, where: Where) -> Tree:
        """Return the files with these facts. With `where.brief`, logs hold only new facts."""
        ...

    def assigned_step_ids(self, facts: Facts) -> dict[int, str]:
        """Return step index → id that the format gives the step in new files, if it makes ids."""
        return {}

    def in_current_form(self, tree: Tree, where: Where) -> Tree:
        """Return the same session in the current form of the format."""
        return tree

    def restore_required(self, tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
        """Return the files with those values of `before` that no program may remove or change.

        Return also a sentence for each value that was restored.
        """
        return tree, []

    def why_incomplete(self, data: bytes, value: Any) -> str:
        """Return why a file that can be parsed is incomplete nevertheless, or an empty string."""
        return ""

    def lines_before(self, lines: list[Any], known: int, now: Facts, where: Where) -> list[Any]:
        """Return the lines that a log had before an edit: by default its first `known` lines."""
        return lines[:known]

    def first_steps(self) -> list[StepFact]:
        """Return the steps that a new session without a workflow has."""
        return []

    def why_unknown_model(self, name: str) -> str:
        """Return why files cannot contain the name of a model, or an empty string."""
        return ""

    def workflow_of(self, tree: Tree) -> str:
        """Return the name of the workflow whose definition has the number of phases."""
        return ""

    def goal_in(self, bundle: Bundle) -> str:
        """Return the goal from files around a session, for formats whose own files have none."""
        return ""

    def reading(self, tree: Tree, where: Where) -> Reading: ...

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]: ...

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        """Return what can be recovered if the main file cannot be parsed; None if nothing can."""
        ...

    def recreate(self, tree: Tree, where: Where) -> tuple[Tree, list[str]]:
        """Return a salvaged session with missing files added, and what each was made from."""
        return tree, []

    def ask(
        self, bundle: Bundle, where: Where, level: str, kept_as: str
    ) -> tuple[str, Question] | None:
        """Return a message and a question if only the user can decide about damaged files.

        `level` is the damage level of what was salvaged, empty if nothing was. The damaged files
        would be renamed to `kept_as`. The choice `fresh` only renames them, `manual` also
        writes the salvaged facts to new files; any other choice is passed to `answer`.
        """
        return None

    def answer(self, choice: str, bundle: Bundle, where: Where) -> tuple[str, Tree] | None:
        """Return a message and the files for the user's choice; None if it gives no files."""
        return None

    # -- files that all sessions of a folder share ---------------------------------------------

    def listed(self, value: Any) -> list[Listed]:
        """Return the sessions in a shared file."""
        return []

    def with_entries(self, value: Any, other: Any, ids: Set[str]) -> Any:
        """Return a shared file in which the entries of the sessions `ids` are those of `other`."""
        return value

    def salvage_shared(self, data: bytes) -> Any:
        """Return what a damaged shared file still contains."""
        return None

    def add_entry(self, value: Any, facts: Facts, where: Where, *, is_current: bool) -> Any:
        """Return a shared file with an entry for a session; its status only if `is_current`."""
        return value


@cache
def load_format(id: str) -> Format:
    """Return the format with this id; load its module at the first call."""
    require_known(id)
    module = import_module(REGISTRY[id][0])
    made: Format = module.FORMAT
    return made


def conventions_of(id: str) -> Conventions:
    """Return the conventions of the format with this id."""
    return load_format(id).conventions


def canonical_name(chosen: str) -> str:
    """Return a format name that the user typed in our spelling; it can have an id (`craft:ID`)."""
    kind, *native = chosen.split(":", 1)
    known = kind.replace("_", "-")
    require_known(known if known in REGISTRY else kind)
    return ":".join((known, *native))


def require_known(id: str) -> None:
    """Raise `InvalidInput` if there is no format with this id."""
    if id in REGISTRY:
        return
    import difflib

    near = difflib.get_close_matches(id.lower(), REGISTRY, 1)
    hint = f"did you mean {near[0]}?" if near else ""
    why = f"the formats are {', '.join(REGISTRY)}"
    raise InvalidInput(f"there is no format {id}", why=why, hint=hint)


def unsafe_id(native_id: str) -> str:
    """Return why an id must not be part of a path, or an empty string."""
    if not native_id.strip() or native_id.startswith((".", "-")) or native_id.endswith((".", " ")):
        return "the id is empty, or begins or ends with a character unsafe in file names"
    if not native_id.isprintable() or not set(native_id).isdisjoint("/\\:"):
        return "the id contains a character that is special in paths"
    too_long = len(native_id.encode("utf-8", "replace")) > 200
    return "the id is too long for a file name" if too_long else ""


def require_id(format: Format, native_id: str) -> None:
    """Raise `InvalidInput` if the format does not allow the id for new files."""
    if problem := format.why_invalid_id(native_id):
        word = format.id_error or f"Invalid {format.id} session ID"
        raise InvalidInput(f"{word} {native_id!r}", why=problem, session=native_id)
