"""Create the lines that the log of an `ai-session`, `history.jsonl`, lacks.

A line does not have the id of its command or update, and lines are only ever added. So commands and
updates are paired with the existing lines by their content; each one without a line gets a new one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import astuple, replace

from forestay.formats import timestamps
from forestay.formats.ai_session import read
from forestay.formats.ai_session.read import DEFAULT_MODEL, LOG, MODELS, NOBODY, STATE, Node
from forestay.formats.coerce import mapping, text
from forestay.formats.diff import both, pair
from forestay.formats.facts import CommandFact, Facts, UpdateFact
from forestay.formats.port import Tree, Where

_New = TypeVar("_New", CommandFact, UpdateFact)
_TOGETHER_MS = 250
"""The most milliseconds between events that were recorded together."""


def missing_lines(tree: Tree, was: Facts, facts: Facts, where: Where) -> list[Node]:
    """Return a new line for each command and update in `facts` that has no line in the log."""
    pairs = _pair_lines(was.commands, facts.commands)
    commands = [command for at, command in enumerate(facts.commands) if at not in pairs]
    undated = timestamps.first(facts.updated_at, facts.began_at, where.now)
    least = _earliest_time(tree, was, where)
    new: list[tuple[int, CommandFact | UpdateFact]] = [
        *_with_times(commands, least, undated),
        *_with_times(_missing_updates(tree, was, facts, where), least, undated),
    ]
    new.sort(key=lambda pair: pair[0])
    known = _known_from([at for at, _ in new], tree, was, facts, where) if new else 0
    return [_line(tree, each, at, n >= known) for n, (at, each) in enumerate(new)]


def _known_from(new: list[int], tree: Tree, was: Facts, facts: Facts, where: Where) -> int:
    """Return the index of the first new line whose active task is known.

    `new` has the times of the new lines. If the active task did not change, it is known for all of
    them; otherwise only for the last line and the lines recorded together with it.
    """
    if not where.brief:
        return len(new) - bool(facts.updates)
    same = read.name(read.current_of(tree).get("active_task")) == was.position
    return 0 if same else next(n for n, at in enumerate(new) if new[-1] - at < _TOGETHER_MS)


def without_new_commands(
    lines: list[Any], known: int, commands: list[CommandFact], where: Where
) -> list[Any]:
    """Return a log without the commands that an edit added.

    These are the lines after the first `known` ones whose command is not in `commands`.
    """
    found = {at: one for at, line in enumerate(lines) if (one := read.command_of(line, where))}
    pairs = _pair_lines(list(found.values()), commands)
    places = list(found)
    news = set(places) - {places[number] for number in pairs.values()}
    return [line for at, line in enumerate(lines) if at < known or at not in news]


def _with_times(new: Sequence[_New], latest: int, undated: int) -> Iterator[tuple[int, _New]]:
    """Yield new commands or updates with their times, raised so that they never decrease."""
    for each in new:
        latest = max(latest, timestamps.first(each.at, undated))
        yield latest, each


def _earliest_time(tree: Tree, was: Facts, where: Where) -> int:
    """Return the earliest time that a new line may have: that of the latest existing line.

    An older event, from another device or from before the clock was set back, is written with
    this time.
    """
    updated = timestamps.first(was.updated_at, 0)
    if where.brief:
        # Every update changes the times in the state and the index; one of the two may be wrong.
        active = read.entry_of(tree, was.native_id).get("last_active")
        return min(updated, timestamps.first(timestamps.read(active, where.naive), updated))
    stamps = (mapping(line).get("timestamp") for line in read.log_of(tree))
    moments = (timestamps.read(stamp, where.naive) for stamp in stamps)
    # Lines of other programs with a time in the future are ignored.
    return max((moment for moment in moments if moment and moment <= updated), default=0)


def _missing_updates(tree: Tree, was: Facts, facts: Facts, where: Where) -> list[UpdateFact]:
    """Return the updates without a line, from the first update that has a line on.

    If the log file is missing, return all updates.
    """
    if where.brief or (read.key_of(tree, STATE) and not read.key_of(tree, LOG)):
        return facts.updates
    lines = [line for line in read.log_of(tree) if read.is_update(line)]
    if written := _written_updates(lines, facts.updates, where):
        since = min(written)
        return [each for at, each in enumerate(facts.updates) if at >= since and at not in written]
    return _updates_since(facts.updates, timestamps.first(was.updated_at, 0))


def _updates_since(updates: list[UpdateFact], shown: int) -> list[UpdateFact]:
    """Return the updates since `shown`, the time in the state file, for a log without update lines.

    Of the updates within the second of `shown`, the first set the time in the state and is left
    out. In an adopted session all of that second are left out: the files contained them already.
    """
    latest, adopted = 0, any(each.kind == "session.adopted" for each in updates[:1])
    for at, each in enumerate(updates):
        latest = max(latest, each.at)
        if latest // 1000 >= shown // 1000 + adopted:
            return updates[at + (latest // 1000 == shown // 1000) :]
    return []


def _written_updates(lines: list[Node], updates: list[UpdateFact], where: Where) -> set[int]:
    """Return the indexes of the updates that have a line with the same or a later time.

    A line can be later than its update if the clock was set back, or if an old copy of the log
    replaced the first line. Such a line is paired with the first older update that has no line.
    """
    exact = pair(
        lines,
        updates,
        [
            (
                lambda line: (line["event"], text(line.get("timestamp"))),
                lambda each: (each.kind, timestamps.write(each.at)),
            )
        ],
    )
    written = set(exact.values())
    free = defaultdict[str, deque[int]](deque)
    for at in range(min(written, default=0), len(updates)):
        if at not in written:
            free[updates[at].kind].append(at)
    for place, line in enumerate(lines):
        same = free[line["event"]] if place not in exact else deque()
        moment = timestamps.read(line.get("timestamp"), where.naive) or 0
        if same and updates[same[0]].at < moment:
            written.add(same.popleft())
    return written


def _line(tree: Tree, each: CommandFact | UpdateFact, at: int, of_now: bool) -> Node:
    current = read.current_of(tree)
    model = text(current.get("model_in_use"))
    usual = model if model in MODELS else DEFAULT_MODEL
    task = read.name(current.get("active_task")) if of_now else ""
    if isinstance(each, CommandFact):
        return line_of(replace(each, task=each.task or task), at, usual)
    update = CommandFact(each.kind, agent=each.agent, task=task)
    return line_of(update, at, usual) | {"event": each.kind}


def line_of(command: CommandFact, at: int, model: str) -> Node:
    """Return the line of the log for a command, with its keys in the order of the contract."""
    failed = command.status != "success"
    line = {
        "timestamp": timestamps.write(at),
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


def _without_task(command: CommandFact) -> Hashable:
    return _written(command, "model", "task_id")


_SAME_COMMAND = [
    *both(astuple, _written, lambda command: _written(command, "model")),
    (_without_task, lambda command: None if command.task else _without_task(command)),
]


def _pair_lines(old: list[CommandFact], new: list[CommandFact]) -> dict[int, int]:
    """Return index in `new` → index in `old` for the commands that have a line in the log."""
    pairs = {command: line for line, command in pair(old, new, _SAME_COMMAND).items()}
    return pairs | _late_pairs(old, new, pairs)


def _late_pairs(
    old: list[CommandFact], new: list[CommandFact], pairs: dict[int, int]
) -> dict[int, int]:
    """Pair commands with lines of a later time: those appended late, or without a time."""
    found: dict[int, int] = {}
    for without in (("model", "timestamp"), ("model", "timestamp", "task_id")):
        free = defaultdict[Hashable, list[int]](list)
        for at in set(range(len(old))) - {*pairs.values(), *found.values()}:
            free[_written(old[at], *without)].append(at)
        for at, command in enumerate(new):
            if at in pairs or at in found or (command.task and "task_id" in without):
                continue  # a line may have another task only if its command has none
            same = free[_written(command, *without)]
            fitting = (line for line in same if _is_later(old[line], command))
            if (line := next(fitting, None)) is not None:
                found[at] = line
                same.remove(line)
    return found


def _is_later(line: CommandFact, command: CommandFact) -> bool:
    return command.at is None or line.at is None or line.at > command.at
