"""Any value in the place of any other: it stays unchanged when it is written and converted.

The values of the stories are replaced one by one with others that make no sense there: of another
type, too large, of another calendar, words of another format. Two laws hold for such files too:
writing the facts of a file changes nothing in it, and a conversion into each format and back
gives the same values.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from forestay.formats import diff, status_words
from forestay.formats.port import REGISTRY, Tree, load_format
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable
from forestay.formats.to_events import adoption_moves
from forestay.mirror import check_files, discover
from tests.chance import new_seed
from tests.formats.test_pairs import ELSEWHERE, HERE, STORIES, Files, converted, kind, read

FEW = 60
MANY = 3_000
SLOW = 60.0
Way = tuple[Any, ...]

NUMBERS = (0, -0.0, -1, 10**30, 10**3999, 1e308, -1e308, 5e-324, True, False, None)
TEXTS = (
    "",
    " ",
    "\n",
    "\t",
    "x" * 5000,
    "50%",
    "-rf",
    "../../x",
    "/etc/passwd",
    "CON",
    "a\\b",
    "T1",
)
PLAIN = ("yes", "off", "~", "null", "017", "0o17", "0x1F", "1:30:00", "1_000", ".nan", "1e400")
SIGNS = (
    "\0",
    "\u200b",
    "\u202eabc",
    "e\u0301",
    "\ufeff",
    "\u2028",
    "\x85",
    "\x0c",
    "a\rb",
    "\ufffe",
)
TIMES = (
    *("0000-01-01T00:00:00Z", "0001-01-01T00:00:00", "9999-12-31T23:59:59-23:59", "2026-02-14"),
    *("2026-06-30T23:59:60Z", "2026-02-14T10:00:00.123456789012Z", "1969-12-31T23:59:59Z"),
    *("2026-02-14T24:00:00Z", "+002026-02-14T10:00:00Z", "2026-W07-6", 1771079422, 1771079422000),
    *(1771079422.5, 1771079422000000000, -62135596800, 253402300800, 1e30),
)
SHAPES: tuple[Any, ...] = (
    [],
    {},
    [[]],
    [None],
    [{}],
    {"a": None},
    {"": ""},
    {"forestay": {}},
    {"forestay": None},
)
STATUSES = tuple(
    {**status_words.ALSO_SESSION, **status_words.ALSO_UNIT, "COMPLETED": "", "someday": ""}
)
ODD: tuple[Any, ...] = (*NUMBERS, *TEXTS, *PLAIN, *SIGNS, *TIMES, *SHAPES, *STATUSES)


def ways(value: Any, way: Way = ()) -> Iterator[Way]:
    """The ways to all values inside of one."""
    inside = value.items() if isinstance(value, dict) else ()
    for key, each in enumerate(value) if isinstance(value, list) else inside:
        yield (*way, key)
        yield from ways(each, (*way, key))


def with_odd(value: Any, way: Way, odd: Any) -> Any:
    if not way:
        return odd
    made = value.copy()
    made[way[0]] = with_odd(value[way[0]], way[1:], odd)
    return made


def written(name: str, value: Any) -> bytes:
    """As other programs write it."""
    if kind(name) == "yaml":
        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode()
    if kind(name) == "json":
        return json.dumps(value, indent=2).encode()
    return "".join(json.dumps(line) + "\n" for line in value).encode()


def is_read(files: Files) -> bool:
    try:
        read(files)
    except Unreadable:
        return False
    return True


def odd_stories(seed: int) -> Iterator[tuple[str, Files, random.Random]]:
    """Stories with odd values in one of their files, if that can be read."""
    chance = random.Random(seed)
    while True:
        story = chance.choice(sorted(STORIES))
        name = chance.choice(sorted(STORIES[story]))
        value = Document.parse(STORIES[story][name], kind(name)).value
        for _ in range(chance.choice((1, 1, 2, 4))):
            value = with_odd(value, chance.choice(list(ways(value)) or [()]), chance.choice(ODD))
        if isinstance(value, dict | list) and value:
            files = {**STORIES[story], name: written(name, value)}
            if is_read(files):
                yield story, files, chance


def unchanged(a: str, files: Files) -> Tree:
    """Writing the facts of the files changes nothing."""
    values = read(files)
    format = load_format(a)
    assert format.put(values, format.get(values, HERE), HERE) == values
    return values


def hold(a: str, files: Files, b: str) -> None:
    values = unchanged(a, files)
    adoption_moves(load_format(a).get(values, HERE), a)
    load_format(a).check(values, HERE, strict=True)
    load_format(a).salvage(files, HERE)
    for name, data in files.items():
        one = discover.identify(f"/p/{name}", data)
        assert one is None or check_files.check(one, HERE)
    back = converted(converted(files, a, b, HERE), b, a, ELSEWHERE)
    assert diff.identical(read(back), read(files))


def run(seed: int, count: int) -> Counter[str]:
    tried: Counter[str] = Counter()
    for number, (story, files, chance) in zip(range(count), odd_stories(seed), strict=False):
        a = story.partition("/")[0]
        b = chance.choice([other for other in REGISTRY if other != a])
        start = time.process_time()
        try:
            hold(a, files, b)
        except Exception as error:
            raise AssertionError(f"seed {seed}, number {number} ({story} to {b})") from error
        assert time.process_time() - start < SLOW, (seed, number)
        tried[a] += 1
    return tried


def test_odd_values_survive_conversion_to_each_format_and_back() -> None:
    seed = new_seed()
    print(f"seed {seed}")
    assert run(seed, FEW).total() == FEW


@pytest.mark.soak
def test_very_many_odd_values_survive_conversion_to_each_format_and_back(
    report_figure: Callable[[str], None],
) -> None:
    seed = new_seed()
    tried = run(seed, MANY)
    report_figure(f"{MANY:,} sessions with odd values, seed {seed}: {dict(sorted(tried.items()))}")
    assert tried.keys() == set(REGISTRY)


# What the laws were once broken by.


@pytest.mark.parametrize("story", STORIES)
def test_status_in_the_words_of_other_formats_is_not_changed(story: str) -> None:
    a = story.partition("/")[0]
    for name, data in STORIES[story].items():
        value = Document.parse(data, kind(name)).value
        places = [way for way in ways(value) if way[-1] == "status" or way[0] == "checkpoints"]
        for way in places:
            for word in STATUSES:
                stated = with_odd(value, way, word)
                unchanged(a, {**STORIES[story], name: written(name, stated)})


OTHER_IDS = {
    "ai-session": (("first", "login-2026-01-31/state.yaml"), "feature_id"),
    "praxis": (("first", "11111111-2222-4333-8444-555555555555.json"), "session_id"),
    "craft": (("short", "3f2b8c1a-9d4e-4f6a-8b7c-1234567890ab.json"), "session_id"),
}


@pytest.mark.parametrize("a", OTHER_IDS)
def test_files_with_the_id_of_another_session_retain_every_key_in_a_conversion(a: str) -> None:
    (story, name), key = OTHER_IDS[a]
    files = STORIES[f"{a}/{story}"]
    value = Document.parse(files[name], kind(name)).value
    files = {**files, name: written(name, {**value, key: "somebody-else"})}
    for b in REGISTRY:
        if b != a:
            back = converted(converted(files, a, b, HERE), b, a, ELSEWHERE)
            assert diff.identical(read(back), read(files)), b


def test_phase_without_a_start_time_gets_none() -> None:
    files = STORIES["praxis/first"]
    ((name, data),) = files.items()
    value = Document.parse(data, "json").value
    unchanged(
        "praxis", {name: written(name, with_odd(value, ("phase_timing", "0", "started_at"), "x"))}
    )


@pytest.mark.parametrize("digits", [3_700, 4_000])
def test_number_that_is_read_can_be_written_and_carried(digits: int) -> None:
    ((name, data),) = STORIES["craft/short"].items()
    value = Document.parse(data, "json").value
    files = {name: written(name, {**value, "mine": 10**digits - 1})}
    there = converted(files, "craft", "essay", HERE)
    assert diff.identical(read(converted(there, "essay", "craft", ELSEWHERE)), read(files))


@pytest.mark.parametrize("a", ["craft", "orchestrator"])
def test_last_compression_with_an_invalid_time_is_unchanged_if_none_is_counted(a: str) -> None:
    ((name, data),) = STORIES[f"{a}/first"].items()
    value = Document.parse(data, kind(name)).value
    usage = {"compression_count": 0, "last_compression": "2026-99-99T99:99:99Z"}
    unchanged(a, {name: written(name, {**value, "context_usage": usage})})
