"""Find and read the transcripts that agents save of their conversations.

Transcripts are only read, line by line, so that a gigabyte needs no more memory than a kilobyte.
A *conversation* is a main transcript and those of its sub-agents; their events are merged in the
order of time. A line that is torn, too long or of an unknown kind is counted and skipped.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from forestay.agents.hook_event import HookEvent
from forestay.agents.transcripts.claude import ClaudeReader
from forestay.agents.transcripts.codex import CodexReader, ends
from forestay.agents.transcripts.gemini import GeminiReader
from forestay.agents.transcripts.reader import Reader
from forestay.base import files, walk
from forestay.errors import ForestayError, InvalidInput

MOST_LINE = 16 * 1024 * 1024
MOST_DOCUMENT = 64 * 1024 * 1024
_HEAD_LINES = 40
_CHUNK = 64 * 1024
_TAIL = 4 * 1024 * 1024
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Source(NamedTuple):
    """Where an agent saves transcripts, how their files are named, and what reads them."""

    base: str
    variable: str
    """The environment variable that replaces the base folder, if it is set."""
    below: str
    is_named: Callable[[str], bool]
    reader: Callable[..., Reader]


SOURCES = {
    "claude-code": Source(
        *(".claude", "CLAUDE_CONFIG_DIR", "projects"),
        lambda path: path.endswith(".jsonl"),
        ClaudeReader,
    ),
    "codex": Source(
        *(".codex", "CODEX_HOME", "sessions"),
        lambda path: os.path.basename(path).startswith("rollout-"),
        CodexReader,
    ),
    "gemini": Source(
        *(".gemini", "", "tmp"),
        lambda path: f"{os.sep}chats{os.sep}" in path or "session-" in path,
        GeminiReader,
    ),
}


class Transcript(Struct):
    """The files of one conversation; `paths` begins with the main one if it exists."""

    agent: str
    native: str
    cwd: str = ""
    paths: list[tuple[str, str]] = []
    """(path, sub-agent or "")"""
    branch: str = ""
    commit: str = ""
    size: int = 0
    changed: int = 0
    """The latest modification of any of the files, in milliseconds."""

    @property
    def path(self) -> str:
        return self.paths[0][0]


def folder(agent: str, user_home: str, variables: dict[str, str]) -> str:
    """Return the folder where an agent saves its transcripts."""
    if agent not in SOURCES:
        why = f"supported agents: {', '.join(SOURCES)}"
        raise InvalidInput(f"transcripts of {agent[:40]!r} are not supported", why=why)
    source = SOURCES[agent]
    moved = variables.get(source.variable, "")
    base = moved if os.path.isabs(moved) else os.path.join(user_home, source.base)
    return os.path.join(base, source.below)


# -- finding -----------------------------------------------------------------------------------


def find(agent: str, place: str) -> list[Transcript]:
    """Return the conversations in a file or folder, oldest first."""
    found: dict[str, Transcript] = {}
    # A single transcript: those of its sub-agents are in a folder of the same name.
    single = [place] if os.path.isfile(place) else []
    for path in [*single, *_below(os.path.splitext(place)[0] if single else place)]:
        one = _identified(agent, path)
        if one is None:
            continue
        known = found.setdefault(one.native, one)
        if known is not one:
            # The main transcript comes first.
            known.paths = sorted([*known.paths, *one.paths], key=lambda part: (bool(part[1]), part))
            known.cwd = known.cwd or one.cwd
            known.size += one.size
            known.changed = max(known.changed, one.changed)
    return sorted(found.values(), key=lambda one: (one.changed, one.native))


def _below(place: str) -> list[str]:
    there = [
        os.path.join(here, name)
        for here, _, names in walk.walk(place)
        for name in names
        if name.endswith((".jsonl", ".json"))
    ]
    return sorted(path for path in there if not files.is_irregular(path))


def _identified(agent: str, path: str) -> Transcript | None:
    """Identify a transcript by its name and first lines; None if it is not one."""
    if not SOURCES[agent].is_named(path):
        return None
    reader = SOURCES[agent].reader(**_beforehand(agent, path))
    try:
        facts = os.stat(path)
        for record in islice(records(path, lambda kind: None), _HEAD_LINES):
            reader.feed(record)
            if reader.native and reader.cwd:
                break
    except (OSError, ForestayError):
        return None
    if not reader.native:
        return None
    return Transcript(
        agent=agent,
        native=reader.native,
        cwd=reader.cwd,
        paths=[(path, reader.by)],
        branch=reader.branch,
        commit=reader.commit,
        size=facts.st_size,
        changed=facts.st_mtime_ns // 1_000_000,
    )


def _beforehand(agent: str, path: str) -> dict[str, str]:
    """Return the facts in the path of a transcript: its conversation and sub-agent."""
    here, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    if agent == "claude-code" and stem.startswith("agent-"):
        return {"by": stem.removeprefix("agent-")}
    if agent != "gemini":
        return {}
    above, last = os.path.split(here)
    by = {} if last == "chats" else {"by": stem, "native": last}
    project = os.path.dirname(here if last == "chats" else above)
    return {"cwd": _project_root(project), **by}


def _project_root(place: str) -> str:
    try:
        return files.read_bounded(os.path.join(place, ".project_root"), 4096).decode().strip()
    except (ForestayError, UnicodeDecodeError):
        return ""


def outcomes(path: str) -> dict[str, tuple[int, int | None]]:
    """Return exit code and milliseconds of the last commands in a Codex rollout, by call id.

    Return {} if it cannot be read: the commands are then recorded without an exit code.
    """
    found: list[object] = []
    try:
        if files.is_irregular(path):
            return {}
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _TAIL))
            for line in file.read(_TAIL).split(b"\n"):
                if b'"exit' in line or b"xit code" in line or b"exited with code" in line:
                    with suppress(*_UNREADABLE):
                        found.append(msgspec.json.decode(line))
    except (OSError, ValueError):
        return {}
    return ends(found)


# -- reading -----------------------------------------------------------------------------------


def read_events(one: Transcript, unknown: dict[str, int]) -> Iterator[HookEvent]:
    """Yield the events of a conversation in the order of time; count the rest in `unknown`."""
    streams = [_stream(one, path, by, unknown) for path, by in one.paths]
    yield from heapq.merge(*streams, key=lambda event: event.at)


def _stream(one: Transcript, path: str, by: str, unknown: dict[str, int]) -> Iterator[HookEvent]:
    known: dict[str, Any] = {"native": one.native, "cwd": one.cwd, "by": by}
    if one.agent == "claude-code" and not by:
        known["agents"] = dict(_sent(one))
    reader, last = SOURCES[one.agent].reader(**known), 0
    for record in records(path, reader.count_unknown):
        for event in reader.feed(record):
            # A record without a time happened right after the previous one.
            last = max(last, event.at)
            yield msgspec.structs.replace(event, at=last)
    for event in reader.end():
        yield msgspec.structs.replace(event, at=last)
    for kind, n in reader.unknown.items():
        unknown[kind] = unknown.get(kind, 0) + n


def _sent(one: Transcript) -> Iterator[tuple[str, str]]:
    """Yield the call that started each sub-agent, from a small file next to its transcript."""
    for path, by in one.paths:
        facts_file = f"{os.path.splitext(path)[0]}.meta.json"
        try:
            reported = msgspec.json.decode(files.read_bounded(facts_file, _CHUNK)) if by else None
        except (ForestayError, *_UNREADABLE):
            continue
        if isinstance(reported, dict) and isinstance(reported.get("toolUseId"), str):
            yield reported["toolUseId"], by


def records(path: str, count_unknown: Callable[[str], None]) -> Iterator[object]:
    """Yield the records of a file: its lines, or its single JSON document."""
    if path.endswith(".json"):
        try:
            yield msgspec.json.decode(files.read_bounded(path, MOST_DOCUMENT))
        except _UNREADABLE:
            count_unknown("not JSON")
        return
    decode = msgspec.json.Decoder().decode
    for line, is_whole in lines(path, count_unknown):
        try:
            yield decode(line)
        except _UNREADABLE:
            if is_whole:  # otherwise the agent is still writing the line
                count_unknown("not JSON")


def lines(path: str, count_unknown: Callable[[str], None]) -> Iterator[tuple[bytes, bool]]:
    """Yield the non-empty lines of a file, and whether each ends with a line feed."""
    parts: list[bytes] = []
    size = 0
    for chunk in files.read_chunks(path):
        *ended, last = chunk.split(b"\n")
        for part in ended:
            size += len(part)
            if size > MOST_LINE:
                count_unknown("too long")
            elif line := b"".join((*parts, part)).strip():
                yield line, True
            parts, size = [], 0
        size += len(last)
        parts = [*parts, last] if size <= MOST_LINE else []
    if size > MOST_LINE:
        count_unknown("too long")
    elif line := b"".join(parts).strip():
        yield line, False
