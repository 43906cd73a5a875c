"""A random walk over the files of a session: our verbs and another program's edits, in turns.

`World` is a session with files in some of the formats, and a list of the items (tasks, decisions,
errors, …) that were recorded, with author and text. A *turn* is some edits of another program,
perhaps commands that only read, and one verb of ours. After it the journal and every file must have
each item of the list once, and nothing else may have changed. The same seed gives the same walk.

A session with a praxis file only has a plan; `Oracle` predicts the state of its phases.

A *stale* edit starts from the content that the file had some turns ago. It only adds items, because
any other change could contradict a newer one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml

from forestay.api.session import Session
from forestay.errors import ForestayError
from forestay.formats.facts import plain
from forestay.formats.from_state import facts_of
from forestay.formats.status_words import SESSION_WORDS, UNIT_WORDS
from forestay.mirror.session_files import absorb_file_edits, mirror_of, write_files
from forestay.model.plan import Phase, Workflow
from forestay.plans import yaml_definition
from tests.mirror.support import AI_SESSION, ID, Project, Ticking, leftovers, swap_in
from tests.plans.test_phase_machine import Oracle

FORMATS = (AI_SESSION, "praxis", "craft", "essay", "orchestrator")
SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
_LONG = "the same beginning " * 230
_OLD_VERSIONS = 3
"""The number of old versions of a file that may be written back."""

TEXTS = (
    *("Write {}", "{} with words of its own", "null {}", "- x: {}", "{}: # 1", "'{}' \"of\" {{}}"),
    *(f"{{}} has {SECRET} in it", f"PASSWORD=hunter2-{SECRET[4:20]} for {{}}"),
    *(
        "{}\tand\x07 signs\x1b[1m",
        "{} on\nseveral\r\nlines\n",
        "  {} has room  ",
        "{} line\u2028end",
    ),
    *(
        "🎉 {} ü",
        "{} \u202eturned\u2069",
        "{}…",
        f"{_LONG}{{}}",
        f"{{}} {_LONG}",
        f"{_LONG}{SECRET} {{}}",
    ),
)
"""Templates of texts; each text contains a unique name."""
PLAIN = ("null", "~", "12", "yes", "2027-01-01", "-", "#", "…", "[redacted:password]")
"""Texts that look like another type or like our own marks; each is used at most once."""


@dataclass
class Item:
    """Something that was recorded by a verb or written into a file, with its present status."""

    kind: str
    text: str
    file: str = ""
    """The format whose file has exactly this text; empty if a verb of ours recorded it."""
    id: str = ""
    stored: str = ""
    """The text as the journal stores it."""
    status: str = "pending"
    is_certain: bool = True
    """Whether the file must still have exactly this text; an old copy may have replaced it."""
    chosen: str = ""
    clean: str = ""
    """The text without its secrets."""

    def forms(self, format_id: str) -> list[str]:
        """Return the texts by which the item may appear in the file of a format."""
        stored = (
            f"{self.stored}: {self.chosen}"
            if self.chosen and format_id == "orchestrator"
            else self.stored
        )
        if self.file != format_id:
            return [stored]
        return [self.text] if self.is_certain else [self.text, stored, self.clean]


@dataclass
class File:
    """A file of the session, its content after earlier turns, and the keys added to it."""

    format: str
    name: str
    versions: list[bytes] = field(default_factory=list)
    keys: dict[str, tuple[Any, bool]] = field(default_factory=dict)
    """Keys unknown to the format, with their value and whether they must be in the file."""
    lost: set[str] = field(default_factory=set)
    """Keys that a restored old file does not have; other old files may have them."""
    last_written: bytes = b""
    """The last content that the other program wrote and still remembers."""
    damaged: bytes | None = None
    """The content before the file was damaged."""
    unknown: bytes | None = None
    """The content at the time of a `forget` while a file of this format was damaged."""


class Slow(Ticking):
    """A clock that advances a given number of milliseconds at every reading."""

    def __init__(self, tick: int) -> None:
        super().__init__()
        self._tick = tick

    def __repr__(self) -> str:
        return f"a clock of {self._tick} ms"

    def now(self) -> int:
        self._now += self._tick
        return self._now


class Violation(AssertionError):
    """A condition does not hold; the message lists the last steps of the walk."""


class World:
    """A session with files, what the journal and the files must contain, and a source of chance."""

    def __init__(self, base: Path, seed: int) -> None:
        self.chance = Random(seed)
        self.seed = seed
        formats = self.chance.sample(FORMATS, self.chance.choice((1, 1, 2, 2, 3, 5)))
        self.phases: Oracle | None = None
        plan = b""
        if formats == ["praxis"]:
            first = self.chance.choice((0, 1))
            self.phases, plan = Oracle(first, 4), yaml_definition.write(workflow(first, 4))
        places = (each for each in formats if each != "essay")
        self.project = Project(base, *places, workflow=plan)
        tick = self.chance.choice((1, 40, 1000, 1000))
        self.has_own_seconds = tick == 1000
        self.project.clock = Slow(tick)
        self.session = self.project.again()
        if "essay" in formats:  # not at the start: the stages would then be the tasks
            self.session.files.bind("essay")
        self.other = self.project.opened()
        self.items: list[Item] = []
        self.status, self.goal = "active", Item("goal", "Add login page", stored="Add login page")
        self.progress: float | None = None
        self.files = [File(b.format, n) for b in self.session.files.list() for n in names(b.format)]
        self.steps: list[str] = []
        self.is_stale = False
        self.is_ours = True
        """Whether no other program has written to the files yet."""
        self.expected_changes: set[str] = set()
        """The names of the journal's items that this turn may change."""
        self.edited_formats: set[str] = set()
        """The formats whose files were edited in this turn."""
        self._numbers = iter(range(10_000))
        self._plain = list(PLAIN)
        self._has_long = False
        self.end_of_turn()

    def close(self) -> None:
        self.other.close()
        self.project.home.close()

    # -- names and places ----------------------------------------------------------------------

    @property
    def formats(self) -> list[str]:
        return [binding.format for binding in self.session.files.list()]

    def path(self, file: File) -> Path:
        (binding,) = (b for b in self.session.files.list() if b.format == file.format)
        if file.name in ("plan", "log", "index"):
            return {
                "plan": self.project.ai("implementation-plan.yaml"),
                "log": self.project.ai("history.jsonl"),
                "index": self.project.index,
            }[file.name]
        return Path(binding.place)

    def file(self, format_id: str, name: str = "main") -> File:
        return next(f for f in self.files if (f.format, f.name) == (format_id, name))

    def damaged_file(self, format_id: str) -> File | None:
        """Return the damaged file of a format; none of its files is written meanwhile."""
        return next(
            (f for f in self.files if f.format == format_id and f.damaged is not None), None
        )

    def select_items(self, kind: str, *statuses: str) -> list[Item]:
        return [t for t in self.items if t.kind == kind and (not statuses or t.status in statuses)]

    def new_text(self, *, is_recorded: bool = True) -> str:
        """Return a new text; `is_recorded` if the journal must be able to tell it from others."""
        if self._plain and self.chance.random() < 0.08:
            return self._plain.pop(self.chance.randrange(len(self._plain)))
        text = self.chance.choice(TEXTS).format(f"m{next(self._numbers)}z")
        if not is_recorded or not text.startswith(_LONG):
            return text
        # The journal cuts long texts: two with the same start would be equal (see `test_words`).
        is_first, self._has_long = not self._has_long, True
        return text if is_first else text[-100:]

    def pick_time(self) -> int:
        ahead = 3_600_000 if self.chance.random() < 0.1 else 0
        return self.project.clock.now() + ahead

    def log_step(self, text: str) -> None:
        self.steps.append(text if len(text) < 400 else f"{text[:100]} … {text[-100:]}")

    # -- a turn --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Run some edits, perhaps reading commands, and a verb; then check everything."""
        before = self.read_journal()
        self.expected_changes, self.edited_formats = set(), set()
        most = self.chance.choice((0, 0, 1, 1, 1, 2))
        for file in self.chance.sample(self.files, min(most, len(self.files))):
            self.edit(file)
            self.edited_formats.add(file.format)
        if self.chance.random() < 0.3:
            self.run_reading_commands()
        self.act()
        after = self.read_journal()
        self.match_new_items(before, after)
        changed = {
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        }
        stray = {n for n in changed if n not in self.expected_changes}
        self.require(
            not stray, "changed without a cause", {n: (before.get(n), after.get(n)) for n in stray}
        )
        self.check_state(after)
        self.end_of_turn()

    def end_of_turn(self) -> None:
        for file in self.files:
            if self.chance.random() < 1 / _OLD_VERSIONS:
                file.last_written = b""
            with suppress(FileNotFoundError):
                data = self.path(file).read_bytes()
                known = (file.unknown, (file.versions or [b""])[-1])
                if not self.damaged_file(file.format) and data not in known:
                    file.versions = [*file.versions, data][-_OLD_VERSIONS:]

    def require(self, holds: object, what: str, *more: object) -> None:
        if not holds:
            way = "\n".join(self.steps[-40:])
            found = "\n".join(map(repr, more))
            clock = self.project.clock
            raise Violation(f"{what}: {found}\nseed {self.seed}, {self.formats}, {clock}\n{way}")

    def read_journal(self) -> dict[str, Any]:
        """Return the items of the journal by name."""
        home = self.project.home
        with home.context.store.view(self.session.id) as view:
            facts = facts_of(
                home.context.journal.state(view), list(home.context.journal.events(view))
            )
        found: dict[str, Any] = {
            "status": facts.status,
            "goal": facts.goal,
            "progress": facts.progress,
        }
        lists: dict[str, list[Any]] = {"task": facts.steps, "agent": facts.agents}
        for kind, rows in lists.items():
            found |= {f"{kind} {row.id}": plain(row) for row in rows}
        logs: dict[str, list[Any]] = {
            "decision": facts.decisions,
            "error": facts.errors,
            "command": facts.commands,
            "file": facts.files,
        }
        for kind, entries in logs.items():
            seen: Counter[str] = Counter()
            for entry in entries:
                text = text_of(row := plain(entry))
                seen[text] += 1
                found[f"{kind} {text} #{seen[text]}"] = row
        return found

    def match_new_items(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Find each new item of the other program in the journal, where it must be once."""
        new = [name for name in after if name not in before and name not in self.expected_changes]
        for item in self.items:
            if item.id:
                continue
            found = next((n for n in new if is_same(item, n, after[n])), None)
            self.require(found, "was not recorded", item, new)
            assert found is not None
            new.remove(found)
            self.expected_changes.add(found)
            item.id = found
            item.stored = text_of(after[found])

    # -- what must be true ---------------------------------------------------------------------

    def check_state(self, reported: dict[str, Any]) -> None:
        self.require(reported["status"] == self.status, "status", reported["status"], self.status)
        self.require(
            name_in(reported["goal"]) == name_in(self.goal.text),
            "goal",
            reported["goal"],
            self.goal,
        )
        self.require(
            reported["progress"] == self.progress, "progress", reported["progress"], self.progress
        )
        self.goal.stored = reported["goal"]
        for item in self.select_items("task") + self.select_items("agent"):
            row = reported.get(item.id)
            self.require(row, "is missing", item)
            assert row is not None
            item.stored = text_of(row)
            status = row.get("status", "pending" if item.kind == "task" else "running")
            self.require(status == item.status, "has another status", item, row)
        for file in self.files:
            self.check_file(file)
        self.require(self.session.verify().ok, "the journal cannot be verified")
        self.require(not leftovers(self.project.folder), "temporary files were left")
        self.check_idle()

    def check_file(self, file: File) -> None:
        path = self.path(file)
        if file.damaged is not None:
            self.require(path.read_bytes() == DAMAGED, "a damaged file was written", file.format)
        if self.damaged_file(file.format):
            return
        self.require(path.exists(), "a file is missing", path)
        value = self.read(file)
        reader = READERS.get((file.format, file.name))
        if reader:
            reader(self, value)
        self.check_keys(file, value)

    def check_keys(self, file: File, value: Any) -> None:
        there = dict(keys_in(value))
        counted = Counter(key for key, _ in keys_in(value) if key.startswith("x_"))
        for key, (wanted, must) in list(file.keys.items()):
            found = there.get(key)
            if not must and key in there and "[redacted" in repr((wanted, found)):
                file.keys[key] = (found, True)
            elif must or key in there:
                self.require(
                    key in there and found == wanted,
                    f"{file.format} {file.name} lost {key}",
                    wanted,
                    found,
                )
                file.keys[key] = (wanted, True)
            else:
                del file.keys[key]
                file.lost.add(key)
        known = file.keys.keys() | file.lost
        double = {key for key, count in counted.items() if count != 1 or key not in known}
        self.require(not double, f"{file.format} {file.name} has keys twice, or again", double)

    def check_texts(self, format_id: str, kind: str, items: list[Item], found: list[str]) -> None:
        """Check that a list of a file has each item once, with an allowed text."""
        left = Counter(found)
        for item in items:
            form = next((f for f in item.forms(format_id) if left[f]), None)
            self.require(form is not None, f"{format_id}: not in {kind}", item, left)
            assert form is not None
            left[form] -= 1
            item.is_certain = item.is_certain or form == item.text
        self.require(not +left, f"{format_id}: too much in {kind}", +left)

    def check_idle(self) -> None:
        """Check that no edit is pending, and that writing and absorbing again changes nothing."""
        before = self.file_bytes()
        pending = mirror_of(self.project.home.context).pending(self.session.id)
        self.require(pending == [], "an edit was not absorbed", pending)
        if self.chance.random() < 0.3:
            count = len(self.project.events())
            again = self.other if self.chance.random() < 0.5 else self.project.home
            write_files(again.context, self.session.id, force=True)
            absorb_file_edits(again.context, self.session.id)
            self.require(
                self.file_bytes() == before,
                "files were written without a reason",
                [k for k, v in self.file_bytes().items() if before.get(k) != v],
            )
            self.require(
                len(self.project.events()) == count, "something was recorded without a reason"
            )
        if self.chance.random() < 0.3:
            self.check_valid()

    def check_valid(self) -> None:
        for binding in self.session.files.list():
            if self.damaged_file(binding.format):
                continue
            for report in self.project.home.files.check(binding.root):
                bad = [f for f in report.findings if self.is_unexpected(f)]
                self.require(not bad, f"{binding.format}: check finds", bad)

    def is_unexpected(self, finding: Any) -> bool:
        """Return whether a finding is an error, or a warning in files that only we wrote.

        A verb may complete an essay too early, so that warning is allowed.
        """
        of_ours = self.is_ours and finding.code != "completed-too-early"
        return finding.severity == "error" or (finding.severity == "warning" and of_ours)

    def file_bytes(self) -> dict[str, bytes]:
        found = {}
        for file in self.files:
            with suppress(FileNotFoundError):
                found[f"{file.format} {file.name}"] = self.path(file).read_bytes()
        return found

    # -- the other program ---------------------------------------------------------------------

    def edit(self, file: File) -> None:
        if damaged_file := self.damaged_file(file.format):
            assert damaged_file.damaged is not None
            swap_in(self.path(damaged_file), damaged_file.damaged)
            self.log_step(f"{damaged_file.format} {damaged_file.name} is repaired")
            damaged_file.damaged = None
            return
        if not self.path(file).exists() or not file.versions:
            return
        whole, weights = zip(*FILE_ACTIONS.items(), strict=True)
        (move,) = self.chance.choices(whole, weights)
        move(self, file)

    def change(self, file: File) -> None:
        """Read the file, change something, write the whole file."""
        self.rewrite(file, self.path(file).read_bytes(), EDITS)

    def edit_stale_copy(self, file: File) -> None:
        """Add something to the content of some turns ago, and write that."""
        old = self.chance.choice(file.versions)
        self.mark_uncertain(file)
        self.is_stale = True
        self.rewrite(file, old, ADDING_EDITS)
        self.is_stale = False

    def edit_from_memory(self, file: File) -> None:
        """Add something to what this program wrote last, without reading the file again."""
        if file.last_written:
            self.mark_uncertain(file)
            self.is_stale = True
            self.rewrite(file, file.last_written, ADDING_EDITS)
            self.is_stale = False

    def rewrite(self, file: File, data: bytes, moves: dict[str, list[Edit]]) -> None:
        kind = f"{file.format} {file.name}"
        value = parse(file, data)
        made: list[str] = []
        for _ in range(self.chance.choice((1, 1, 1, 2))):
            move = self.chance.choice([*moves.get(kind, []), add_key])
            if made and move is remove_key:
                break  # together with another change the file could equal an old copy
            done = move(self, file, value)
            if done:
                made.append(f"{move.__name__}({done!r})")
            if move is remove_key:
                break
        # A plan has no time: a reformatted old copy looks as if the last change was reverted.
        is_plain = self.is_stale and file.name == "plan"
        if made or (not is_plain and self.chance.random() < 0.2):
            how = "stale" if moves is ADDING_EDITS else "now"
            self.write(file, value)
            self.log_step(f"{kind} ({how}): {', '.join(made) or 'reformatted'}")

    def edit_by_hand(self, file: File) -> None:
        """Change the name in the goal or remove the line of a task, as with an editor."""
        data = self.path(file).read_bytes()
        if file.format not in ("craft", "orchestrator") or file.name != "main":
            return
        if self.chance.random() < 0.5:
            self.change_goal_by_hand(file, data)
        else:
            self.remove_task_by_hand(file, data)

    def change_goal_by_hand(self, file: File, data: bytes) -> None:
        goal = parse(file, data)["goal"]
        found = re.search(r"m\d+z", goal)
        if not found or not goal.isascii() or data.count(found[0].encode()) != 1:
            return
        text = goal.replace(found[0], name := f"m{next(self._numbers)}z")
        swap_in(self.path(file), data.replace(found[0].encode(), name.encode()))
        clean = self.project.home.context.journal.redact(text)
        self.goal = Item("goal", text, file.format, clean=clean)
        self.expected_changes.add("goal")
        self.is_ours = False
        self.log_step(f"{file.format} {file.name}: goal is {text!r}")

    def remove_task_by_hand(self, file: File, data: bytes) -> None:
        pending = parse(file, data)["pending_tasks"]
        able = [t for t in self.select_items("task") if t.id and (text_in(t, file, pending))]
        lines = data.splitlines(keepends=True)
        for item in able:
            sought = json.dumps(text_in(item, file, pending)).encode()
            at = [n for n, line in enumerate(lines) if line.strip() == sought + b","]
            if len(at) == 1:
                swap_in(self.path(file), b"".join(lines[: at[0]] + lines[at[0] + 1 :]))
                item.is_certain = item.is_certain and item.file != file.format
                self.is_ours = False
                self.log_step(f"{file.format} {file.name}: without the line {sought!r}")
                return

    def write(self, file: File, value: Any) -> None:
        self.is_ours = False
        file.last_written = format_as_other(self.chance, file, value)
        swap_in(self.path(file), file.last_written)

    def restore_old_version(self, file: File) -> None:
        """Write an old version of the file back, as a tool does."""
        self.mark_uncertain(file, keys=True)
        old = self.chance.choice(file.versions)
        file.lost |= {key for key, _ in keys_in(parse(file, old))} - file.keys.keys()
        swap_in(self.path(file), old)
        self.log_step(f"{file.format} {file.name} is restored to an old version")

    def delete(self, file: File) -> None:
        # A shared index is created again by each session, and the texts of a log are not stored.
        self.mark_uncertain(file, keys=file.name == "index", secrets=file.name != "log")
        self.path(file).unlink()
        self.log_step(f"{file.format} {file.name} is deleted")

    def damage(self, file: File) -> None:
        if file.name == "log" or file.format in self.edited_formats:
            return
        file.damaged = self.path(file).read_bytes()
        swap_in(self.path(file), DAMAGED)
        self.log_step(f"{file.format} {file.name} is damaged")

    def mark_uncertain(self, file: File, *, keys: bool = False, secrets: bool = False) -> None:
        """Allow texts of the other program in a file, and its keys, to be replaced or missing."""
        for item in [*self.items, self.goal]:
            if item.file == file.format and (not secrets or item.clean != item.text):
                item.is_certain = False
        has_secrets = self.project.home.context.journal.find_secrets(self.path(file).read_text())
        for key, (wanted, _) in file.keys.items():
            if keys or has_secrets:
                file.keys[key] = (wanted, False)

    def read(self, file: File) -> Any:
        return parse(file, self.path(file).read_bytes())

    def run_reading_commands(self) -> None:
        """Check that commands that only read write and record nothing."""
        before, count = self.file_bytes(), len(self.project.events())
        self.session.status()
        self.session.brief(budget=2000)
        self.require(self.file_bytes() == before, "a reading command wrote")
        self.require(len(self.project.events()) == count, "a reading command recorded")

    # -- our verbs -----------------------------------------------------------------------------

    def act(self) -> None:
        """Run a verb in one of two processes; record a note if it is refused."""
        home = self.chance.choice((self.project.home, self.other))
        session = home.session(self.session.id)
        verbs = PLAN_VERBS if self.phases else VERBS
        verb = (
            self.chance.choice(verbs) if self.chance.random() > COMMAND_SHARE else record_by_command
        )
        try:
            self.log_step(
                f"{'other ' if home is self.other else ''}{verb(self, session) or verb.__name__}"
            )
        except ForestayError as error:
            self.log_step(f"{verb.__name__} was refused: {error}")
            session.note("go on")

    def add(self, kind: str, text: str, event: Any, name: str, stored: str, **more: Any) -> None:
        self.items.append(Item(kind, text, id=name, stored=stored, **more))
        self.expected_changes.add(name)


Edit = Callable[[World, File, Any], object]
DAMAGED = b"{ half: [\n\t"
COMMAND = """
from forestay.cli.main import entry
from forestay.base.clock import Clock
Clock.now = lambda self: {now}
entry()
"""


def workflow(base: int, total: int) -> Workflow:
    phases = [Phase(number=n, name=f"Part {n}") for n in range(base, base + total)]
    return Workflow(name="parts", base=base, total=total, phases=phases)


def names(format_id: str) -> tuple[str, ...]:
    return ("main", "plan", "log", "index") if format_id == "ai-session" else ("main",)


def name_in(text: str) -> str:
    """Return the unique name in a text, or the whole text if it has none."""
    found = re.search(r"m\d+z", text[:3000])
    if found:
        return found[0]
    return "long" if text.startswith(_LONG[:1000]) else text.strip()


TEXT_KEYS = ("title", "what", "message", "name", "path", "id")


def text_of(row: dict[str, Any]) -> str:
    return str(next(row[key] for key in TEXT_KEYS if key in row))


def is_same(item: Item, name: str, row: dict[str, Any]) -> bool:
    return name.startswith(f"{item.kind} ") and name_in(text_of(row)) == name_in(item.text)


def keys_in(value: Any) -> Iterator[tuple[str, Any]]:
    for key, each in value.items() if isinstance(value, dict) else ():
        if isinstance(key, str) and key.startswith("x_"):
            yield key, each
        else:
            yield from keys_in(each)
    for each in value if isinstance(value, list) else ():
        yield from keys_in(each)


def parse(file: File, data: bytes) -> Any:
    if file.name == "log":
        return [json.loads(line) for line in data.splitlines()]
    return json.loads(data) if data.lstrip()[:1] == b"{" else yaml.safe_load(data)


def format_as_other(chance: Random, file: File, value: Any) -> bytes:
    """Return a document as another program may format it."""
    ascii = chance.random() < 0.5
    if file.name == "log":
        return "".join(f"{json.dumps(line, ensure_ascii=ascii)}\n" for line in value).encode()
    if isinstance(value, dict) and chance.random() < 0.2:
        value = dict(chance.sample(list(value.items()), len(value)))
    if file.format in ("ai-session", "essay"):
        text = yaml.safe_dump(value, allow_unicode=not ascii, sort_keys=ascii, width=200)
        return with_line_ends(chance, str(text))
    indent = chance.choice((2, 2, 4, "\t", None))
    return with_line_ends(chance, json.dumps(value, indent=indent, ensure_ascii=ascii))


def with_line_ends(chance: Random, text: str) -> bytes:
    """Return a text with the line ends of some system."""
    set_session_status = chance.choice(("\n", "\n", "\n", "\r\n"))
    return text.replace("\n", set_session_status).encode() + chance.choice(
        (b"", set_session_status.encode())
    )


def stamp(world: World, format_id: str) -> str:
    from forestay.formats import timestamps

    return timestamps.write(world.pick_time())


# -- edits: each returns what it changed, or None if the file has no place for it ---------------


def add_key(world: World, file: File, value: Any) -> object:
    """Add an unknown key anywhere in the document."""
    if file.name == "log":
        return None
    number = next(world._numbers)
    key = f"x_{number}"
    simple = world.chance.choice(("", number, None, number + 0.5, True))
    holds = world.chance.choice(
        (simple, [number, {f"y_{number}": "c"}], {"deep": world.new_text(is_recorded=False)})
    )
    place = world.chance.choice(list(objects_in(file, value)))
    items = list(place.items())
    items.insert(world.chance.randrange(len(items) + 1), (key, holds))
    place.clear()
    place.update(items)
    file.keys[key] = (holds, True)
    return key


_WITHOUT_NEW_KEYS = (
    *("forestay", "completed_work", "errors", "by_agent", "phase_timing", "checkpoints"),
    *("phase_artifacts", "stages", "user_options", "error"),
)
"""Keys whose values get no unknown key: they are rewritten as a whole, their own keys are names,
or their elements may become plain texts."""


def objects_in(file: File, value: Any) -> Iterator[dict[str, Any]]:
    """Return the objects of a document that can have an unknown key."""
    if isinstance(value, dict):
        yield value
        for key, each in value.items():
            if not str(key).startswith("x_") and key not in _WITHOUT_NEW_KEYS:
                yield from objects_in(file, each)
    elif isinstance(value, list):
        for each in value:
            yield from objects_in(file, each)


def remove_key(world: World, file: File, value: Any) -> object:
    """Remove an unknown key.

    Not within one second or while the file has a future time: it then equals an old copy.
    """
    if not file.keys or not world.has_own_seconds or is_ahead(world, value):
        return None
    key = world.chance.choice(list(file.keys))
    del file.keys[key]
    delete_key(value, key)
    return key


def is_ahead(world: World, value: Any) -> bool:
    from forestay.formats import timestamps

    times = map(
        timestamps.read, re.findall(r"\d{4}-\d\d-\d\dT[\d:.]+Z", json.dumps(value, default=str))
    )
    return max((time for time in times if time), default=0) > world.project.clock.now()


def delete_key(value: Any, key: str) -> None:
    if isinstance(value, dict):
        value.pop(key, None)
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        delete_key(each, key)


def add_theirs(world: World, kind: str, file: File, text: str, **more: Any) -> str:
    clean = world.project.home.context.journal.redact(text)
    world.items.append(Item(kind, text, file.format, clean=clean, **more))
    return text


def add_task(world: World, file: File, value: Any) -> object:
    text = world.new_text()
    value["pending_tasks"].append(text)
    return add_theirs(world, "task", file, text)


def add_done(world: World, file: File, value: Any) -> object:
    text = world.new_text()
    value["completed_work"].append(done_form(file, text))
    return add_theirs(world, "task", file, text, status="done")


def done_form(file: File, text: str) -> Any:
    return text if file.format == "craft" else {"task": text, "outcome": "", "files": []}


def text_in(item: Item, file: File, listed: list[Any]) -> str:
    """Return the text by which an item is in a list, if it is there exactly once."""
    return next((f for f in item.forms(file.format) if listed.count(f) == 1), "")


def end_task(world: World, file: File, value: Any) -> object:
    """Move a task to the completed work."""
    pending = value["pending_tasks"]
    able = [
        (t, f)
        for t in world.select_items("task")
        if t.status not in ("done", "skipped") and t.id and (f := text_in(t, file, pending))
    ]
    if not able:
        return None
    item, text = world.chance.choice(able)
    pending.remove(text)
    value["completed_work"].append(done_form(file, text))
    item.status = "done"
    world.expected_changes.add(item.id)
    return text


def remove_task(world: World, file: File, value: Any) -> object:
    """Remove a task from the list; the journal still has it."""
    pending = value["pending_tasks"]
    able = [(t, f) for t in world.select_items("task") if t.id and (f := text_in(t, file, pending))]
    if not able:
        return None
    item, text = world.chance.choice(able)
    pending.remove(text)
    if item.file == file.format:
        item.is_certain = False
    return text


def add_decision(world: World, file: File, value: Any) -> object:
    text = world.new_text()
    at = stamp(world, file.format)
    entry = (
        {"timestamp": at, "context": text, "options": ["a", "b"], "chosen": "a", "reasoning": ""}
        if file.format == "craft"
        else {"decision": text, "rationale": "", "timestamp": at}
    )
    value["decisions_made"].append(entry)
    return add_theirs(world, "decision", file, text, chosen="a" if file.format == "craft" else "")


DECISION_KEYS = ("context", "decision")


def remove_decision(world: World, file: File, value: Any) -> object:
    listed = value["decisions_made"]
    new = {
        item.text
        for item in world.select_items("decision")
        if item.id in {"", *world.expected_changes}
    }
    able = [n for n, each in enumerate(listed) if not new & {*map(each.get, DECISION_KEYS)}]
    # A decision with an unknown key is removed under the conditions of `remove_key`.
    able = [n for n in able if world.has_own_seconds or not dict(keys_in(listed[n]))]
    if not able:
        return None
    entry = listed.pop(world.chance.choice(able))
    for key, _ in keys_in(entry):
        del file.keys[key]
    text = next(filter(None, map(entry.get, DECISION_KEYS)))
    for item in world.select_items("decision"):
        if item.file == file.format and item.text == text:
            item.is_certain = False
    return text


def reword_decision(world: World, file: File, value: Any) -> object:
    """Reword a decision; most words stay, so that it counts as the same decision."""
    listed = value["decisions_made"]
    able = [
        t for t in world.select_items("decision") if t.id and not t.chosen and len(t.stored) < 60
    ]
    able = [
        t for t in able if t.stored == t.text and t.text.isprintable() and name_in(t.text) != t.text
    ]
    forms = {t.id: {t.text, t.stored} for t in able}
    rows = [
        (t, e)
        for t in able
        for e in listed
        if {*map(e.get, DECISION_KEYS)} & forms[t.id] and world.has_own_seconds
    ]
    if not rows:
        return None
    item, entry = world.chance.choice(rows)
    key = next(key for key in DECISION_KEYS if key in entry)
    old, new = entry[key], f"{entry[key]} and m{next(world._numbers)}z"
    if sum(1 for e in listed if old in e.values()) != 1 or "[redacted" in old:
        return None
    entry.update({k: new for k in (key, "chosen") if entry.get(k) == old})
    if entry.get("options") == [old]:
        entry["options"] = [new]
    world.expected_changes |= {item.id, f"decision {new} #1"}
    item.id, item.text, item.stored = f"decision {new} #1", new, new
    item.file, item.is_certain, item.clean = file.format, True, new
    return f"{old!r} is {new!r}"


def add_error(world: World, file: File, value: Any) -> object:
    text = world.new_text()
    entry = {"message": text, "category": "logical", "agent": "", "timestamp": stamp(world, "")}
    value["errors"].append(entry if world.chance.random() < 0.8 else {"message": text})
    return add_theirs(world, "error", file, text)


def add_agent(world: World, file: File, value: Any) -> object:
    id = f"a-m{next(world._numbers)}z"
    if file.format == "craft":
        value["agents"].append(
            {
                "id": id,
                "type": "code",
                "status": "running",
                "progress": 0.2,
                "started_at": stamp(world, "craft"),
            }
        )
    else:
        value["agents"].append(
            {
                "id": id,
                "type": "code",
                "task": "",
                "status": "in_progress",
                "started": stamp(world, ""),
            }
        )
    return add_theirs(world, "agent", file, id, status="running")


def end_agent(world: World, file: File, value: Any) -> object:
    able = [a for a in world.select_items("agent", "running", "failed") if a.id]
    if not able:
        return None
    item = world.chance.choice(able)
    (entry,) = (e for e in value["agents"] if e["id"] == item.text)
    entry["status"] = UNIT_WORDS[file.format]["done"]
    entry["completed_at" if file.format == "craft" else "completed"] = stamp(world, "")
    item.status = "done"
    world.expected_changes.add(item.id)
    return item.text


def set_goal(world: World, file: File, value: Any) -> object:
    value["goal"] = text = world.new_text()
    clean = world.project.home.context.journal.redact(text)
    world.goal = Item("goal", text, file.format, clean=clean)
    world.expected_changes.add("goal")
    return text


def set_progress(world: World, file: File, value: Any) -> object:
    share = world.chance.choice((0.0, 0.25, 0.75, 1.0))
    if value["progress"] == share or not world.has_own_seconds:
        return None
    value["progress"] = world.progress = share
    world.expected_changes.add("progress")
    return str(share)


def set_status(world: World, file: File, value: Any) -> object:
    """Change the status; within one second that could not be told from an old copy."""
    if "status" in world.expected_changes or not world.has_own_seconds:
        return None
    world.expected_changes.add("status")
    word, status = world.chance.choice(
        [
            (w, s)
            for s, w in SESSION_WORDS[file.format].items()
            if s in ("active", "paused", "completed")
        ]
    )
    if value["status"] == word:
        return None
    value["status"], world.status = word, status
    return word


def set_index(world: World, file: File, value: Any) -> object:
    (entry,) = (e for e in value["active_features"] if e["feature_id"] == ID)
    return set_status(world, file, entry)


def pause_praxis(world: World, file: File, value: Any) -> object:
    if (
        "status" in world.expected_changes
        or not world.has_own_seconds
        or world.status not in ("active", "paused")
    ):
        return None
    if world.phases and world.phases.last in world.phases.done:
        return None  # a file with all phases passed is complete, whatever its flags are
    life = value["lifecycle"]
    world.expected_changes.add("status")
    if life["paused"]:
        # Lifting a pause resumes the session, even if an error has a later (future) time.
        life.update(paused=False, resumed_at=stamp(world, "praxis"))
        world.status = "active"
    else:
        life.update(paused=True, paused_at=stamp(world, "praxis"), paused_reason="user_request")
        world.status = "paused"
    return world.status


def planned(value: Any) -> list[dict[str, Any]]:
    return [task for phase in value["phases"] for task in phase["tasks"]]


def add_planned(world: World, file: File, value: Any) -> object:
    if not value.get("phases"):
        return None
    text, id = world.new_text(), f"p{next(world._numbers)}"
    value["phases"][-1]["tasks"].append(
        {
            "task_id": id,
            "description": text,
            "agent": "",
            "status": "pending",
            "started_at": None,
            "completed_at": None,
            "artifacts": [],
        }
    )
    return add_theirs(world, "task", file, text)


def end_planned(world: World, file: File, value: Any) -> object:
    rows = {f"task {task['task_id']}": task for task in planned(value)}
    # A file that was just repaired may lack some tasks.
    able = [
        t
        for t in world.select_items("task")
        if t.id in rows and t.status not in ("done", "skipped")
    ]
    if not able:
        return None
    item = world.chance.choice(able)
    rows[item.id].update(status="completed", completed_at=stamp(world, ""))
    item.status = "done"
    world.expected_changes.add(item.id)
    return item.id


def reword_planned(world: World, file: File, value: Any) -> object:
    rows = {f"task {task['task_id']}": task for task in planned(value)}
    able = [t for t in world.select_items("task") if t.id in rows]
    if not able:
        return None
    item = world.chance.choice(able)
    rows[item.id]["description"] = text = world.new_text()
    item.text, item.file, item.is_certain = text, file.format, True
    world.expected_changes.add(item.id)
    return text


def add_line(world: World, file: File, value: Any) -> object:
    text = world.new_text()
    value.append(
        {
            "timestamp": stamp(world, ""),
            "command": text,
            "arguments": "",
            "model": "opus",
            "agent": "x",
            "task_id": None,
            "status": "success",
            "duration_ms": 1,
        }
    )
    return add_theirs(world, "command", file, text)


ADDING_EDITS: dict[str, list[Edit]] = {
    "craft main": [add_task, add_task, add_done, add_decision, add_agent],
    "orchestrator main": [add_task, add_task, add_done, add_decision, add_error, add_agent],
    "ai-session plan": [add_planned],
    "ai-session log": [add_line],
}
_MORE: dict[str, list[Edit]] = {
    "craft main": [
        end_task,
        end_task,
        remove_task,
        remove_decision,
        reword_decision,
        end_agent,
        set_goal,
        set_progress,
        set_status,
        remove_key,
    ],
    "orchestrator main": [
        end_task,
        end_task,
        remove_task,
        remove_decision,
        reword_decision,
        end_agent,
        set_goal,
        set_status,
        remove_key,
    ],
    "ai-session plan": [end_planned, reword_planned],
    "ai-session index": [set_index, remove_key],
    "ai-session main": [remove_key],
    "praxis main": [pause_praxis, remove_key],
    "essay main": [set_status, remove_key],
}
EDITS = {
    key: ADDING_EDITS.get(key, []) + _MORE.get(key, [])
    for key in ADDING_EDITS.keys() | _MORE.keys()
}
FILE_ACTIONS: dict[Callable[[World, File], None], int] = {
    World.change: 12,
    World.edit_by_hand: 2,
    World.edit_stale_copy: 5,
    World.edit_from_memory: 5,
    World.restore_old_version: 2,
    World.delete: 1,
    World.damage: 1,
}


# -- verbs --------------------------------------------------------------------------------------


def note(world: World, session: Session) -> str:
    session.note(text := world.new_text())
    return f"note {text!r}"


def decide(world: World, session: Session) -> str:
    text, chosen = world.new_text(), world.chance.choice(("", "b"))
    event: Any = session.decide(
        text, because="so", options=["a", "b"] if chosen else [], chosen=chosen
    )
    stored = event.body.what
    world.add("decision", text, event, f"decision {stored} #1", stored, chosen=chosen)
    return f"decide {text!r}"


def error(world: World, session: Session) -> str:
    event: Any = session.record.error(text := world.new_text())
    world.add("error", text, event, f"error {event.body.message} #1", event.body.message)
    return f"error {text!r}"


def task_add(world: World, session: Session) -> str:
    event: Any = session.tasks.add(text := world.new_text())
    world.add("task", text, event, f"task {event.body.step}", event.body.title)
    return f"task add {text!r} ({event.body.step})"


def some_task(world: World, *statuses: str) -> Item:
    able = [t for t in world.select_items("task", *statuses) if t.id]
    if not able:
        raise ForestayError("there is no task")
    return world.chance.choice(able)


def set_item_status(world: World, item: Item, status: str) -> str:
    item.status = status
    world.expected_changes.add(item.id)
    return f"{item.id} is {status}"


def task_start(world: World, session: Session) -> str:
    item = some_task(world, "pending", "blocked")
    session.tasks.start(item.id.removeprefix("task "))
    return set_item_status(world, item, "running")


def task_done(world: World, session: Session) -> str:
    item = some_task(world, "pending", "running")
    session.tasks.done(item.id.removeprefix("task "), outcome=world.chance.choice(("", "fine")))
    return set_item_status(world, item, "done")


def task_block(world: World, session: Session) -> str:
    item = some_task(world, "running")
    session.tasks.block(item.id.removeprefix("task "), "it waits")
    return set_item_status(world, item, "blocked")


def agent_start(world: World, session: Session) -> str:
    id = f"a-m{next(world._numbers)}z"
    session.agents.start(id, type="code", task="works")
    world.add("agent", id, None, f"agent {id}", id, status="running")
    return f"agent {id}"


def some_agent(world: World) -> Item:
    able = [t for t in world.select_items("agent", "running") if t.id]
    if not able:
        raise ForestayError("there is no agent")
    return world.chance.choice(able)


def agent_progress(world: World, session: Session) -> str:
    item = some_agent(world)
    session.agents.progress(item.text, 0.5)
    return set_item_status(world, item, "running")


def agent_done(world: World, session: Session) -> str:
    item = some_agent(world)
    session.agents.done(item.text, result=world.new_text())
    return set_item_status(world, item, "done")


def agent_fail(world: World, session: Session) -> str:
    item = some_agent(world)
    event: Any = session.agents.fail(item.text, text := world.new_text())
    world.add("error", text, event, f"error {event.body.error} #1", event.body.error)
    return set_item_status(world, item, "failed")


def tokens(world: World, session: Session) -> None:
    session.record.tokens(world.chance.randrange(100_000))


def command(world: World, session: Session) -> str:
    event: Any = session.record.command(text := world.new_text(), arguments=world.new_text())
    world.add("command", text, event, f"command {event.body.name} #1", event.body.name)
    return f"command {text!r}"


def rename(world: World, session: Session) -> str:
    event: Any = session.record.rename(text := world.new_text())
    world.goal = Item("goal", text, stored=event.body.goal)
    world.expected_changes.add("goal")
    return f"rename {text!r}"


def set_session_status(world: World, status: str) -> str:
    world.status = status
    world.expected_changes.add("status")
    return f"session is {status}"


def pause(world: World, session: Session) -> str:
    session.pause()
    return set_session_status(world, "paused")


def resume(world: World, session: Session) -> str:
    session.resume()
    return set_session_status(world, "active")


def complete(world: World, session: Session) -> str:
    session.complete()
    return set_session_status(world, "completed")


def reopen(world: World, session: Session) -> str:
    session.lifecycle.reopen("more to do")
    return set_session_status(world, "active")


def again(world: World, session: Session) -> str:
    """Continue in a new process."""
    world.session = world.project.again()
    world.session.note("go on")
    return "another process"


def do_and_undo(world: World, session: Session) -> str:
    """Run a verb and undo it at once: its item is gone, and nothing else has changed.

    Not `task_done` within one second: ending the task in a file would then equal an old copy. The
    former goal returns as the journal stores it, without secrets and shortened.
    """
    before = deepcopy((world.items, world.goal, world.status))
    able = [verb for verb in UNDOABLE if world.has_own_seconds or verb is not task_done]
    reported = world.chance.choice(able)(world, session)
    session.undo()
    world.items, world.goal, world.status = before
    world.goal.is_certain &= "goal" not in world.expected_changes
    return f"undone: {reported}"


def file(world: World, session: Session) -> str:
    """Record a deleted file in a folder with an unusual name."""
    path = f"{world.chance.choice(('a b', 'ü', 'x'))}/m{next(world._numbers)}z.py"
    session.record.file(f"{world.project.folder}/{path}", action="deleted")
    world.add("file", path, None, f"file {path} #1", path)
    return f"file {path}"


def forget(world: World, session: Session) -> str:
    """Record a decision and forget it: no file contains it any more.

    The stored renderings of older files are erased with it, so no old copy is written back later.
    Files that are damaged at that time may contain the text, so their last rendering is erased too.
    """
    before = deepcopy(world.items)
    text = f"Forget this: m{next(world._numbers)}z"
    event = session.decide(text, because="so")
    done = session.lifecycle.forget(event.id)
    world.items = before
    for file in world.files:
        file.versions.clear()
        file.last_written = b""
        there = file.damaged or (p.read_bytes() if (p := world.path(file)).exists() else None)
        file.unknown = there if world.damaged_file(file.format) else None
    world.require(not done.left, "files may contain what was forgotten", done.left)
    for each in (f for f in world.files if not world.damaged_file(f.format)):
        data = world.path(each).read_bytes() if world.path(each).exists() else b""
        world.require(b"Forget this" not in data, f"{each.format} contains what was forgotten")
    return f"forget {text!r}"


def record_by_command(world: World, session: Session) -> str:
    """Run a verb as a command of the user, in another process."""
    kind, words = world.chance.choice(
        (("task", ["task", "add"]), ("decision", ["decide"]), ("error", ["error"]))
    )
    body = plain(run_command(world, *words, text := world.new_text()))
    stored = text_of(body)
    name = f"task {body['step']}" if kind == "task" else f"{kind} {stored} #1"
    world.add(kind, text, None, name, stored)
    return f"forestay {' '.join(words)} {text!r}"


def run_command(world: World, *words: str) -> Any:
    """Run a command; return the body of the event that it recorded."""
    base, id = world.project.base, world.session.id
    command = COMMAND.format(now=world.project.clock.now())
    done = subprocess.run(
        [sys.executable, "-c", command, *words[:-1], "--session", id, "--json", "--", words[-1]],
        cwd=world.project.folder,
        env={"FORESTAY_HOME": str(base / "home"), "PATH": os.environ["PATH"], "HOME": str(base)},
        capture_output=True,
        text=True,
    )
    world.require(done.returncode in (0, 2, 4), "a command failed", words, done.stderr)
    if done.returncode:
        raise ForestayError(done.stderr)
    found = json.loads(done.stdout)["event"]["id"]
    return next(event.body for event in world.project.events() if event.id == found)


def judge(world: World, word: str) -> str:
    """Apply a verdict on the current phase to the prediction."""
    phases = world.phases
    assert phases is not None
    number = phases.current
    phases.judge(number, word)
    if word == "passed" and number == phases.last:
        world.status = "completed"
    world.expected_changes |= {"status", *(f"task phase-{n}" for n in range(9))}
    return f"phase {number} is {word}"


def phase_done(world: World, session: Session) -> str:
    assert world.phases is not None
    session.phases.done(world.phases.current)
    return judge(world, "passed")


def phase_fail(world: World, session: Session) -> str:
    assert world.phases is not None
    session.phases.fail(world.phases.current, issue=world.new_text())
    return judge(world, "failed")


def phase_retry(world: World, session: Session) -> str:
    session.phases.retry()
    world.expected_changes |= {f"task phase-{n}" for n in range(9)}
    return "phase again"


def phase_rollback(world: World, session: Session) -> str:
    phases = world.phases
    assert phases is not None
    number = world.chance.randrange(phases.base, phases.current + 1)
    session.phases.rollback(number, because="more to do")
    phases.go_back(number)
    world.expected_changes |= {f"task phase-{n}" for n in range(9)}
    set_session_status(world, "active")
    return f"back to phase {number}"


UNDOABLE = (note, decide, error, task_add, task_start, task_done, agent_start, rename, pause, file)
VERBS: list[Callable[[World, Session], str | None]] = [
    *(note, note, decide, decide, error, task_add, task_add, task_add, task_start, task_done),
    *(task_done, task_block, agent_start, agent_progress, agent_done, agent_fail, tokens, command),
    *(
        rename,
        pause,
        resume,
        resume,
        complete,
        reopen,
        reopen,
        again,
        again,
        do_and_undo,
        do_and_undo,
        file,
    ),
    *(forget,),
]
PLAN_VERBS: list[Callable[[World, Session], str | None]] = [
    *(note, decide, error, agent_start, agent_progress, agent_done, agent_fail, tokens, command),
    *(rename, pause, resume, resume, complete, reopen, again, again, file, forget),
    *(phase_done, phase_done, phase_done, phase_fail, phase_retry, phase_rollback),
]
"""Verbs for a session with a plan, whose tasks follow its phases."""
COMMAND_SHARE = 0.01
"""The share of verbs that run as a command, which is slow."""


# -- the content of files -----------------------------------------------------------------------


def read_craft(world: World, value: Any) -> None:
    listed = [e["path"] for e in value["files_modified"]]
    world.check_texts("craft", "files_modified", world.select_items("file"), listed)
    _check_common(world, value, "craft", [e["context"] for e in value["decisions_made"]])


def read_orchestrator(world: World, value: Any) -> None:
    decided = [e["decision"] for e in value["decisions_made"]]
    _check_common(world, value, "orchestrator", decided)
    errors = [e["message"] if isinstance(e, dict) else e for e in value["errors"]]
    world.check_texts("orchestrator", "errors", world.select_items("error"), errors)


def _check_common(world: World, value: Any, format_id: str, decided: list[str]) -> None:
    done = [t for t in world.select_items("task") if t.status in ("done", "skipped")]
    rest = [t for t in world.select_items("task") if t.status not in ("done", "skipped")]
    work = [e if isinstance(e, str) else e["task"] for e in value["completed_work"]]
    world.check_texts(format_id, "completed_work", done, work)
    world.check_texts(format_id, "pending_tasks", rest, value["pending_tasks"])
    world.check_texts(format_id, "decisions_made", world.select_items("decision"), decided)
    agents = {e["id"]: e["status"] for e in value["agents"]}
    wanted = {t.text: UNIT_WORDS[format_id][t.status] for t in world.select_items("agent")}
    world.require(agents == wanted, f"{format_id}: agents", agents, wanted)
    world.require(
        value["status"] == SESSION_WORDS[format_id][world.status], f"{format_id}: status", value
    )
    check_goal(world, format_id, value["goal"])


def check_goal(world: World, format_id: str, goal: str) -> None:
    world.require(goal in world.goal.forms(format_id), f"{format_id}: goal", goal, world.goal)


def read_plan(world: World, value: Any) -> None:
    rows = planned(value)
    found = {f"task {row['task_id']}": row["status"] for row in rows}
    wanted = {t.id: UNIT_WORDS["ai-session"][t.status] for t in world.select_items("task")}
    world.require(found == wanted and len(rows) == len(found), "plan", found, wanted)
    world.check_texts(
        "ai-session", "plan", world.select_items("task"), [row["description"] for row in rows]
    )


def read_index(world: World, value: Any) -> None:
    entries = [e for e in value["active_features"] if e["feature_id"] == ID]
    words = [e["status"] for e in entries]
    world.require(
        words == [SESSION_WORDS["ai-session"][world.status]], "index", value, world.status
    )


def read_log(world: World, value: Any) -> None:
    ran = [line["command"] for line in value if "event" not in line]
    world.check_texts("ai-session", "log", world.select_items("command"), ran)
    kinds = Counter(line["event"] for line in value if "event" in line)
    happened = Counter(e.kind for e in world.project.events() if e.kind != "command.ran")
    more = kinds - happened
    world.require(not more, "the log has lines without an event", more)


def read_praxis(world: World, value: Any) -> None:
    life = value["lifecycle"]
    # The last error marks a failed session, even if its pause was lifted.
    is_so = life["last_error"] if world.status == "failed" else life["paused"]
    wanted = world.status in ("paused", "failed")
    world.require(bool(is_so) == wanted, "praxis: paused", life, world.status)
    if phases := world.phases:
        found = (value["current_phase"], sorted(value["completed_phases"]))
        world.require(found == (phases.current, sorted(phases.done)), "praxis: phases", value)


def read_essay(world: World, value: Any) -> None:
    world.require(
        value["status"] == SESSION_WORDS["essay"][world.status], "essay: status", value["status"]
    )


READERS: dict[tuple[str, str], Callable[[World, Any], None]] = {
    ("craft", "main"): read_craft,
    ("orchestrator", "main"): read_orchestrator,
    ("ai-session", "plan"): read_plan,
    ("ai-session", "index"): read_index,
    ("ai-session", "log"): read_log,
    ("praxis", "main"): read_praxis,
    ("essay", "main"): read_essay,
}


def walk(base: Path, seed: int, turns: int) -> None:
    """Walk some turns from a seed; raise `Violation` if a condition does not hold."""
    base.mkdir(parents=True, exist_ok=True)
    world = World(base, seed)
    try:
        for _ in range(turns):
            world.turn()
    finally:
        world.close()
