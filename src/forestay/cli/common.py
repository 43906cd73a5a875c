"""Shared code of recording commands: find the session to record in, and confirm the event.

A confirmation shows the stored text, not the typed one, because secrets are removed from it.
"""

from __future__ import annotations

from forestay.api.status import count_waiting, event_receipt, holder_view, looks_damaged
from forestay.base.vocabulary import FINISHED
from forestay.cli.arguments import KEY, TEXTS, Command, arg, count, flag, fraction, read_text, score
from forestay.errors import ForestayError
from forestay.journal.presence import Presence
from forestay.mirror.session_files import SessionFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forestay.cli.arguments import Argument
    from forestay.cli.types import Any, Event, Forestay, Namespace, Part, Screen, Session

    Prepare = Callable[[Namespace, Session, Screen], bool]
    Message = str | Callable[[Any], str]
    Report = Callable[[Session, Any, Screen], None]

_HELP = {
    "agent": "AGENT the agent that did it",
    "because": "REASON why",
    "error": "TEXT the error",
    "id": "ID its id",
}
_OPTIONS = frozenset({"because", "error", "summary"})
"""Parameters that are always options (`--because`), even where the method requires them."""
_TOPICS = {
    "task": "tasks",
    "agent": "agents",
    "phase": "phases",
    "session": "lifecycle",
    "essay section": "essay sections",
    "essay claim": "essay claims",
}
"""The attribute of `Session` for a family of commands, where the two names differ."""
_TYPES = {"int": count, "int | None": count, "float": fraction, "float | None": score}


class Verb(Command):
    """A recording command: one method of a session, with its arguments from the signature.

    `task add` is the method `session.tasks.add`; `method` names it where it is called otherwise.
    `message` confirms it: a text that is formatted with the event's body, or a function of the
    body; `report` is a function that prints the result instead. `then` is the command to type
    next. Each keyword in `help` describes a parameter: its placeholder, then its help text; a flag
    has only the text. `choices` are the values that a parameter accepts where its type does not
    name them. `prepare` can change the options, or do the work and return True. `finished` allows
    finished sessions; `warns` reports that the session is finished.
    """

    def __init__(
        self,
        message: Message,
        /,
        *parts: Argument | str,
        method: str = "",
        report: Report | None = None,
        then: str = "",
        choices: Mapping[str, tuple[object, ...]] | None = None,
        prepare: Prepare | None = None,
        finished: bool = False,
        warns: bool = False,
        about: str = "",
        **help: str,
    ) -> None:
        self.method, self.message, self.then = method, message, then
        self.report, self.prepare = report, prepare
        self.finished, self.warns = finished, warns
        self.help, self.choices = {**_HELP, **help}, choices or {}
        super().__init__(self._record, *parts, about=about)

    def all_arguments(self) -> list[Argument]:
        """Return the arguments of the method's signature, then those given to the constructor."""
        from forestay.api.session import Session  # start-up

        # The signatures can be read from a session that was never opened.
        unopened = object.__new__(Session)
        unopened._recorder = None  # type: ignore[assignment]
        method = self._find_method(unopened)
        method = getattr(method, "__wrapped__", method)
        code = method.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        positional = code.co_varnames[1 : code.co_argcount]
        optional = dict(
            zip(reversed(positional), reversed(method.__defaults__ or ()), strict=False)
        )
        optional |= method.__kwdefaults__ or {}
        made = []
        for name in code.co_varnames[1:count]:
            kind = method.__annotations__[name]
            if name == "key":
                made.append(KEY)
            elif name in self.help:
                is_option = name not in positional or name in _OPTIONS
                made.append(self._argument(name, kind, optional, is_option=is_option))
        return [*made, *self.arguments]

    def _find_method(self, session: Session) -> Any:
        method: Any = session
        family, _, action = self.name.rpartition(" ")
        path = self.method or f"{_TOPICS.get(family, family)} {action}"
        for name in path.split():
            method = getattr(method, name)
        return method

    def _argument(
        self, name: str, kind: str, optional: dict[str, Any], *, is_option: bool
    ) -> Argument:
        option = "--" + name.replace("_", "-")
        if kind == "bool":
            return flag(option, self.help[name])
        metavar, _, text = self.help[name].partition(" ")
        more: dict[str, Any] = {"type": _TYPES[kind]} if kind in _TYPES else {}
        if words := self.choices.get(name) or _words(kind):
            more["choices"] = words
            text = text or ", ".join(map(str, words))
        if kind.startswith("Sequence"):
            return arg(option.removesuffix("s"), metavar, text, many=True, dest=name)
        if name in optional:
            more["default"] = optional[name]
        if not is_option:
            text += "; - reads it from stdin" if metavar in TEXTS else ""
            return arg(f"{name}?" if name in optional else name, metavar, text, **more)
        if name not in optional:
            more["required"] = True
        elif words and optional[name]:
            text += f" (default: {optional[name]})"
        return arg(option, metavar, text, **more)

    def _record(self, options: Namespace, stay: Forestay, screen: Screen) -> None:
        session = current_session(stay, finished=self.finished)
        if self.prepare and self.prepare(options, session, screen):
            return
        method = self._find_method(session)
        code = getattr(method, "__wrapped__", method).__code__
        names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        given = {name: getattr(options, name) for name in names if hasattr(options, name)}
        for name, value in given.items():
            if value == "-" and self.help.get(name, "").partition(" ")[0] in TEXTS:
                given[name] = read_text(value, screen)
        result = method(**given)
        if self.report:
            self.report(session, result, screen)
        else:
            body, message = result.body, self.message
            text = message.format(body) if isinstance(message, str) else message(body)
            confirm(session, result, screen, text, then=self.then.format(body))
        if self.warns:
            warn_finished(session, screen)


def _words(kind: str) -> tuple[object, ...]:
    """Return the words that a literal type of `base.words` allows, given the type's name."""
    if not kind[:1].isupper():
        return ()
    from forestay.base import words  # start-up

    return getattr(getattr(words, kind.partition(" |")[0], None), "__args__", ())


def current_session(stay: Forestay, *, finished: bool = False) -> Session:
    """Return the session a recording command applies to; a finished one only if `finished`.

    Waiting hook events are recorded first, for at most a fraction of a second.
    """
    if count_waiting(stay.context):
        stay.agents.catch_up()
    return stay.current(open_only=not finished)


def is_essay(session: Session) -> bool:
    """Return whether a session has an essay's files, or its workflow."""
    bindings = SessionFiles.of(session.context).inspect_bindings(session.id)
    if any(binding.format == "essay" for binding in bindings):
        return True
    try:
        with session.context.store.view(session.id) as view:
            return session.context.journal.state(view).core.workflow == "essay"
    except ForestayError:
        return False


def confirm(
    session: Session, event: Event, screen: Screen, *message: Part, then: str = "", **more: object
) -> None:
    """Print that an event was recorded, with warnings; `more` is added to the JSON answer."""
    others, damaged = other_holders(session), looks_damaged(session.context, session.id)
    known = {"repeated": session.repeated, "others": others, "damaged": damaged, **more}
    screen.answer(session.status, {"event": event_receipt(event), **known})
    again: list[Part] = [("already recorded: ", "yellow")] if session.repeated else []
    context = session.context
    elsewhere = not context.settings.session and context.workspace.is_overridden()
    where: Part = (f" – in session {session.id}" if elsewhere else "", "dim")
    screen.done((f"#{event.seq} ", "dim"), *again, *message, *removed_secrets(event), where)
    screen.hint("next: ", then)
    warn_others(others, screen)
    if damaged:
        line = screen.as_typed(f"forestay verify {session.id}")
        what = f"session {session.id} is damaged; see what is wrong: "
        screen.warn(("attention: ", "yellow"), what, (line, "cyan"))


def removed_secrets(event: Event) -> list[Part]:
    """Return a remark that names the secrets removed from the event; [] if there were none."""
    names = ", ".join(event.body.redacted)
    return [(f" – removed, it looked secret: {names}", "yellow")] if names else []


def warn_other_current(session: Session, screen: Screen) -> None:
    """Warn when commands in this folder will use another session than the one just chosen."""
    context, named = session.context, session.context.settings.session
    current = named or context.workspace.current()
    if not current or current == session.id:
        return
    if not named and not context.workspace.is_overridden():
        return  # the choice was not made, so the folder's current session is still the same
    origin = context.settings.origin("session")
    who = f"{origin} names" if named else "a parent process uses"
    how = (f"forestay … --session {session.id}", "cyan")
    screen.warn(("but ", "yellow"), f"{who} {current}, so commands use that one; instead: ", how)


def warn_finished(session: Session, screen: Screen) -> None:
    """Warn if the session is finished, which only a session chosen with --session can be."""
    if session.context.settings.session and not screen.json:
        status = session.status().status
        if status in FINISHED:
            screen.warn(("attention: ", "yellow"), f"session {session.id} is {status}")


def warn_others(others: list[dict[str, Any]], screen: Screen) -> None:
    """Warn that other processes work on the session, and name them."""
    if others:
        names = ", ".join(f"{one['name']} (pid {one['pid']})" for one in others)
        screen.warn(("also working on this session: ", "yellow"), names)


def other_holders(session: Session) -> list[dict[str, Any]]:
    """Return the other processes that work on the session, as JSON values."""
    held = Presence.of(session.context).others(session.id)
    return [holder_view(holder, word) for holder, word in held if word != "dead"]
