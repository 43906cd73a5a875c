"""The log of an `ai-session`: which lines it lacks, and how a line is written.

Nothing in a log says which command or update a line tells, and lines are only ever added. So what
is to be told is paired with the lines that are there, by what they say; what is left over is new.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import astuple, replace

from holdfast.layout import Tree, Where, stamps
from holdfast.layout.ai_session import read
from holdfast.layout.ai_session.read import DEFAULT_MODEL, LOG, MODELS, NOBODY, STATE, Node
from holdfast.layout.facts import CommandFact, Facts, UpdateFact
from holdfast.layout.tree import both, pair
from holdfast.layout.value import mapping, text

_New = TypeVar("_New", CommandFact, UpdateFact)
_TOGETHER = 250
"""How far apart, in milliseconds, the moments of events may be that were recorded together."""


def lacking(tree: Tree, was: Facts, facts: Facts, where: Where) -> list[Node]:
    """The lines that the log of a tree lacks to say what the facts say."""
    pairs = _told_pairs(was.commands, facts.commands)
    commands = [command for at, command in enumerate(facts.commands) if at not in pairs]
    undated = stamps.first(facts.updated_at, facts.began_at, where.now)
    least = _least(tree, was, where)
    new: list[tuple[int, CommandFact | UpdateFact]] = [
        *_rising(commands, least, undated),
        *_rising(_untold(tree, was, facts, where), least, undated),
    ]
    new.sort(key=lambda pair: pair[0])
    known = _known_from([at for at, _ in new], tree, was, facts, where) if new else 0
    return [_line(tree, each, at, n >= known) for n, (at, each) in enumerate(new)]


def _known_from(new: list[int], tree: Tree, was: Facts, facts: Facts, where: Where) -> int:
    """From which of some new lines on the task at hand is known, by their moments.

    It was at hand all along, or since the last of them and what was recorded with it. Which one it
    was when something older happened, nobody knows; nor does what was read from files tell it.
    """
    if not where.brief:
        return len(new) - bool(facts.updates)
    same = read.name(read.current_of(tree).get("active_task")) == was.position
    return 0 if same else next(n for n, at in enumerate(new) if new[-1] - at < _TOGETHER)


def without_news(
    lines: list[Any], known: int, commands: list[CommandFact], where: Where
) -> list[Any]:
    """The lines of a log but those behind some known ones that tell of other commands."""
    told = {at: found for at, line in enumerate(lines) if (found := read.command_of(line, where))}
    pairs = _told_pairs(list(told.values()), commands)
    places = list(told)
    news = set(places) - {places[number] for number in pairs.values()}
    return [line for at, line in enumerate(lines) if at < known or at not in news]


def _rising(new: Sequence[_New], latest: int, undated: int) -> Iterator[tuple[int, _New]]:
    """What is new with its moments, which never go back."""
    for each in new:
        latest = max(latest, stamps.first(each.at, undated))
        yield latest, each


def _update_lines(tree: Tree) -> list[Node]:
    return [line for line in read.log_of(tree) if read.is_update(line)]


def _least(tree: Tree, was: Facts, where: Where) -> int:
    """The moment that no new line may be before: what came from elsewhere, or after the clock went
    back, and is older than what is there, is an update of now."""
    updated = stamps.first(was.updated_at, 0)
    if where.brief:
        # Whoever updates a state tells it to the index, too: one alone may be from the future.
        active = read.entry_of(tree, was.native_id).get("last_active")
        return min(updated, stamps.first(stamps.read(active, where.naive), updated))
    told = (mapping(line).get("timestamp") for line in read.log_of(tree))
    moments = (stamps.read(stamp, where.naive) for stamp in told)
    # What others have of the future is not ours to follow.
    return max((moment for moment in moments if moment and moment <= updated), default=0)


def _untold(tree: Tree, was: Facts, facts: Facts, where: Where) -> list[UpdateFact]:
    """The updates that the log lacks; where all are given, those behind the first one that it
    tells, or all if it is gone."""
    if where.brief or (read.key_of(tree, STATE) and not read.key_of(tree, LOG)):
        return facts.updates
    if told := _told_updates(_update_lines(tree), facts.updates, where):
        since = min(told)
        return [each for at, each in enumerate(facts.updates) if at >= since and at not in told]
    return _unshown(facts.updates, stamps.first(was.updated_at, 0))


def _unshown(updates: list[UpdateFact], shown: int) -> list[UpdateFact]:
    """The updates since a moment that the state shows, where no line tells how far the log got.

    Of its second nobody knows which came later: all but the first, by which it became that one;
    but none where the state was adopted, for it told them.
    """
    latest, adopted = 0, any(each.kind == "session.adopted" for each in updates[:1])
    for at, each in enumerate(updates):
        latest = max(latest, each.at)
        if latest // 1000 >= shown // 1000 + adopted:
            return updates[at + (latest // 1000 == shown // 1000) :]
    return []


def _told_updates(lines: list[Node], updates: list[UpdateFact], where: Where) -> set[int]:
    """The places of the updates that lines tell: of the same moment, or of an earlier one.

    A line may tell a later moment than its update, where a clock had gone back or somebody's old
    copy of the log had cost it its first line.
    """
    free = defaultdict[Hashable, deque[int]](deque)
    for at, each in enumerate(updates):
        free[each.kind, stamps.write(each.at)].append(at)
    told, late = set[int](), list[tuple[str, str]]()
    for line in lines:
        key = (line["event"], text(line.get("timestamp")))
        if free[key]:
            told.add(free[key].popleft())
        else:
            late.append(key)
    return told | _told_late(late, updates, told, where)


def _told_late(
    late: list[tuple[str, str]], updates: list[UpdateFact], told: set[int], where: Where
) -> set[int]:
    """The same of lines that tell the moment of none: the first that is left and older is it."""
    free = defaultdict[str, deque[int]](deque)
    for at in range(min(told, default=0), len(updates)):
        if at not in told:
            free[updates[at].kind].append(at)
    found = set[int]()
    for kind, stamp in late:
        moment = stamps.first(stamps.read(stamp, where.naive), 0)
        if free[kind] and updates[free[kind][0]].at < moment:
            found.add(free[kind].popleft())
    return found


def _line(tree: Tree, each: CommandFact | UpdateFact, at: int, of_now: bool) -> Node:
    current = read.current_of(tree)
    model = text(current.get("model_in_use"))
    usual = model if model in MODELS else DEFAULT_MODEL
    task = read.name(current.get("active_task")) if of_now else ""
    if isinstance(each, CommandFact):
        return line_of(replace(each, task=each.task or task), at, usual)
    told = CommandFact(each.kind, agent=each.agent, task=task)
    return line_of(told, at, usual) | {"event": each.kind}


def line_of(command: CommandFact, at: int, model: str) -> Node:
    """A line of the log, with its keys in the contract's order."""
    failed = command.status != "success"
    line = {
        "timestamp": stamps.write(at),
        "command": command.name,
        "arguments": command.arguments,
        "model": command.model if command.model in MODELS else model,
        "agent": command.agent or NOBODY,
        "task_id": command.task or None,
        "status": "failure" if failed else "success",
        "duration_ms": command.duration_ms or 0,
    }
    return line | ({"error": command.error} if failed else {})


def _written(command: CommandFact, *without: str) -> Hashable:
    line = line_of(command, command.at or 0, "")
    return tuple(line[key] for key in line if key not in without)


def _of_any_task(command: CommandFact) -> Hashable:
    return _written(command, "model", "task_id")


_SAME_COMMAND = [
    *both(astuple, _written, lambda command: _written(command, "model")),
    (_of_any_task, lambda command: None if command.task else _of_any_task(command)),
]


def _told_pairs(old: list[CommandFact], new: list[CommandFact]) -> dict[int, int]:
    """Which command is told by which line."""
    pairs = {command: line for line, command in pair(old, new, _SAME_COMMAND).items()}
    return pairs | _late_pairs(old, new, pairs)


def _late_pairs(
    old: list[CommandFact], new: list[CommandFact], pairs: dict[int, int]
) -> dict[int, int]:
    """Pairs of what was appended late, or undated: its line tells the moment of the one before."""
    found: dict[int, int] = {}
    for without in (("model", "timestamp"), ("model", "timestamp", "task_id")):
        free = defaultdict[Hashable, list[int]](list)
        for at in set(range(len(old))) - {*pairs.values(), *found.values()}:
            free[_written(old[at], *without)].append(at)
        for at, command in enumerate(new):
            if at in pairs or at in found or (command.task and "task_id" in without):
                continue  # only the line of a command that names no task may name the one at hand
            same = free[_written(command, *without)]
            fitting = (line for line in same if _is_late(old[line], command))
            if (line := next(fitting, None)) is not None:
                found[at] = line
                same.remove(line)
    return found


def _is_late(line: CommandFact, command: CommandFact) -> bool:
    return command.at is None or line.at is None or line.at > command.at
