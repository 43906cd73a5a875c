"""Render: bring a binding's files up to what the journal says, and lose no edit on the way.

A rendering is planned, remembered, and then written: no other process ever takes our own bytes for
someone's edit. New bytes change places with the old ones, which are compared with what was looked
at: an edit made in between is found there.

The secret is how little of a file is made anew: what stays is shared between the old value and the
new one, and a file that is spelled in our own manner is spelled again without being parsed, part by
part in YAML.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from hashlib import sha256
from secrets import token_hex
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, swap_file
from forestay.base.clock import Clock
from forestay.errors import ForestayError
from forestay.formats.facts import Facts
from forestay.formats.port import ERROR, Tree, Where, conventions_of, load_format
from forestay.formats.rendering_id import rendering_id, with_id, with_id_line, without_id_line
from forestay.formats.text.document import Document, fresh, kind_of
from forestay.formats.three_way import is_stored_whole, write_facts
from forestay.mirror.absorb import UNKNOWN, readme_of
from forestay.mirror.context import Desk, Told, parsed
from forestay.mirror.read_files import Log, Look, Looker, Read, is_log
from forestay.store.machine.bindings import Binding, Note, Written

_LONG = 256 * 1024

Tell = Callable[[int], Told]
"""What the journal says now, of its logs what came after an event."""


class Change(Struct):
    """A file that is to be written."""

    look: Look
    made: Read
    data: bytes
    digest: str = ""
    """Worked out when it is remembered."""
    staged: str | ForestayError = ""
    """The new file beside its place once it is synced, or why there is none; empty for a log."""
    displaced: str = ""
    """Where the old file is after the exchange; empty if there was none."""
    gone: int | None = None
    """What holds its space once it is removed."""
    log: Log | None = None
    """What it is then, of a log."""

    @property
    def is_new(self) -> bool:
        """Whether our newest rendering of the file is another."""
        return self.look.verdict == "behind" or self.data != self.look.data


class Plan(Struct):
    """What has to be done so that a binding's files say what the journal says."""

    binding: Binding
    looks: list[Look]
    made: list[Change]
    """What our newest renderings are to be; of these, `changes` are not in the files yet."""
    facts: Facts
    seq: int
    status: str
    changes: list[Change] = []


class Renderer:
    def __init__(self, desk: Desk, looker: Looker) -> None:
        self._desk = desk
        self._looker = looker

    # -- planning ------------------------------------------------------------------------------

    def plan(self, binding: Binding, looks: list[Look], tell: Tell, where: Where) -> Plan:
        """What the files should be; where logs are as we left them, of those only what is new."""
        is_ours = any(look.log for look in looks) or all(look.verdict == "ours" for look in looks)
        brief = binding.mirrored != UNKNOWN and is_ours
        looks, shared = (
            self._brought_back(binding, looks, where),
            conventions_of(binding.layout).shared,
        )

        def is_past(look: Look) -> bool:
            return look.is_behind or (look.is_erased and look.name not in shared)

        looks = [
            look.behind(self._looker.newest(binding, look)) if is_past(look) else look
            for look in looks
        ]
        told = tell(binding.mirrored if brief else 0)
        if brief and told.withdrawn is not None and not any(look.log for look in looks):
            brief, told = False, tell(0)  # what is to go is looked for in all that was ever said
        where = replace(where, brief=brief, withdrawn=told.withdrawn)
        facts = replace(told.facts, native_id=binding.native)
        tree = self._tree(binding, looks, facts, where, brief=brief)
        made = [
            Change(look, each, each.document.data)
            for look in _ordered(binding, looks)
            if (each := self._made(binding, look, tree.get(look.name)))
        ]
        plan = Plan(binding, looks, [c for c in made if c.is_new], facts, told.seq, told.status)
        plan.changes = [change for change in plan.made if change.data != change.look.data]
        return plan

    def _brought_back(self, binding: Binding, looks: list[Look], where: Where) -> list[Look]:
        """Files that are gone as we wrote them last, unless that was at fault.

        There was more in them than the journal knows: what others wrote, in their order and
        spelling. What several sessions share is made anew by each of them.
        """
        shared = conventions_of(binding.layout).shared
        gone = [k for k in looks if k.verdict == "missing" and k.known and k.name not in shared]
        if not gone:
            return looks
        back = [k.behind(self._looker.newest(binding, k)) if k in gone else k for k in looks]
        tree = {look.name: look.value for look in back if look.read is not None}
        # Which files lie beside is not of their making.
        found = load_format(binding.layout).check(tree, replace(where, names=frozenset()))
        return looks if any(finding.severity == ERROR for finding in found) else back

    def _tree(
        self, binding: Binding, looks: Sequence[Look], facts: Facts, where: Where, *, brief: bool
    ) -> Tree:
        old = {look.name: look.value for look in looks if look.read is not None}
        if _is_moved(binding, old):
            where = replace(where, moved=True)
        format = load_format(binding.layout)
        given, logs = _without_logs(binding, old) if brief else (old, {})
        clean, reads = self._desk.journal.clean_facts, [look.read for look in looks if look.read]
        if any(read.is_whole is None for read in reads):
            is_whole = is_stored_whole(format, old, where, clean)
            for read in reads:
                read.is_whole = is_whole
        is_clean = all(read.is_whole for read in reads)
        tree = write_facts(format, given, facts, where, clean, is_clean=is_clean)
        if any(look.data is None and look.name not in tree for look in looks):
            tree = format.put(None, facts, where) | tree
        return _with_logs(tree, logs)

    def _made(self, binding: Binding, look: Look, value: Any) -> Read | None:
        """What the file should be; None for one that the layout does not want, or that is so."""
        needs_id = (binding.number, look.name) in self._looker.need_new_id
        is_so = look.read is not None and look.value == value and not needs_id
        if value is None or (is_so and look.verdict != "behind"):
            return None
        kind = kind_of(look.name)
        if kind == "jsonl":
            return _longer(look, value)
        if is_so:
            return look.read
        id = "" if look.name in conventions_of(binding.layout).shared else token_hex(6)
        stated = with_id(value, id) if id and kind == "json" else value
        if look.read is None:
            made = Read(parsed(look.name, fresh(kind, stated)), value, is_clean=True, is_whole=True)
        else:
            again = _written_again(look.read, kind, stated)
            made = again or Read(look.read.document.rewritten(stated), value)
            # What we add to a file has no secrets any more, and is stored unchanged.
            made.is_clean, made.is_whole = self._is_clean(binding, look), look.read.is_whole
        if id and kind == "yaml":
            made.document = with_id_line(made.document, id)
        made.value = value
        return made

    def _is_clean(self, binding: Binding, look: Look) -> bool:
        """Whether a file is known to hold no secrets: to look through a long one takes longer than
        to see that all of our newest rendering was kept."""
        assert look.read is not None
        if not look.read.is_clean and look.verdict == "ours" and len(look.data or b"") > _LONG:
            kept = self._desk.bound.last_content(binding, look.name)
            look.read.is_clean = sha256(kept).hexdigest() == look.digest
        return look.read.is_clean

    def notes(self, plans: Sequence[Plan]) -> list[Note]:
        """What is to be remembered before the files of plans get their places."""
        new = [p for p in plans if p.changes or p.binding.mirrored != p.seq]
        return [(p.binding, [n for c in p.made for n in self._noted(c)], p.seq) for p in new]

    def _noted(self, change: Change) -> list[Written]:
        """A file that is to be written; before it, once more, what is still there of earlier.

        Else one that cannot be written for long would not be known for ours any more.
        """
        look = change.look
        if look.verdict != "rewound" or look.read is None or look.data is None:
            return [self._note(change)]
        return [self._note(Change(look, look.read, look.data, look.digest)), self._note(change)]

    def _note(self, change: Change) -> Written:
        kind, data, look = kind_of(change.look.name), change.data, change.look
        if kind == "jsonl":
            change.log = Log(data, look.log)
            change.digest = change.log.digest
            # The beginning of a log is always in the file itself.
            return look.name, change.digest, change.log.size, b""
        change.digest = change.digest or sha256(data).hexdigest()
        kept = self._keepable(kind, data, change.made)
        self._looker.keep(kind, change.digest, change.made)
        size = 0 if look.verdict == "owed" else len(data)
        return look.name, change.digest, size, kept

    def _keepable(self, kind: str, data: bytes, made: Read) -> bytes:
        """What may be remembered of a file: not the secrets that someone wrote into it."""
        if not made.is_clean:
            made.is_clean = not self._desk.journal.find_secrets(data.decode("utf-8", "replace"))
        if made.is_clean:
            return data
        clean = fresh(kind, self._desk.without_secrets(made.document.said))
        id = rendering_id(made.document)
        is_line = kind == "yaml" and id
        return with_id_line(Document(kind, clean, None), id).data if is_line else clean

    def remember(self, binding: Binding, looks: Sequence[Look], mirrored: int) -> None:
        """Take files as they are for the newest renderings."""
        seen = [
            self._note(Change(look, look.read, look.data, look.digest))
            for look in looks
            if look.read is not None and look.data is not None and look.verdict != "ours"
        ]
        if seen or binding.mirrored != mirrored:
            self._desk.bound.rendered([(binding, seen, mirrored)])

    def keep_again(self, binding: Binding, looks: Sequence[Look]) -> None:
        """Remember files that are as we left them, or as they once were, where nothing of that is
        kept any more."""
        bare = [
            look
            for look in looks
            if look.verdict in ("ours", "rewound") and look.read is not None
            if not is_log(look.name)
            if not self._desk.bound.last_content(binding, look.name)
        ]
        self.remember(binding, [replace(look, verdict="found") for look in bare], binding.mirrored)

    # -- writing -------------------------------------------------------------------------------

    def stage(self, plans: Sequence[Plan]) -> None:
        """Write the new files of plans that are remembered, next to their places."""
        changes = _to_stage(plans)
        new = [(change.look.path, change.data, change.digest) for change in changes]
        for change, staged in zip(changes, swap_file.stage_all(new, 0o644), strict=True):
            change.staged = staged

    def exchange(self, plan: Plan, require: Callable[[], None]) -> None:
        """Let staged files get their places, in the layout's order, if nothing that is required
        forbids it; it lasts once the folders are synced."""
        try:
            require()
            for change in plan.changes:
                if isinstance(change.staged, ForestayError):
                    raise change.staged
            for change in plan.changes:
                self._swap(plan.binding, change)
        except ForestayError:
            for change in plan.changes:
                if isinstance(change.staged, str) and change.staged:
                    files.remove(change.staged)
            raise

    def _swap(self, binding: Binding, change: Change) -> None:
        look, aside = change.look, change.staged
        # No longer ours to remove: after the step this is what someone wrote.
        change.staged = ""
        if not isinstance(aside, str) or not aside:
            new = change.data[len(look.data or b"") :]
            files.append_lines(look.path, new.removeprefix(b"\n"), mode=0o644, sync=False)
            return
        with self._looker.reading(binding, look.path) if look.data is not None else nullcontext():
            backup = _backup(binding, look)
            if swap_file.swap(aside, look.path, backup=backup, mode=0o644):
                change.displaced = aside

    def has_displaced(self, plan: Plan) -> bool:
        """Whether the exchange displaced someone's edit; what it displaced of ours goes."""
        displaced = [_is_displaced(change, self._desk.clock) for change in plan.changes]
        if any(displaced):
            return True
        digests = {look.name: look.digest for look in plan.looks}
        for change in plan.changes:
            name = change.look.name
            digests[name] = change.digest
            self._looker.need_new_id.discard((plan.binding.number, name))
            if change.log:
                change.log.look_at(change.look.path)
            self._looker.remember(plan.binding, name, change.log or change.data, change.digest)
        self._looker.reached(plan.binding, plan.seq, digests)
        return False

    def let_go(self, plans: Sequence[Plan]) -> None:
        """Give back the space of files that were displaced and are gone."""
        gone = [change.gone for plan in plans for change in plan.changes]
        swap_file.free_removed([fd for fd in gone if fd is not None])


def _is_moved(binding: Binding, tree: Tree) -> bool:
    """Whether the files name another folder as theirs than the one that they lie in."""
    key = conventions_of(binding.layout).own_folder
    main = os.path.relpath(binding.place, binding.root) if key else ""
    value = tree.get(main)
    named = value.get(key) if isinstance(value, dict) else None
    if not isinstance(named, str) or not os.path.isabs(named):
        return False
    try:
        return not os.path.samefile(named, binding.root)
    except (OSError, ValueError) as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)


def prepare(plan: Plan) -> None:
    """See to what must be there before the files."""
    if any(look.data is None for look in plan.looks):
        _found(plan.binding)
    for change in plan.changes:
        if change.look.data is None:
            files.make_folder(os.path.dirname(change.look.path))


def _to_stage(plans: Sequence[Plan]) -> list[Change]:
    """The files that are replaced; lines that are added to a log are not."""
    return [c for plan in plans for c in plan.changes if not _only_grows(c.look)]


def _only_grows(look: Look) -> bool:
    return look.data is not None and is_log(look.name)


def to_sync(plan: Plan) -> set[str]:
    """What has to be synced so that what was exchanged and added lasts."""
    paths = ((change.look.path, _only_grows(change.look)) for change in plan.changes)
    return {path if grows else os.path.dirname(path) for path, grows in paths}


def _is_displaced(change: Change, clock: Clock) -> bool:
    """Whether what an exchange displaced is not what was looked at; else it goes."""
    if change.displaced:
        change.gone = swap_file.remove_displaced(change.displaced, change.look.data or b"", clock)
    return bool(change.displaced) and change.gone is None


def _found(binding: Binding) -> None:
    """What a new session has besides its files."""
    for folder in conventions_of(binding.layout).folders:
        files.make_folder(os.path.join(binding.root, folder.format(id=binding.native)))
    path = readme_of(binding)
    if binding.layout == "ai-session" and not os.path.lexists(path):
        from forestay.formats.ai_session.format import readme

        files.create(path, readme().encode(), mode=0o644)


def _backup(binding: Binding, look: Look) -> tuple[str, bytes] | None:
    """The previous version, which could be read: else it would not be written over."""
    ending = conventions_of(binding.layout).backup
    if not ending or look.data is None or look.path != binding.place:
        return None
    return f"{look.path}{ending}", look.data


def _ordered(binding: Binding, looks: Sequence[Look]) -> list[Look]:
    order = conventions_of(binding.layout).order
    return sorted(looks, key=lambda look: _rank(order, look.name))


def _rank(order: Sequence[str], name: str) -> int:
    return next((i for i, ending in enumerate(order) if name.endswith(ending)), -1)


def _without_logs(binding: Binding, tree: Tree) -> tuple[Tree, dict[tuple[str, str], list[Any]]]:
    """Files with their logs empty, and the logs: what they hold need not be weighed again."""
    logs: dict[tuple[str, str], list[Any]] = {}
    made = dict(tree)
    for name, value in tree.items():
        if isinstance(value, list):
            made[name], logs[name, ""] = [], value
            continue
        for key in conventions_of(binding.layout).logs:
            if isinstance(value, dict) and isinstance(value.get(key), list):
                made[name], logs[name, key] = {**made[name], key: []}, value[key]
    return made, logs


def _with_logs(tree: Tree, logs: dict[tuple[str, str], list[Any]]) -> Tree:
    made = dict(tree)
    for (name, key), old in logs.items():
        new = made[name][key] if key else made[name]
        whole = [*old, *new] if new else old
        made[name] = {**made[name], key: whole} if key else whole
    return made


def _longer(look: Look, lines: list[Any]) -> Read | None:
    """A log with lines added; a torn last one is closed and stays."""
    if look.read is None or look.data is None:
        return Read(Document("jsonl", fresh("jsonl", lines), lines), lines)
    new = fresh("jsonl", lines[len(look.value) :])
    if not new:
        return None
    gap = b"\n" if look.data and not look.data.endswith(b"\n") else b""
    return Read(Document("jsonl", look.data + gap + new, lines), lines)


def _written_again(old: Read, kind: str, value: Any) -> Read | None:
    """Return a file that was written by us as a whole, written again: as editing it, but quick."""
    if old.is_usual is None:
        old.is_usual = fresh(kind, old.document.said) == without_id_line(old.document.data)
    if not old.is_usual:
        return None
    return Read(Document(kind, fresh(kind, value), value), value, is_usual=True)
