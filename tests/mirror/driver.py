"""A random walk over the files of a session: our verbs and another program's edits, in turns.

`World` is a session that is bound to some of the formats, and what must be true of it: a list of
the things that were said, by whom, in which words. A *turn* is some edits, perhaps a look, and a
verb. After it the journal and every file have to say what the list says, each thing once, and
nothing else may have changed. What a seed does is the same each time.

Where only a praxis file is kept the session has a plan; `Oracle` says what becomes of its phases.

A *stale* edit is made from what the file held some turns ago. It only adds, for what it changed
besides might be a contradiction.
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
_KEPT = 3
"""How many versions of a file ago a copy may be that is written back."""

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
"""What people and programs write; each text names itself somewhere."""
PLAIN = ("null", "~", "12", "yes", "2027-01-01", "-", "#", "…", "[redacted:password]")
"""What looks like something else; each is used once at most."""


@dataclass
class Thing:
    """Something that somebody said: in which words, and what became of it."""

    kind: str
    text: str
    file: str = ""
    """The format whose file has it in these words; empty if a verb of ours said it."""
    id: str = ""
    kept: str = ""
    """What the journal has of the text."""
    status: str = "pending"
    sure: bool = True
    """Whether the file still has those words: who puts an old copy back may take them away."""
    chosen: str = ""
    clean: str = ""
    """The text without its secrets."""

    def forms(self, format_id: str) -> list[str]:
        """How it may stand in the file of a format."""
        kept = (
            f"{self.kept}: {self.chosen}"
            if self.chosen and format_id == "orchestrator"
            else self.kept
        )
        if self.file != format_id:
            return [kept]
        return [self.text] if self.sure else [self.text, kept, self.clean]


@dataclass
class File:
    """A file of the session, what it held at the end of turns, and what was put into it."""

    format: str
    name: str
    past: list[bytes] = field(default_factory=list)
    keys: dict[str, tuple[Any, bool]] = field(default_factory=dict)
    """Keys that nobody knows, with what they hold, and whether they must be there."""
    lost: set[str] = field(default_factory=set)
    """Keys that a tool took away by putting back an old file; other old files may have them."""
    held: bytes = b""
    """What the other program wrote last, of late."""
    damaged: bytes | None = None
    """What it was before somebody broke it."""
    unknown: bytes | None = None
    """What it was when something was forgotten and nobody could read it or those beside it."""


class Slow(Ticking):
    """As many milliseconds pass with every look as the world says: many things in one second."""

    def __init__(self, tick: int) -> None:
        super().__init__()
        self._tick = tick

    def __repr__(self) -> str:
        return f"a clock of {self._tick} ms"

    def now(self) -> int:
        self._now += self._tick
        return self._now


class Broken(AssertionError):
    """Something that must be true is not; the message tells the whole way there."""


class World:
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
        self.ticks = tick == 1000
        self.project.clock = Slow(tick)
        self.session = self.project.again()
        if "essay" in formats:  # later: what begins with it has its stages for tasks
            self.session.files.bind("essay")
        self.other = self.project.opened()
        self.things: list[Thing] = []
        self.status, self.goal = "active", Thing("goal", "Add login page", kept="Add login page")
        self.progress: float | None = None
        self.files = [File(b.format, n) for b in self.session.files.list() for n in names(b.format)]
        self.stated: list[str] = []
        self.is_stale = False
        self.is_ours = True
        """Whether nobody but us ever wrote into the files."""
        self.touched: set[str] = set()
        """What this turn may change in the journal, by name."""
        self.edited: set[str] = set()
        """The formats into whose files somebody wrote in this turn."""
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

    def broken(self, format_id: str) -> File | None:
        """The file of a format that nobody can read: all of them are left alone then."""
        return next(
            (f for f in self.files if f.format == format_id and f.damaged is not None), None
        )

    def of(self, kind: str, *statuses: str) -> list[Thing]:
        return [t for t in self.things if t.kind == kind and (not statuses or t.status in statuses)]

    def words(self, *, reported: bool = True) -> str:
        """Return a text that is unlike all others; `reported` if it has to be recorded."""
        if self._plain and self.chance.random() < 0.08:
            return self._plain.pop(self.chance.randrange(len(self._plain)))
        text = self.chance.choice(TEXTS).format(f"m{next(self._numbers)}z")
        if not reported or not text.startswith(_LONG):
            return text
        # Which of several of one beginning the journal means nobody can tell (see `test_words`).
        is_first, self._has_long = not self._has_long, True
        return text if is_first else text[-100:]

    def moment(self) -> int:
        ahead = 3_600_000 if self.chance.random() < 0.1 else 0
        return self.project.clock.now() + ahead

    def say(self, text: str) -> None:
        self.stated.append(text if len(text) < 400 else f"{text[:100]} … {text[-100:]}")

    # -- a turn --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Some edits, perhaps a look, a verb; then everything has to be true."""
        before = self.reported()
        self.touched, self.edited = set(), set()
        most = self.chance.choice((0, 0, 1, 1, 1, 2))
        for file in self.chance.sample(self.files, min(most, len(self.files))):
            self.edit(file)
            self.edited.add(file.format)
        if self.chance.random() < 0.3:
            self.look()
        self.act()
        after = self.reported()
        self.recognise(before, after)
        changed = {
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        }
        stray = {n for n in changed if n not in self.touched}
        self.require(not stray, "nobody touched", {n: (before.get(n), after.get(n)) for n in stray})
        self.hold(after)
        self.end_of_turn()

    def end_of_turn(self) -> None:
        for file in self.files:
            if self.chance.random() < 1 / _KEPT:
                file.held = b""
            with suppress(FileNotFoundError):
                data = self.path(file).read_bytes()
                known = (file.unknown, (file.past or [b""])[-1])
                if not self.broken(file.format) and data not in known:
                    file.past = [*file.past, data][-_KEPT:]

    def require(self, holds: object, what: str, *more: object) -> None:
        if not holds:
            way = "\n".join(self.stated[-40:])
            found = "\n".join(map(repr, more))
            clock = self.project.clock
            raise Broken(f"{what}: {found}\nseed {self.seed}, {self.formats}, {clock}\n{way}")

    def reported(self) -> dict[str, Any]:
        """What the journal says, by name."""
        home = self.project.home
        with home.context.store.view(self.session.id) as view:
            facts = facts_of(
                home.context.journal.state(view), list(home.context.journal.events(view))
            )
        stated: dict[str, Any] = {
            "status": facts.status,
            "goal": facts.goal,
            "progress": facts.progress,
        }
        lists: dict[str, list[Any]] = {"task": facts.steps, "agent": facts.agents}
        for kind, rows in lists.items():
            stated |= {f"{kind} {row.id}": plain(row) for row in rows}
        logs: dict[str, list[Any]] = {
            "decision": facts.decisions,
            "error": facts.errors,
            "command": facts.commands,
            "file": facts.files,
        }
        for kind, entries in logs.items():
            seen: Counter[str] = Counter()
            for entry in entries:
                text = text_of(said_now := plain(entry))
                seen[text] += 1
                stated[f"{kind} {text} #{seen[text]}"] = said_now
        return stated

    def recognise(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Find what others said in the journal: it has to have arrived, once."""
        new = [name for name in after if name not in before and name not in self.touched]
        for thing in self.things:
            if thing.id:
                continue
            found = next((n for n in new if is_it(thing, n, after[n])), None)
            self.require(found, "did not arrive", thing, new)
            assert found is not None
            new.remove(found)
            self.touched.add(found)
            thing.id = found
            thing.kept = text_of(after[found])

    # -- what must be true ---------------------------------------------------------------------

    def hold(self, reported: dict[str, Any]) -> None:
        self.require(reported["status"] == self.status, "status", reported["status"], self.status)
        self.require(
            mark(reported["goal"]) == mark(self.goal.text), "goal", reported["goal"], self.goal
        )
        self.require(
            reported["progress"] == self.progress, "progress", reported["progress"], self.progress
        )
        self.goal.kept = reported["goal"]
        for thing in self.of("task") + self.of("agent"):
            row = reported.get(thing.id)
            self.require(row, "is gone", thing)
            assert row is not None
            thing.kept = text_of(row)
            status = row.get("status", "pending" if thing.kind == "task" else "running")
            self.require(status == thing.status, "has another status", thing, row)
        for file in self.files:
            self.hold_file(file)
        self.require(self.session.verify().ok, "the journal is not sound")
        self.require(not leftovers(self.project.folder), "something was left")
        self.require_quiet()

    def hold_file(self, file: File) -> None:
        path = self.path(file)
        if file.damaged is not None:
            self.require(path.read_bytes() == BROKEN, "a damaged file was written", file.format)
        if self.broken(file.format):
            return
        self.require(path.exists(), "a file is missing", path)
        value = self.read(file)
        reader = READERS.get((file.format, file.name))
        if reader:
            reader(self, value)
        self.hold_keys(file, value)

    def hold_keys(self, file: File, value: Any) -> None:
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

    def hold_texts(self, format_id: str, kind: str, things: list[Thing], found: list[str]) -> None:
        """Each thing stands in a list once, in the words that it has there."""
        left = Counter(found)
        for thing in things:
            form = next((f for f in thing.forms(format_id) if left[f]), None)
            self.require(form is not None, f"{format_id}: not in {kind}", thing, left)
            assert form is not None
            left[form] -= 1
            thing.sure = thing.sure or form == thing.text
        self.require(not +left, f"{format_id}: too much in {kind}", +left)

    def require_quiet(self) -> None:
        """Who looks changes nothing, and there is nothing left to do."""
        before = self.held()
        pending = mirror_of(self.project.home.context).pending(self.session.id)
        self.require(pending == [], "an edit was not absorbed", pending)
        if self.chance.random() < 0.3:
            count = len(self.project.events())
            again = self.other if self.chance.random() < 0.5 else self.project.home
            write_files(again.context, self.session.id, force=True)
            absorb_file_edits(again.context, self.session.id)
            self.require(
                self.held() == before,
                "files were written without a reason",
                [k for k, v in self.held().items() if before.get(k) != v],
            )
            self.require(
                len(self.project.events()) == count, "something was recorded without a reason"
            )
        if self.chance.random() < 0.3:
            self.require_valid()

    def require_valid(self) -> None:
        for binding in self.session.files.list():
            if self.broken(binding.format):
                continue
            for report in self.project.home.files.check(binding.root):
                bad = [f for f in report.findings if self.is_bad(f)]
                self.require(not bad, f"{binding.format}: check finds", bad)

    def is_bad(self, finding: Any) -> bool:
        """An error, or, if only we wrote, a warning; but a verb may end an essay too early."""
        of_ours = self.is_ours and finding.code != "completed-too-early"
        return finding.severity == "error" or (finding.severity == "warning" and of_ours)

    def held(self) -> dict[str, bytes]:
        found = {}
        for file in self.files:
            with suppress(FileNotFoundError):
                found[f"{file.format} {file.name}"] = self.path(file).read_bytes()
        return found

    # -- the other program ---------------------------------------------------------------------

    def edit(self, file: File) -> None:
        if broken := self.broken(file.format):
            assert broken.damaged is not None
            swap_in(self.path(broken), broken.damaged)
            self.say(f"{broken.format} {broken.name} is repaired")
            broken.damaged = None
            return
        if not self.path(file).exists() or not file.past:
            return
        whole, weights = zip(*WHOLE.items(), strict=True)
        (move,) = self.chance.choices(whole, weights)
        move(self, file)

    def change(self, file: File) -> None:
        """Read the file, change something in it, write the whole."""
        self.rewrite(file, self.path(file).read_bytes(), EDITS)

    def stale(self, file: File) -> None:
        """The same, but what was read is from some turns ago."""
        old = self.chance.choice(file.past)
        self.doubt(file)
        self.is_stale = True
        self.rewrite(file, old, ADDING)
        self.is_stale = False

    def go_on(self, file: File) -> None:
        """The same, but what was read is what this program wrote last: it never reads again."""
        if file.held:
            self.doubt(file)
            self.is_stale = True
            self.rewrite(file, file.held, ADDING)
            self.is_stale = False

    def rewrite(self, file: File, data: bytes, moves: dict[str, list[Edit]]) -> None:
        kind = f"{file.format} {file.name}"
        value = parsed(file, data)
        made: list[str] = []
        for _ in range(self.chance.choice((1, 1, 1, 2))):
            move = self.chance.choice([*moves.get(kind, []), add_key])
            if made and move is take_key:
                break  # together with another change it may say what an old copy says
            done = move(self, file, value)
            if done:
                made.append(f"{move.__name__}({done!r})")
            if move is take_key:
                break
        # A plan has no time: an old one in another spelling looks like the last change taken back.
        is_plain = self.is_stale and file.name == "plan"
        if made or (not is_plain and self.chance.random() < 0.2):
            how = "stale" if moves is ADDING else "now"
            self.write(file, value)
            self.say(f"{kind} ({how}): {', '.join(made) or 'spelled anew'}")

    def scratch(self, file: File) -> None:
        """Somebody changes one sign of the goal in an editor, or takes out the line of a task."""
        data = self.path(file).read_bytes()
        if file.format not in ("craft", "orchestrator") or file.name != "main":
            return
        if self.chance.random() < 0.5:
            self.scratch_goal(file, data)
        else:
            self.scratch_task(file, data)

    def scratch_goal(self, file: File, data: bytes) -> None:
        goal = parsed(file, data)["goal"]
        found = re.search(r"m\d+z", goal)
        if not found or not goal.isascii() or data.count(found[0].encode()) != 1:
            return
        text = goal.replace(found[0], name := f"m{next(self._numbers)}z")
        swap_in(self.path(file), data.replace(found[0].encode(), name.encode()))
        clean = self.project.home.context.journal.redact(text)
        self.goal = Thing("goal", text, file.format, clean=clean)
        self.touched.add("goal")
        self.is_ours = False
        self.say(f"{file.format} {file.name}: goal is {text!r}")

    def scratch_task(self, file: File, data: bytes) -> None:
        pending = parsed(file, data)["pending_tasks"]
        able = [t for t in self.of("task") if t.id and (text_in(t, file, pending))]
        lines = data.splitlines(keepends=True)
        for thing in able:
            sought = json.dumps(text_in(thing, file, pending)).encode()
            at = [n for n, line in enumerate(lines) if line.strip() == sought + b","]
            if len(at) == 1:
                swap_in(self.path(file), b"".join(lines[: at[0]] + lines[at[0] + 1 :]))
                thing.sure = thing.sure and thing.file != file.format
                self.is_ours = False
                self.say(f"{file.format} {file.name}: without the line {sought!r}")
                return

    def write(self, file: File, value: Any) -> None:
        self.is_ours = False
        file.held = spelled(self.chance, file, value)
        swap_in(self.path(file), file.held)

    def rewind(self, file: File) -> None:
        """A tool puts back what was there before."""
        self.doubt(file, keys=True)
        old = self.chance.choice(file.past)
        file.lost |= {key for key, _ in keys_in(parsed(file, old))} - file.keys.keys()
        swap_in(self.path(file), old)
        self.say(f"{file.format} {file.name} is put back")

    def delete(self, file: File) -> None:
        # What several sessions share is begun anew by each of them, and a log is not remembered.
        self.doubt(file, keys=file.name == "index", secrets=file.name != "log")
        self.path(file).unlink()
        self.say(f"{file.format} {file.name} is deleted")

    def damage(self, file: File) -> None:
        if file.name == "log" or file.format in self.edited:
            return
        file.damaged = self.path(file).read_bytes()
        swap_in(self.path(file), BROKEN)
        self.say(f"{file.format} {file.name} is damaged")

    def doubt(self, file: File, *, keys: bool = False, secrets: bool = False) -> None:
        """Words that were put into a file may be gone from it, and keys of it."""
        for thing in [*self.things, self.goal]:
            if thing.file == file.format and (not secrets or thing.clean != thing.text):
                thing.sure = False
        has_secrets = self.project.home.context.journal.find_secrets(self.path(file).read_text())
        for key, (wanted, _) in file.keys.items():
            if keys or has_secrets:
                file.keys[key] = (wanted, False)

    def read(self, file: File) -> Any:
        return parsed(file, self.path(file).read_bytes())

    def look(self) -> None:
        """Commands that only look write nothing."""
        before, count = self.held(), len(self.project.events())
        self.session.status()
        self.session.brief(budget=2000)
        self.require(self.held() == before, "who looked wrote")
        self.require(len(self.project.events()) == count, "who looked recorded")

    # -- our verbs -----------------------------------------------------------------------------

    def act(self) -> None:
        """A verb, by one process or the other; what is refused is followed by a note."""
        home = self.chance.choice((self.project.home, self.other))
        session = home.session(self.session.id)
        verbs = PHASED if self.phases else VERBS
        verb = self.chance.choice(verbs) if self.chance.random() > TYPED else by_command
        try:
            self.say(
                f"{'other ' if home is self.other else ''}{verb(self, session) or verb.__name__}"
            )
        except ForestayError as error:
            self.say(f"{verb.__name__} was refused: {error}")
            session.note("go on")

    def add(self, kind: str, text: str, event: Any, name: str, kept: str, **more: Any) -> None:
        self.things.append(Thing(kind, text, id=name, kept=kept, **more))
        self.touched.add(name)


Edit = Callable[[World, File, Any], object]
BROKEN = b"{ half: [\n\t"
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


def mark(text: str) -> str:
    """What a text is known by: the name in it, or all of it that would be kept."""
    found = re.search(r"m\d+z", text[:3000])
    if found:
        return found[0]
    return "long" if text.startswith(_LONG[:1000]) else text.strip()


NAMING = ("title", "what", "message", "name", "path", "id")


def text_of(row: dict[str, Any]) -> str:
    return str(next(row[key] for key in NAMING if key in row))


def is_it(thing: Thing, name: str, row: dict[str, Any]) -> bool:
    return name.startswith(f"{thing.kind} ") and mark(text_of(row)) == mark(thing.text)


def keys_in(value: Any) -> Iterator[tuple[str, Any]]:
    for key, each in value.items() if isinstance(value, dict) else ():
        if isinstance(key, str) and key.startswith("x_"):
            yield key, each
        else:
            yield from keys_in(each)
    for each in value if isinstance(value, list) else ():
        yield from keys_in(each)


def parsed(file: File, data: bytes) -> Any:
    if file.name == "log":
        return [json.loads(line) for line in data.splitlines()]
    return json.loads(data) if data.lstrip()[:1] == b"{" else yaml.safe_load(data)


def spelled(chance: Random, file: File, value: Any) -> bytes:
    """A document in the spelling of some other program."""
    ascii = chance.random() < 0.5
    if file.name == "log":
        return "".join(f"{json.dumps(line, ensure_ascii=ascii)}\n" for line in value).encode()
    if isinstance(value, dict) and chance.random() < 0.2:
        value = dict(chance.sample(list(value.items()), len(value)))
    if file.format in ("ai-session", "essay"):
        text = yaml.safe_dump(value, allow_unicode=not ascii, sort_keys=ascii, width=200)
        return in_lines(chance, str(text))
    indent = chance.choice((2, 2, 4, "\t", None))
    return in_lines(chance, json.dumps(value, indent=indent, ensure_ascii=ascii))


def in_lines(chance: Random, text: str) -> bytes:
    """A text as editors of some systems end its lines."""
    ends = chance.choice(("\n", "\n", "\n", "\r\n"))
    return text.replace("\n", ends).encode() + chance.choice((b"", ends.encode()))


def stamp(world: World, format_id: str) -> str:
    from forestay.formats import timestamps

    return timestamps.write(world.moment())


# -- edits: what they change; something that tells of it, or nothing if there was no place for it --


def add_key(world: World, file: File, value: Any) -> object:
    """A key that nobody knows, anywhere."""
    if file.name == "log":
        return None
    number = next(world._numbers)
    key = f"x_{number}"
    simple = world.chance.choice(("", number, None, number + 0.5, True))
    holds = world.chance.choice(
        (simple, [number, {f"y_{number}": "c"}], {"deep": world.words(reported=False)})
    )
    place = world.chance.choice(list(objects_in(file, value)))
    items = list(place.items())
    items.insert(world.chance.randrange(len(items) + 1), (key, holds))
    place.clear()
    place.update(items)
    file.keys[key] = (holds, True)
    return key


_CLOSED = (
    *("forestay", "completed_work", "errors", "by_agent", "phase_timing", "checkpoints"),
    *("phase_artifacts", "stages", "user_options", "error"),
)
"""Objects whose keys are names of something, that may be gone when what they tell of is mended, and
lists of what may become a mere sentence."""


def objects_in(file: File, value: Any) -> Iterator[dict[str, Any]]:
    """Where there is room for a key: not where a task stands that may become a sentence."""
    if isinstance(value, dict):
        yield value
        for key, each in value.items():
            if not str(key).startswith("x_") and key not in _CLOSED:
                yield from objects_in(file, each)
    elif isinstance(value, list):
        for each in value:
            yield from objects_in(file, each)


def take_key(world: World, file: File, value: Any) -> object:
    """A key is taken out; within one second that cannot be told from a copy of before it was, nor
    while a file has a time of the future, which no later one replaces."""
    if not file.keys or not world.ticks or is_ahead(world, value):
        return None
    key = world.chance.choice(list(file.keys))
    del file.keys[key]
    without(value, key)
    return key


def is_ahead(world: World, value: Any) -> bool:
    from forestay.formats import timestamps

    times = map(
        timestamps.read, re.findall(r"\d{4}-\d\d-\d\dT[\d:.]+Z", json.dumps(value, default=str))
    )
    return max((time for time in times if time), default=0) > world.project.clock.now()


def without(value: Any, key: str) -> None:
    if isinstance(value, dict):
        value.pop(key, None)
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        without(each, key)


def their(world: World, kind: str, file: File, text: str, **more: Any) -> str:
    clean = world.project.home.context.journal.redact(text)
    world.things.append(Thing(kind, text, file.format, clean=clean, **more))
    return text


def add_task(world: World, file: File, value: Any) -> object:
    text = world.words()
    value["pending_tasks"].append(text)
    return their(world, "task", file, text)


def add_done(world: World, file: File, value: Any) -> object:
    text = world.words()
    value["completed_work"].append(done_form(file, text))
    return their(world, "task", file, text, status="done")


def done_form(file: File, text: str) -> Any:
    return text if file.format == "craft" else {"task": text, "outcome": "", "files": []}


def text_in(thing: Thing, file: File, listed: list[Any]) -> str:
    """The text by which a thing stands in a list, if it is the only one that says it."""
    return next((f for f in thing.forms(file.format) if listed.count(f) == 1), "")


def end_task(world: World, file: File, value: Any) -> object:
    """A task goes over to the completed work."""
    pending = value["pending_tasks"]
    able = [
        (t, f)
        for t in world.of("task")
        if t.status not in ("done", "skipped") and t.id and (f := text_in(t, file, pending))
    ]
    if not able:
        return None
    thing, text = world.chance.choice(able)
    pending.remove(text)
    value["completed_work"].append(done_form(file, text))
    thing.status = "done"
    world.touched.add(thing.id)
    return text


def take_task(world: World, file: File, value: Any) -> object:
    """A task is taken out: the journal knows of it."""
    pending = value["pending_tasks"]
    able = [(t, f) for t in world.of("task") if t.id and (f := text_in(t, file, pending))]
    if not able:
        return None
    thing, text = world.chance.choice(able)
    pending.remove(text)
    if thing.file == file.format:
        thing.sure = False
    return text


def add_decision(world: World, file: File, value: Any) -> object:
    text = world.words()
    at = stamp(world, file.format)
    entry = (
        {"timestamp": at, "context": text, "options": ["a", "b"], "chosen": "a", "reasoning": ""}
        if file.format == "craft"
        else {"decision": text, "rationale": "", "timestamp": at}
    )
    value["decisions_made"].append(entry)
    return their(world, "decision", file, text, chosen="a" if file.format == "craft" else "")


DECIDED = ("context", "decision")


def take_decision(world: World, file: File, value: Any) -> object:
    listed = value["decisions_made"]
    new = {thing.text for thing in world.of("decision") if thing.id in {"", *world.touched}}
    able = [n for n, each in enumerate(listed) if not new & {*map(each.get, DECIDED)}]
    # With a key of somebody it is as with `take_key`.
    able = [n for n in able if world.ticks or not dict(keys_in(listed[n]))]
    if not able:
        return None
    entry = listed.pop(world.chance.choice(able))
    for key, _ in keys_in(entry):
        del file.keys[key]
    text = next(filter(None, map(entry.get, DECIDED)))
    for thing in world.of("decision"):
        if thing.file == file.format and thing.text == text:
            thing.sure = False
    return text


def reword_decision(world: World, file: File, value: Any) -> object:
    """A decision in other words, and some as they were, of which there must be: what is bare stays
    so."""
    listed = value["decisions_made"]
    able = [t for t in world.of("decision") if t.id and not t.chosen and len(t.kept) < 60]
    able = [t for t in able if t.kept == t.text and t.text.isprintable() and mark(t.text) != t.text]
    forms = {t.id: {t.text, t.kept} for t in able}
    rows = [
        (t, e) for t in able for e in listed if {*map(e.get, DECIDED)} & forms[t.id] and world.ticks
    ]
    if not rows:
        return None
    thing, entry = world.chance.choice(rows)
    key = next(key for key in DECIDED if key in entry)
    old, new = entry[key], f"{entry[key]} and m{next(world._numbers)}z"
    if sum(1 for e in listed if old in e.values()) != 1 or "[redacted" in old:
        return None
    entry.update({k: new for k in (key, "chosen") if entry.get(k) == old})
    if entry.get("options") == [old]:
        entry["options"] = [new]
    world.touched |= {thing.id, f"decision {new} #1"}
    thing.id, thing.text, thing.kept = f"decision {new} #1", new, new
    thing.file, thing.sure, thing.clean = file.format, True, new
    return f"{old!r} is {new!r}"


def add_error(world: World, file: File, value: Any) -> object:
    text = world.words()
    entry = {"message": text, "category": "logical", "agent": "", "timestamp": stamp(world, "")}
    value["errors"].append(entry if world.chance.random() < 0.8 else {"message": text})
    return their(world, "error", file, text)


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
    return their(world, "agent", file, id, status="running")


def end_agent(world: World, file: File, value: Any) -> object:
    able = [a for a in world.of("agent", "running", "failed") if a.id]
    if not able:
        return None
    thing = world.chance.choice(able)
    (entry,) = (e for e in value["agents"] if e["id"] == thing.text)
    entry["status"] = UNIT_WORDS[file.format]["done"]
    entry["completed_at" if file.format == "craft" else "completed"] = stamp(world, "")
    thing.status = "done"
    world.touched.add(thing.id)
    return thing.text


def set_goal(world: World, file: File, value: Any) -> object:
    value["goal"] = text = world.words()
    clean = world.project.home.context.journal.redact(text)
    world.goal = Thing("goal", text, file.format, clean=clean)
    world.touched.add("goal")
    return text


def set_progress(world: World, file: File, value: Any) -> object:
    share = world.chance.choice((0.0, 0.25, 0.75, 1.0))
    if value["progress"] == share or not world.ticks:
        return None
    value["progress"] = world.progress = share
    world.touched.add("progress")
    return str(share)


def set_status(world: World, file: File, value: Any) -> object:
    """Another word for the session; one that stood there in the same second is a copy of that."""
    if "status" in world.touched or not world.ticks:
        return None
    world.touched.add("status")
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
    if "status" in world.touched or not world.ticks or world.status not in ("active", "paused"):
        return None
    if world.phases and world.phases.last in world.phases.done:
        return None  # a file with all its phases says that it is complete, whatever its flags
    life = value["lifecycle"]
    world.touched.add("status")
    if life["paused"]:
        # Whoever lifts a pause goes on, also if a clock that is ahead noted an error after that.
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
    text, id = world.words(), f"p{next(world._numbers)}"
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
    return their(world, "task", file, text)


def end_planned(world: World, file: File, value: Any) -> object:
    rows = {f"task {task['task_id']}": task for task in planned(value)}
    # What was repaired just now may lack some.
    able = [t for t in world.of("task") if t.id in rows and t.status not in ("done", "skipped")]
    if not able:
        return None
    thing = world.chance.choice(able)
    rows[thing.id].update(status="completed", completed_at=stamp(world, ""))
    thing.status = "done"
    world.touched.add(thing.id)
    return thing.id


def reword_planned(world: World, file: File, value: Any) -> object:
    rows = {f"task {task['task_id']}": task for task in planned(value)}
    able = [t for t in world.of("task") if t.id in rows]
    if not able:
        return None
    thing = world.chance.choice(able)
    rows[thing.id]["description"] = text = world.words()
    thing.text, thing.file, thing.sure = text, file.format, True
    world.touched.add(thing.id)
    return text


def add_line(world: World, file: File, value: Any) -> object:
    text = world.words()
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
    return their(world, "command", file, text)


ADDING: dict[str, list[Edit]] = {
    "craft main": [add_task, add_task, add_done, add_decision, add_agent],
    "orchestrator main": [add_task, add_task, add_done, add_decision, add_error, add_agent],
    "ai-session plan": [add_planned],
    "ai-session log": [add_line],
}
_MORE: dict[str, list[Edit]] = {
    "craft main": [
        end_task,
        end_task,
        take_task,
        take_decision,
        reword_decision,
        end_agent,
        set_goal,
        set_progress,
        set_status,
        take_key,
    ],
    "orchestrator main": [
        end_task,
        end_task,
        take_task,
        take_decision,
        reword_decision,
        end_agent,
        set_goal,
        set_status,
        take_key,
    ],
    "ai-session plan": [end_planned, reword_planned],
    "ai-session index": [set_index, take_key],
    "ai-session main": [take_key],
    "praxis main": [pause_praxis, take_key],
    "essay main": [set_status, take_key],
}
EDITS = {key: ADDING.get(key, []) + _MORE.get(key, []) for key in ADDING.keys() | _MORE.keys()}
WHOLE: dict[Callable[[World, File], None], int] = {
    World.change: 12,
    World.scratch: 2,
    World.stale: 5,
    World.go_on: 5,
    World.rewind: 2,
    World.delete: 1,
    World.damage: 1,
}


# -- verbs --------------------------------------------------------------------------------------


def note(world: World, session: Session) -> str:
    session.note(text := world.words())
    return f"note {text!r}"


def decide(world: World, session: Session) -> str:
    text, chosen = world.words(), world.chance.choice(("", "b"))
    event: Any = session.decide(
        text, because="so", options=["a", "b"] if chosen else [], chosen=chosen
    )
    kept = event.body.what
    world.add("decision", text, event, f"decision {kept} #1", kept, chosen=chosen)
    return f"decide {text!r}"


def error(world: World, session: Session) -> str:
    event: Any = session.record.error(text := world.words())
    world.add("error", text, event, f"error {event.body.message} #1", event.body.message)
    return f"error {text!r}"


def task_add(world: World, session: Session) -> str:
    event: Any = session.tasks.add(text := world.words())
    world.add("task", text, event, f"task {event.body.step}", event.body.title)
    return f"task add {text!r} ({event.body.step})"


def some_task(world: World, *statuses: str) -> Thing:
    able = [t for t in world.of("task", *statuses) if t.id]
    if not able:
        raise ForestayError("there is no task")
    return world.chance.choice(able)


def moved(world: World, thing: Thing, status: str) -> str:
    thing.status = status
    world.touched.add(thing.id)
    return f"{thing.id} is {status}"


def task_start(world: World, session: Session) -> str:
    thing = some_task(world, "pending", "blocked")
    session.tasks.start(thing.id.removeprefix("task "))
    return moved(world, thing, "running")


def task_done(world: World, session: Session) -> str:
    thing = some_task(world, "pending", "running")
    session.tasks.done(thing.id.removeprefix("task "), outcome=world.chance.choice(("", "fine")))
    return moved(world, thing, "done")


def task_block(world: World, session: Session) -> str:
    thing = some_task(world, "running")
    session.tasks.block(thing.id.removeprefix("task "), "it waits")
    return moved(world, thing, "blocked")


def agent_start(world: World, session: Session) -> str:
    id = f"a-m{next(world._numbers)}z"
    session.agents.start(id, type="code", task="works")
    world.add("agent", id, None, f"agent {id}", id, status="running")
    return f"agent {id}"


def some_agent(world: World) -> Thing:
    able = [t for t in world.of("agent", "running") if t.id]
    if not able:
        raise ForestayError("there is no agent")
    return world.chance.choice(able)


def agent_progress(world: World, session: Session) -> str:
    thing = some_agent(world)
    session.agents.progress(thing.text, 0.5)
    return moved(world, thing, "running")


def agent_done(world: World, session: Session) -> str:
    thing = some_agent(world)
    session.agents.done(thing.text, result=world.words())
    return moved(world, thing, "done")


def agent_fail(world: World, session: Session) -> str:
    thing = some_agent(world)
    event: Any = session.agents.fail(thing.text, text := world.words())
    world.add("error", text, event, f"error {event.body.error} #1", event.body.error)
    return moved(world, thing, "failed")


def tokens(world: World, session: Session) -> None:
    session.record.tokens(world.chance.randrange(100_000))


def command(world: World, session: Session) -> str:
    event: Any = session.record.command(text := world.words(), arguments=world.words())
    world.add("command", text, event, f"command {event.body.name} #1", event.body.name)
    return f"command {text!r}"


def rename(world: World, session: Session) -> str:
    event: Any = session.record.rename(text := world.words())
    world.goal = Thing("goal", text, kept=event.body.goal)
    world.touched.add("goal")
    return f"rename {text!r}"


def ends(world: World, status: str) -> str:
    world.status = status
    world.touched.add("status")
    return f"session is {status}"


def pause(world: World, session: Session) -> str:
    session.pause()
    return ends(world, "paused")


def resume(world: World, session: Session) -> str:
    session.resume()
    return ends(world, "active")


def complete(world: World, session: Session) -> str:
    session.complete()
    return ends(world, "completed")


def reopen(world: World, session: Session) -> str:
    session.lifecycle.reopen("more to do")
    return ends(world, "active")


def again(world: World, session: Session) -> str:
    """Another process goes on."""
    world.session = world.project.again()
    world.session.note("go on")
    return "another process"


def undone(world: World, session: Session) -> str:
    """A verb that is taken back at once: what it said is gone, and all else as it was.

    Within one second, who then ends a task writes what we had written before that. A goal that was
    written over comes back as the journal has it: without secrets, and cut.
    """
    before = deepcopy((world.things, world.goal, world.status))
    able = [verb for verb in UNDONE if world.ticks or verb is not task_done]
    reported = world.chance.choice(able)(world, session)
    session.undo()
    world.things, world.goal, world.status = before
    world.goal.sure &= "goal" not in world.touched
    return f"undone: {reported}"


def file(world: World, session: Session) -> str:
    """A file that is gone, in a folder of some name."""
    path = f"{world.chance.choice(('a b', 'ü', 'x'))}/m{next(world._numbers)}z.py"
    session.record.file(f"{world.project.folder}/{path}", action="deleted")
    world.add("file", path, None, f"file {path} #1", path)
    return f"file {path}"


def forget(world: World, session: Session) -> str:
    """A decision is recorded and forgotten for good: no file says it any more.

    With it goes what we remember of older files: who writes an old copy back tells all of it. Of
    files that cannot be read then it is not known whether they say it, so not even the last copy is
    remembered.
    """
    before = deepcopy(world.things)
    text = f"Forget this: m{next(world._numbers)}z"
    event = session.decide(text, because="so")
    done = session.lifecycle.forget(event.id)
    world.things = before
    for file in world.files:
        file.past.clear()
        file.held = b""
        there = file.damaged or (p.read_bytes() if (p := world.path(file)).exists() else None)
        file.unknown = there if world.broken(file.format) else None
    world.require(not done.left, "files may say what was forgotten", done.left)
    for held in (f for f in world.files if not world.broken(f.format)):
        data = world.path(held).read_bytes() if world.path(held).exists() else b""
        world.require(b"Forget this" not in data, f"{held.format} says what was forgotten")
    return f"forget {text!r}"


def by_command(world: World, session: Session) -> str:
    """A verb as somebody types it: another process."""
    kind, words = world.chance.choice(
        (("task", ["task", "add"]), ("decision", ["decide"]), ("error", ["error"]))
    )
    body = plain(typed(world, *words, text := world.words()))
    kept = text_of(body)
    name = f"task {body['step']}" if kind == "task" else f"{kind} {kept} #1"
    world.add(kind, text, None, name, kept)
    return f"forestay {' '.join(words)} {text!r}"


def typed(world: World, *words: str) -> Any:
    """What a command recorded."""
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


def judged(world: World, word: str) -> str:
    """What a verdict on the current phase comes to."""
    phases = world.phases
    assert phases is not None
    number = phases.current
    phases.judge(number, word)
    if word == "passed" and number == phases.last:
        world.status = "completed"
    world.touched |= {"status", *(f"task phase-{n}" for n in range(9))}
    return f"phase {number} is {word}"


def phase_done(world: World, session: Session) -> str:
    assert world.phases is not None
    session.phases.done(world.phases.current)
    return judged(world, "passed")


def phase_fail(world: World, session: Session) -> str:
    assert world.phases is not None
    session.phases.fail(world.phases.current, issue=world.words())
    return judged(world, "failed")


def phase_retry(world: World, session: Session) -> str:
    session.phases.retry()
    world.touched |= {f"task phase-{n}" for n in range(9)}
    return "phase again"


def phase_rollback(world: World, session: Session) -> str:
    phases = world.phases
    assert phases is not None
    number = world.chance.randrange(phases.base, phases.current + 1)
    session.phases.rollback(number, because="more to do")
    phases.go_back(number)
    world.touched |= {f"task phase-{n}" for n in range(9)}
    ends(world, "active")
    return f"back to phase {number}"


UNDONE = (note, decide, error, task_add, task_start, task_done, agent_start, rename, pause, file)
VERBS: list[Callable[[World, Session], str | None]] = [
    *(note, note, decide, decide, error, task_add, task_add, task_add, task_start, task_done),
    *(task_done, task_block, agent_start, agent_progress, agent_done, agent_fail, tokens, command),
    *(rename, pause, resume, resume, complete, reopen, reopen, again, again, undone, undone, file),
    *(forget,),
]
PHASED: list[Callable[[World, Session], str | None]] = [
    *(note, decide, error, agent_start, agent_progress, agent_done, agent_fail, tokens, command),
    *(rename, pause, resume, resume, complete, reopen, again, again, file, forget),
    *(phase_done, phase_done, phase_done, phase_fail, phase_retry, phase_rollback),
]
"""Verbs where there is a plan: what becomes of tasks there is a matter of its phases."""
TYPED = 0.01
"""How often a verb is typed: it takes long."""


# -- what files say -----------------------------------------------------------------------------


def read_craft(world: World, value: Any) -> None:
    listed = [e["path"] for e in value["files_modified"]]
    world.hold_texts("craft", "files_modified", world.of("file"), listed)
    _hold_common(world, value, "craft", [e["context"] for e in value["decisions_made"]])


def read_orchestrator(world: World, value: Any) -> None:
    decided = [e["decision"] for e in value["decisions_made"]]
    _hold_common(world, value, "orchestrator", decided)
    errors = [e["message"] if isinstance(e, dict) else e for e in value["errors"]]
    world.hold_texts("orchestrator", "errors", world.of("error"), errors)


def _hold_common(world: World, value: Any, format_id: str, decided: list[str]) -> None:
    done = [t for t in world.of("task") if t.status in ("done", "skipped")]
    rest = [t for t in world.of("task") if t.status not in ("done", "skipped")]
    work = [e if isinstance(e, str) else e["task"] for e in value["completed_work"]]
    world.hold_texts(format_id, "completed_work", done, work)
    world.hold_texts(format_id, "pending_tasks", rest, value["pending_tasks"])
    world.hold_texts(format_id, "decisions_made", world.of("decision"), decided)
    agents = {e["id"]: e["status"] for e in value["agents"]}
    wanted = {t.text: UNIT_WORDS[format_id][t.status] for t in world.of("agent")}
    world.require(agents == wanted, f"{format_id}: agents", agents, wanted)
    world.require(
        value["status"] == SESSION_WORDS[format_id][world.status], f"{format_id}: status", value
    )
    hold_goal(world, format_id, value["goal"])


def hold_goal(world: World, format_id: str, goal: str) -> None:
    world.require(goal in world.goal.forms(format_id), f"{format_id}: goal", goal, world.goal)


def read_plan(world: World, value: Any) -> None:
    rows = planned(value)
    found = {f"task {row['task_id']}": row["status"] for row in rows}
    wanted = {t.id: UNIT_WORDS["ai-session"][t.status] for t in world.of("task")}
    world.require(found == wanted and len(rows) == len(found), "plan", found, wanted)
    world.hold_texts("ai-session", "plan", world.of("task"), [row["description"] for row in rows])


def read_index(world: World, value: Any) -> None:
    entries = [e for e in value["active_features"] if e["feature_id"] == ID]
    words = [e["status"] for e in entries]
    world.require(
        words == [SESSION_WORDS["ai-session"][world.status]], "index", value, world.status
    )


def read_log(world: World, value: Any) -> None:
    ran = [line["command"] for line in value if "event" not in line]
    world.hold_texts("ai-session", "log", world.of("command"), ran)
    kinds = Counter(line["event"] for line in value if "event" in line)
    happened = Counter(e.kind for e in world.project.events() if e.kind != "command.ran")
    more = kinds - happened
    world.require(not more, "the log tells more than happened", more)


def read_praxis(world: World, value: Any) -> None:
    life = value["lifecycle"]
    # A failed one is told by its last error, whoever unpaused it.
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
    """Go some turns from a seed; raises `Broken` where something is not true."""
    base.mkdir(parents=True, exist_ok=True)
    world = World(base, seed)
    try:
        for _ in range(turns):
            world.turn()
    finally:
        world.close()
