"""Results of the library, typed: a field is an attribute, a time is a `datetime`.

A class declares the fields that a caller may rely on, over the object that the command line prints
with `--json` or over a value of the engine. A field is converted when it is read: `status` and
`list` run at every prompt, and most callers read few fields.
"""

from __future__ import annotations

from forestay.base.clock import iso, to_datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

_EMPTY = {"bool": False, "int": 0, "float": 0.0, "str": ""}
_CLASSES: dict[str, type[Value]] = {}


class Value:
    """A result. `as_json()` returns the object that the command line prints for it."""

    __slots__ = ("_source",)
    _source: Any

    _types: ClassVar[dict[str, str]] = {}
    """The annotation of each field, which decides how its value is converted."""
    _renamed: ClassVar[dict[str, str]] = {}
    """Fields that have another name in the engine."""

    def __init_subclass__(cls) -> None:
        own = {n: kind for n, kind in cls.__annotations__.items() if not n.startswith("_")}
        cls._types = cls._types | own
        _CLASSES[cls.__name__] = cls

    def __init__(self, source: Any) -> None:
        object.__setattr__(self, "_source", source)

    def _raw(self, name: str) -> Any:
        if not isinstance(self._source, dict):
            return getattr(self._source, self._renamed.get(name, name))
        if name in self._source:
            return self._source[name]
        kind = self._types[name]
        return None if kind.endswith(" | None") else _EMPTY.get(kind, [])

    if not TYPE_CHECKING:  # a type checker knows only the declared fields

        def __getattr__(self, name: str) -> Any:
            kind = self._types.get(name)
            if kind is None:
                raise AttributeError(f"{type(self).__name__} has no field {name}")
            value, plain = self._raw(name), kind.removesuffix(" | None")
            if plain == "datetime":
                return to_datetime(value) if value else None
            if value is None or value == "":
                return None if plain != kind else ""
            part = _CLASSES.get(plain.removeprefix("list[").removesuffix("]"))
            if part is None:
                return value
            return [part(one) for one in value] if plain.startswith("list[") else part(value)

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{type(self).__name__} cannot be changed")

    def as_json(self) -> dict[str, Any]:
        """Return the fields as the command line prints them, with times as text."""
        if isinstance(self._source, dict):
            return dict(self._source)
        return {name: self._field_as_json(name) for name in self._types}

    def _field_as_json(self, name: str) -> Any:
        if self._types[name].startswith("datetime"):
            ms = self._raw(name)
            return iso(ms) if ms else None
        value = getattr(self, name)
        if isinstance(value, list):
            return [one.as_json() if isinstance(one, Value) else one for one in value]
        return value.as_json() if isinstance(value, Value) else value

    def __reduce__(self) -> tuple[type[Value], tuple[Any]]:
        return type(self), (self._source,)  # for copies and pickles, as no field can be set

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._source == self._source

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._types)
        return f"{type(self).__name__}({shown})"
