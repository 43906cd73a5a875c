"""A method refuses an argument of a wrong type, and records nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay import Forestay, InvalidInput
from forestay.api.argument_check import _WORDS
from tests.cli.support import topics_of

WRONG: dict[str, list[object]] = {
    "str": [5, None, b"bytes", ["x"], object()],
    "int": ["x", 1.5, None, True],
    "float": ["x", None, True],
    "bool": ["yes", 1, None],
    "Sequence[str]": ["text", b"bytes", [5], 3, None],
    "str | None": [b"bytes", 1.5],
    "int | None": ["x", 1.5],
    "float | None": ["x", True],
    "Mapping[str, object] | None": ["x", 1, ["x"]],
}


@pytest.fixture
def stay(tmp_path: Path) -> Iterator[Forestay]:
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        yield stay


def verbs(owner: type) -> list[tuple[str, str, object]]:
    """Return every parameter of every public method, with values of a wrong type."""
    return [
        (name, parameter, value)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
        for parameter, hint in method.__annotations__.items()
        for value in WRONG.get(_WORDS.get(str(hint), str(hint)), [])
        if parameter != "return"
    ]


def everything(thing: object) -> list[object]:
    """Return a home or a session, with all its topics."""
    topics = [getattr(thing, name) for name in topics_of(type(thing))]
    return [thing, *(each for topic in topics for each in everything(topic))]


def required(method: Callable[..., Any], chosen: str) -> dict[str, object]:
    """Return values for the required parameters of a method, except the chosen one."""
    good = {"str": "x", "int": 1, "float": 0.5, "str | int": 1}
    return {
        name: good.get(each.annotation, "x")
        for name, each in inspect.signature(method).parameters.items()
        if each.default is each.empty and name not in ("self", chosen)
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }


def refuses(thing: object, name: str, parameter: str, value: object) -> None:
    method = getattr(thing, name)
    given = {parameter: value, **required(getattr(type(thing), name), parameter)}
    with pytest.raises(InvalidInput) as caught:
        method(**given)
    assert parameter.replace("_", " ") in caught.value.what
    assert caught.value.why == f"it is {type(value).__name__}"


def test_every_method_of_a_session_refuses_values_of_a_wrong_type(stay: Forestay) -> None:
    session = stay.start("one")
    things = everything(session)
    assert sum(len(verbs(type(thing))) for thing in things) > 300
    for thing in things:
        for name, parameter, value in verbs(type(thing)):
            refuses(thing, name, parameter, value)
    assert session.status().seq == 1


def test_every_method_of_a_home_refuses_values_of_a_wrong_type(stay: Forestay) -> None:
    for thing in everything(stay):
        for name, parameter, value in verbs(type(thing)):
            refuses(thing, name, parameter, value)
    assert stay.list(all=True) == []


def test_list_must_contain_only_texts_and_may_be_any_iterable(
    stay: Forestay,
) -> None:
    session = stay.start("one")
    with pytest.raises(InvalidInput, match="options must be a list of texts"):
        session.decide("x", options=["a", 5])  # type: ignore[list-item]
    for options in (["a", "b"], ("a", "b"), (each for each in "ab"), {"a": 1, "b": 2}):
        body = session.decide("x", options=options, chosen="a").body  # type: ignore[arg-type]
        assert getattr(body, "options", []) == ["a", "b"]


def test_path_like_objects_are_accepted_as_paths(stay: Forestay, tmp_path: Path) -> None:
    session = stay.start("one")
    (tmp_path / "a.py").write_text("x")
    path: Any = tmp_path / "a.py"
    assert getattr(session.record.file(path).body, "path", "") == "a.py"
    session.tasks.add("write it")
    done = session.tasks.done("t1", files=[path])
    assert getattr(done.body, "files", []) == ["a.py"]


def test_an_event_to_undo_may_be_a_number(stay: Forestay) -> None:
    session = stay.start("one")
    session.undo(session.note("a mistake").seq)
    assert [line.retracted for line in session.log()] == [False, True, False]


def test_unknown_parameter_raises_type_error(stay: Forestay) -> None:
    with pytest.raises(TypeError, match="colour"):
        stay.start("one", colour="red")  # type: ignore[call-arg]
