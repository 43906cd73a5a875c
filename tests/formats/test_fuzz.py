"""Mutated files of all formats: no crash, no hang, no silent loss. Seeds are printed.

A file that was one of ours is harmed a little (bytes flipped, cut off, lines shuffled, values
swapped) and handled like any file: it is recognised, checked and read. A file that can be parsed is
read whole; any other is reported, with what was salvaged of it. A file that can be read is also
read as an edit of a file of ours: every change in it is recorded or reported.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import forestay
from forestay.formats import carry_over
from forestay.formats.facts import Facts, plain
from forestay.formats.port import REGISTRY, Tree, Where, load_format
from forestay.formats.text.document import Document
from forestay.formats.three_way import changes
from forestay.formats.to_events import adoption_moves
from forestay.mirror import adopt, check_files, discover
from forestay.mirror.discover import Find
from tests.chance import new_seed
from tests.format_helpers import bundle, root_of

WHERE = Where(now=1_794_771_152_000, naive="utc")
FILES = [(kind, name, data) for kind in REGISTRY for name, data in bundle(kind).items()]
FEW = 2_000
MANY = 200_000
SLOW = 60.0
# Lines that are repeated four times over may have gigabytes; such files have tests of their own.
LARGEST = 1 << 18

Mutation = Callable[[random.Random, bytes], bytes]


def flip(chance: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        made[chance.randrange(len(made))] = chance.randrange(256)
    return bytes(made)


def cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def drop(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.choice((1, 5, 50, 500)) :]


def zero(chance: random.Random, data: bytes) -> bytes:
    start, size = chance.randrange(len(data)), chance.choice((1, 16, 512))
    return data[:start] + b"\0" * size + data[start + size :]


def shuffle(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    start = chance.randrange(len(lines))
    part = lines[start : start + chance.choice((2, 4, len(lines)))]
    chance.shuffle(part)
    return b"".join([*lines[:start], *part, *lines[start + len(part) :]])


def repeat(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    return b"".join([*lines[:at], *lines[at : at + 1] * chance.choice((2, 3, 100)), *lines[at:]])


_VALUE = re.compile(rb'(?<=: )("[^"\n]*"|[0-9][^,\n]*|true|false|null|\[\]|\{\})')
_OTHERS = (
    *(b"null", b"true", b"[]", b"{}", b'""', b"0", b"-1", b"1e308", b"9" * 400, b"0.5", b"[[]]"),
    *(b'"paused"', b'"2026-99-99T99:99:99Z"', b'"0001-01-01T00:00:00"', b'"\\ud800"', b"{a: 1}"),
    *(
        b"*x",
        b"&x y",
        b"!!int x",
        b"'",
        b'"',
        b"|",
        b"- 1",
        b'"../../x"',
        b'"' + b"x" * 5000 + b'"',
    ),
)


def swap(chance: random.Random, data: bytes) -> bytes:
    spans = [match.span() for match in _VALUE.finditer(data)]
    for start, end in sorted(chance.sample(spans, min(len(spans), chance.choice((1, 2, 5)))))[::-1]:
        data = data[:start] + chance.choice(_OTHERS) + data[end:]
    return data


def splice(chance: random.Random, data: bytes) -> bytes:
    _, _, other = chance.choice(FILES)
    return data[: chance.randrange(len(data))] + other[chance.randrange(len(other)) :]


MUTATIONS: tuple[Mutation, ...] = (flip, cut, drop, zero, shuffle, repeat, swap, swap, splice)


def mutants(seed: int) -> Iterator[tuple[str, str, bytes]]:
    chance = random.Random(seed)
    while True:
        kind, name, data = chance.choice(FILES)
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            data = chance.choice(MUTATIONS)(chance, data)[:LARGEST] or b"\n"
        yield kind, name, data


class Known(NamedTuple):
    """A session of a format before anybody touched its files."""

    tree: Tree
    facts: Facts


def _known(kind: str) -> Known:
    tree = {n: Document.parse(d, n.rsplit(".", 1)[-1]).value for n, d in bundle(kind).items()}
    return Known(tree, carry_over.read(load_format(kind), tree, WHERE))


KNOWN = {kind: _known(kind) for kind in REGISTRY}
# What follows from other facts, or may be missing from a file without a word about it.
QUIET = {"native_id", "device", "updated_at", "position", "tokens_by_agent"}


def look(path: str, data: bytes) -> tuple[Find | None, str]:
    """Read a file as the commands do, and return the outcome; every loss must be reported."""
    one = discover.identify(path, data)
    if one is None:
        return None, "of no format"
    report = check_files.check(one, WHERE)
    assert report.reading.format == one.format_id
    facts, _ = adopt.read_facts(one, WHERE)
    whole = bool(one.documents) and not one.faults
    assert facts is not None or one.faults
    assert whole or one.faults
    assert report.findings or whole
    if whole:
        assert facts is not None
        assert one.format.put(one.tree, one.format.get(one.tree, WHERE), WHERE) == one.tree
    if facts is not None:
        assert adoption_moves(facts, one.format_id)
    return one, "read whole" if whole else "saved in part" if facts is not None else "reported"


def absorb(kind: str, name: str, one: Find) -> None:
    """Read the file as an edit of ours: every change in it is recorded or reported."""
    format, (base, now) = one.format, KNOWN[kind]
    theirs = base | {name: next(iter(one.documents.values())).value}
    if not format.reading(theirs, WHERE).writable:
        return
    if format.get(theirs, WHERE).native_id != now.native_id:
        return
    stated = changes(format, base, theirs, now, WHERE, lambda value: value)
    before, after = plain(now), plain(carry_over.read(format, theirs, WHERE))
    news = [key for key, value in after.items() if value != before.get(key)]
    if any(_is_news(key, before.get(key), after[key]) for key in news):
        assert stated.moves or stated.contested or stated.residue, news


def _is_news(key: str, old: Any, new: Any) -> bool:
    if isinstance(new, list) and isinstance(old, list):
        return any(element not in old for element in new)
    return key not in QUIET


@dataclass
class Tally:
    """How many files of which format were tried, and what became of them."""

    seed: int
    tried: Counter[str] = field(default_factory=Counter)
    became: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def __str__(self) -> str:
        total = self.tried.total()
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.tried.items()))
        ends = ", ".join(f"{end} {count:,}" for end, count in self.became.most_common())
        pace = total / max(self.seconds, 0.001)
        return (
            f"{total:,} mutated files in {self.seconds:.0f} s ({pace:.0f} a second),"
            f" seed {self.seed}: {kinds}; {ends}"
        )


def run(seed: int, count: int) -> Tally:
    tally, began = Tally(seed), time.monotonic()
    for number, (kind, name, data) in enumerate(mutants(seed)):
        tally.seconds = time.monotonic() - began
        if number >= count:
            break
        start = time.process_time()
        try:
            one, end = look(f"/p/{root_of(kind)}/{name}", data)
            if one is not None and one.format_id == kind and end == "read whole":
                absorb(kind, name, one)
        except Exception as error:
            raise AssertionError(
                f"seed {seed}, number {number} ({kind}): {data[:300]!r}"
            ) from error
        spent = time.process_time() - start
        assert spent < SLOW, f"seed {seed}, number {number} ({kind}) took {spent:.1f} s"
        tally.tried[kind] += 1
        tally.became[end] += 1
    return tally


def run_wide(seed: int, count: int) -> Tally:
    """The same on all cores, each with the next seed."""
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        parts = [count // cores + (n < count % cores) for n in range(cores)]
        shares = [pool.submit(run, seed + n, part) for n, part in enumerate(parts)]
        tallies = [share.result() for share in shares]
    return Tally(
        seed,
        sum((tally.tried for tally in tallies), Counter()),
        sum((tally.became for tally in tallies), Counter()),
        max(tally.seconds for tally in tallies),
    )


def test_mutated_files_are_read_or_reported() -> None:
    tally = run(new_seed(), FEW)
    print(tally)
    assert tally.tried.total() == FEW and tally.tried.keys() == set(REGISTRY)


@pytest.mark.soak
def test_very_many_mutated_files_are_read_or_reported(report_figure: Callable[[str], None]) -> None:
    tally = run_wide(new_seed(), MANY)
    report_figure(str(tally))
    assert tally.tried.total() == MANY and tally.tried.keys() == set(REGISTRY)


def test_mutated_files_are_adopted_with_the_rules_of_the_journal(tmp_path: Path) -> None:
    """A home records the content of a mutated file, or reports why not, and stays sound."""
    seed = new_seed()
    print(f"seed {seed}")
    home = forestay.open(str(tmp_path / "home"), cwd=str(tmp_path), trust_env=False)
    with home as stay:
        for number, (_, name, data) in zip(range(60), mutants(seed), strict=False):
            file = tmp_path / str(number) / Path(name).name
            file.parent.mkdir()
            file.write_bytes(data)
            reported = list(stay.files.adopt(str(file)))
            # A list of sessions that are over, alone, is nothing to speak of.
            assert reported or "active-features" in name, (seed, number)
            assert all(one.session or one.problems or one.outcome == "template" for one in reported)
            assert file.read_bytes() == data
        assert all(report.ok for report in stay.verify()), seed
