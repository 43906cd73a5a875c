"""The bytes of events: what is written, what is read back, and what a changed byte does."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.errors import Damaged, InvalidInput
from forestay.model import event as ev
from forestay.model.event import Body, Erased, Header, Sealed, Unknown
from forestay.model.hash_chain import check_link
from tests.golden import events as golden

PINNED = Path(golden.__file__).with_suffix(".jsonl")
LINES = [json.loads(line) for line in PINNED.read_text(encoding="utf-8").splitlines()]
BODIES = [*golden.MINIMAL, *golden.FULL, *golden.GROWN]


def sealed_of(line: dict[str, str]) -> Sealed:
    salt = bytes.fromhex(line["salt"])
    return Sealed(line["header"].encode(), salt, line["data"].encode())


# -- pinned bytes ------------------------------------------------------------------------------


def test_written_bytes_equal_the_pinned_bytes() -> None:
    assert list(golden.lines()) == PINNED.read_text(encoding="utf-8").splitlines()


def test_every_kind_is_pinned_with_the_fewest_and_with_all_fields() -> None:
    for bodies in (golden.MINIMAL, golden.FULL):
        assert [ev.KIND_OF[type(body)] for body in bodies] == list(ev.KINDS)
    for body in golden.FULL:
        data = json.loads(ev.encode_body(body))
        grown = [ev.encode_body(more) for more in golden.GROWN if type(more) is type(body)]
        later = {name for more in grown for name in json.loads(more)}
        left_out = set(type(body).__struct_encode_fields__) - data.keys() - later
        assert left_out <= {"before"}, f"{type(body).__name__} is pinned without {left_out}"


@pytest.mark.parametrize("line", LINES, ids=[line["name"] for line in LINES])
def test_pinned_hashes_are_plain_sha256_of_the_pinned_bytes(line: dict[str, str]) -> None:
    header = json.loads(line["header"])
    salted = bytes.fromhex(line["salt"]) + line["data"].encode()
    assert header["digest"] == sha256(salted).hexdigest()
    assert line["hash"] == sha256(line["header"].encode()).hexdigest()
    assert ev.check(sealed_of(line), ev.parse_header(line["header"].encode())) == ""


def test_pinned_bytes_are_read_as_the_original_bodies() -> None:
    for line, body in zip(LINES, BODIES, strict=False):
        event = ev.read(sealed_of(line))
        assert event.body == body
        assert (event.kind, event.hash) == (ev.KIND_OF[type(body)], line["hash"])


def test_the_pinned_chain_is_linked_and_its_last_event_requires_a_newer_version() -> None:
    held: dict[str, Header] = {}
    for line in LINES[-3:]:
        event = ev.read(sealed_of(line))
        assert check_link(event.head, held.get) == ""
        held[event.hash] = event.head
    assert isinstance(event.body, Unknown)
    assert event.head.must == "2.10"
    assert event.head.seen_heads() == [("d2", 1, LINES[-2]["hash"])]


def test_a_field_with_its_default_is_left_out_of_the_bytes() -> None:
    assert ev.encode_body(ev.NoteAdded(text="x")) == b'{"text":"x"}'
    assert ev.encode_body(ev.SessionForgotten()) == b"{}"


# -- what a changed byte does ------------------------------------------------------------------


def test_any_changed_byte_of_header_salt_or_data_is_detected() -> None:
    good = sealed_of(LINES[-2])
    assert good.salt is not None and good.data is not None
    header = ev.parse_header(good.header)
    for i in range(len(good.header)):
        assert Sealed(_flip(good.header, i), good.salt, good.data).hash != good.hash
    for i in range(len(good.salt)):
        assert "digest" in ev.check(Sealed(good.header, _flip(good.salt, i), good.data), header)
    for i in range(len(good.data)):
        assert "digest" in ev.check(Sealed(good.header, good.salt, _flip(good.data, i)), header)


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_bytes_cannot_move_between_salt_and_data() -> None:
    good = sealed_of(LINES[0])
    assert good.salt is not None and good.data is not None
    moved = Sealed(good.header, good.salt + good.data[:1], good.data[1:])
    assert ev.check(moved, ev.parse_header(good.header)) == "its salt has 17 bytes instead of 16"


def test_erasing_content_and_salt_leaves_the_hash_and_the_event_valid() -> None:
    good = sealed_of(LINES[0])
    bare = Sealed(good.header, None, None)
    assert bare.hash == good.hash
    assert ev.check(bare, ev.parse_header(bare.header)) == ""
    assert ev.read(bare).body == Erased()


def test_half_erased_content_is_damage() -> None:
    good = sealed_of(LINES[0])
    header = ev.parse_header(good.header)
    for half in (Sealed(good.header, None, good.data), Sealed(good.header, good.salt, None)):
        assert ev.check(half, header) == "its content is half erased"


def test_an_envelope_of_a_newer_version_is_not_valid() -> None:
    line = LINES[0]
    newer = line["header"].replace('{"v":1,', '{"v":2,').encode()
    sealed = Sealed(newer, bytes.fromhex(line["salt"]), line["data"].encode())
    assert "version 2" in ev.check(sealed, ev.parse_header(newer))


# -- reading -----------------------------------------------------------------------------------

UNREADABLE: dict[str, tuple[str, bytes]] = {
    "a kind of a newer version": ("note.sung", b'{"text":"la"}'),
    "a wrong type": ("note.added", b'{"text":7}'),
    "null for a text": ("note.added", b'{"text":null}'),
    "a missing field": ("note.added", b"{}"),
    "a list": ("note.added", b"[]"),
    "null": ("note.added", b"null"),
    "nothing": ("note.added", b""),
    "no JSON": ("note.added", b"{text}"),
    "more than JSON": ("note.added", b'{"text":"x"} x'),
    "no UTF-8": ("note.added", b'{"text":"\xff"}'),
    "half a surrogate pair": ("note.added", b'{"text":"\\ud800"}'),
    "a number out of range": ("step.progressed", b'{"step":"t","fraction":1e999}'),
    "an endless number": ("context.measured", b'{"tokens":' + b"9" * 9000 + b"}"),
    "nesting without end": ("checkpoint.passed", b'{"step":"p","evidence":' + b'{"a":' * 3000),
    "deep unknown fields": ("note.added", b'{"text":"x","y":' + b"[" * 70 + b"]" * 70 + b"}"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_data_that_cannot_be_read_becomes_unknown(name: str) -> None:
    kind, data = UNREADABLE[name]
    body = ev.decode_body(kind, data)
    assert body == Unknown(raw=data.decode("utf-8", "replace"))


@given(st.sampled_from([*ev.KINDS, "future.kind"]), st.binary(max_size=60))
def test_reading_any_data_never_raises(kind: str, data: bytes) -> None:
    assert isinstance(ev.decode_body(kind, data), Body)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.sampled_from(LINES[: 2 * len(ev.KINDS)]), st.data())
def test_reading_a_known_kind_with_any_values_never_raises(
    line: dict[str, str], data: st.DataObject
) -> None:
    fields = json.loads(line["data"])
    for name in fields:
        if data.draw(st.booleans()):
            fields[name] = data.draw(_json)
    raw = json.dumps(fields).encode()
    assert isinstance(ev.decode_body(json.loads(line["header"])["kind"], raw), Body)


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert ev.decode_body("note.added", b'{"text":"x","mood":"fine"}') == ev.NoteAdded(text="x")
    header = LINES[0]["header"].encode()
    newer = header[:-1] + b',"later":[1]}'
    assert ev.parse_header(newer) == ev.parse_header(header)


HEADER = json.loads(LINES[0]["header"])
BAD_HEADERS: dict[str, object] = {
    **{f"no {name}": {k: v for k, v in HEADER.items() if k != name} for name in HEADER},
    **{f"null as {name}": {**HEADER, name: None} for name in HEADER},
    "number 0": {**HEADER, "n": 0},
    "a negative clock": {**HEADER, "clock": -1},
    "a clock beyond all numbers": {**HEADER, "clock": 2**53 + 1},
    "a time beyond all numbers": {**HEADER, "at": -(2**53) - 1},
    "a version 0": {**HEADER, "v": 0},
    "true as number": {**HEADER, "n": True},
    "seen as a list": {**HEADER, "seen": [1]},
    "a list": [],
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_a_header_that_cannot_be_read_is_damage(name: str) -> None:
    with pytest.raises(Damaged, match="header cannot be read"):
        ev.parse_header(json.dumps(BAD_HEADERS[name]).encode())


@given(st.binary(max_size=80))
def test_any_bytes_are_a_header_or_damage(raw: bytes) -> None:
    with pytest.raises(Damaged):
        ev.parse_header(raw)


def test_deep_nesting_in_a_header_is_damage() -> None:
    with pytest.raises(Damaged):
        ev.parse_header(b'{"x":' * 100_000)


def test_invalid_heads_are_ignored() -> None:
    flat: list[int | str] = [1, "a", "2", "b", 3, 4, 5, "c", 6]
    assert ev.pairs(flat) == [(1, "a"), (5, "c")]


# -- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_a_body_is_read_back_equal(body: Body) -> None:
    assert ev.decode_body(ev.KIND_OF[type(body)], ev.encode_body(body)) == body


def test_an_event_of_exactly_the_largest_size_can_be_written() -> None:
    room = ev.MAX_EVENT_BYTES - len(b'{"text":""}')
    assert len(ev.encode_body(ev.NoteAdded(text="x" * room))) == ev.MAX_EVENT_BYTES
    with pytest.raises(InvalidInput, match=r"16,385 bytes, at most 16,384"):
        ev.encode_body(ev.NoteAdded(text="x" * (room + 1)))


def test_nesting_up_to_the_limit_can_be_written_and_read() -> None:
    def nested(levels: int) -> Body:
        evidence: object = 1
        for _ in range(levels):
            evidence = [evidence]
        return ev.CheckpointPassed(step="p", evidence={"x": evidence, "{[": '\\"[[[' * 90})

    deepest = nested(ev.MAX_DEPTH - 2)
    assert ev.decode_body("checkpoint.passed", ev.encode_body(deepest)) == deepest
    with pytest.raises(InvalidInput, match="nests too deep"):
        ev.encode_body(nested(ev.MAX_DEPTH - 1))


UNWRITABLE: dict[str, tuple[object, str]] = {
    "half a surrogate pair": ("\ud800", "half a character"),
    "an object": (object(), "cannot be written as JSON"),
    "itself": (golden, "cannot be written as JSON"),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_values_that_json_cannot_represent_are_refused(name: str) -> None:
    value, reason = UNWRITABLE[name]
    with pytest.raises(InvalidInput, match=reason):
        ev.encode_body(ev.CheckpointPassed(step="p", evidence={"x": value}))


def test_a_value_that_contains_itself_is_refused() -> None:
    evidence: dict[str, object] = {}
    evidence["self"] = evidence
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        ev.encode_body(ev.CheckpointPassed(step="p", evidence=evidence))


# -- tables ------------------------------------------------------------------------------------


def test_kinds_and_types_are_one_to_one() -> None:
    assert {ev.KIND_OF[body]: body for body in ev.KINDS.values()} == ev.KINDS


def test_every_digest_field_name_is_a_field_of_some_event() -> None:
    fields = {name for body in ev.KINDS.values() for name in body.__struct_fields__}
    assert fields >= ev.DIGESTS


def test_the_address_of_an_event_is_its_device_and_number() -> None:
    assert ev.read(sealed_of(LINES[-1])).address == "d1:2"
