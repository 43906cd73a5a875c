"""Mutated files of all layouts: no crash, no hang, no silent loss. Seeds are printed.

A file that was one of ours is harmed a little (bytes flipped, cut off, lines shuffled, values
swapped) and goes where any file goes: it is told, checked and read. What could be parsed is read
whole; what could not is reported, with whatever is saved of it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import adopt, found
from holdfast.found import Find
from holdfast.layout import REGISTRY, Where
from holdfast.layout.translate import adoption
from tests.layouts import bundle, root_of

WHERE = Where(now=1_794_771_152_000, naive="utc")
FILES = [
    (kind, f"/p/{root_of(kind)}/{name}", data)
    for kind in REGISTRY
    for name, data in bundle(kind).items()
]
FEW = 2_000
MANY = 200_000
SLOW = 1.0

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
        kind, path, data = chance.choice(FILES)
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            data = chance.choice(MUTATIONS)(chance, data or b"\n") or b"\n"
        yield kind, path, data


def look(path: str, data: bytes) -> Find | None:
    """Do with a file what the commands do; whatever is lost must be told."""
    one = found.told(path, data)
    if one is None:
        return None
    report = found.check(one, WHERE)
    assert report.reading.layout == one.layout
    facts, problems = adopt.facts_in(one, WHERE)
    whole = bool(one.documents) and not one.faults
    assert facts is not None or problems
    assert whole or problems
    if whole:
        assert facts is not None
        assert one.lens.put(one.tree, one.lens.get(one.tree, WHERE), WHERE) == one.tree
    if facts is not None:
        assert adoption(facts, one.layout)
    return one


def run(seed: int, count: int, deadline: float) -> int:
    done = 0
    for kind, path, data in mutants(seed):
        if done >= count or time.monotonic() > deadline:
            break
        start = time.process_time()
        try:
            look(path, data)
        except Exception as error:
            raise AssertionError(f"seed {seed}, number {done} ({kind}): {data[:300]!r}") from error
        spent = time.process_time() - start
        assert spent < SLOW, f"seed {seed}, number {done} ({kind}) took {spent:.1f} s"
        done += 1
    return done


def test_mutated_files_are_read_or_told() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    assert run(seed, FEW, time.monotonic() + 600) == FEW


@pytest.mark.soak
def test_very_many_mutated_files_are_read_or_told(soak_seconds: float) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    assert run(seed, MANY, time.monotonic() + soak_seconds) > 0


def test_mutated_files_are_adopted_with_the_rules_of_the_journal(tmp_path: Path) -> None:
    """A home takes what a mutant says, or says why not; it stays sound either way."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    home = holdfast.open(str(tmp_path / "home"), cwd=str(tmp_path), trust_env=False)
    with home as hf:
        for number, (_, path, data) in zip(range(60), mutants(seed), strict=False):
            file = tmp_path / str(number) / Path(path).name
            file.parent.mkdir()
            file.write_bytes(data)
            for one in hf.adopt(str(file)):
                assert one.session or one.problems or one.outcome == "template", (seed, number)
            assert file.read_bytes() == data
        assert all(report.ok for report in hf.verify()), seed
