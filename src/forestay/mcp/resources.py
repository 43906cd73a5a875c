"""Resources and prompts: what can be read of a session by its address, and what to ask of a model.

Nothing here changes anything. Texts are fenced as data; values say that they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forestay.base.text import shorten
from forestay.base.vocabulary import FINISHED
from forestay.errors import InvalidInput, NoSession
from forestay.mcp import responses, tools
from forestay.mcp.tool_schemas import CURRENT, TEMPLATES, Prompt

if TYPE_CHECKING:
    from forestay.api.forestay import Forestay
    from forestay.api.session import Session

_SCHEME = "forestay://"
_LISTED, _GOAL, _PAGE, _COMPLETED = 20, 60, 50, 100
_DIGITS = 20
_TEXT, _JSON = "text/plain", "application/json"


def listed(home: Forestay) -> list[tuple[str, str, str]]:
    """The open sessions of the project: address, id, goal."""
    return [
        (f"{_SCHEME}session/{row.session}", str(row.session), shorten(row.goal, _GOAL))
        for row in home.list(limit=_LISTED)
        if row.status not in FINISHED
    ]


def ids(home: Forestay, begun: str) -> list[str]:
    """Ids of sessions of the project that begin like this, latest first."""
    rows = home.list(limit=_COMPLETED)
    return [str(row.session) for row in rows if str(row.session).startswith(begun)]


def read(home: Forestay, uri: str) -> tuple[str, str]:
    """The type and the text at an address."""
    parts = uri.removeprefix(_SCHEME).split("/") if uri.startswith(_SCHEME) else [""]
    if uri in CURRENT:
        session = home.to_resume(open_only=False)
        return _briefing(session) if parts[1] == "briefing" else _state(session)
    if parts[0] == "session" and 2 <= len(parts) <= 4 and parts[1]:
        return _of_session(home.session(parts[1]), parts[2:], uri)
    raise _unknown(uri)


def _of_session(session: Session, rest: list[str], uri: str) -> tuple[str, str]:
    if not rest:
        return _state(session)
    if rest == ["briefing"]:
        return _briefing(session)
    if rest[0] == "journal" and (len(rest) == 1 or _is_number(rest[1])):
        return _page(session, int(rest[1]) if len(rest) == 2 else 0)
    raise _unknown(uri)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _unknown(uri: str) -> InvalidInput:
    there = ", ".join([*CURRENT, *TEMPLATES])
    return InvalidInput(f"there is no resource {uri[:200]}", why=f"there are {there}")


def _briefing(session: Session) -> tuple[str, str]:
    return _TEXT, session.brief().text


def _state(session: Session) -> tuple[str, str]:
    values = {**tools.show(session), "status": session.status().as_json()}
    return _JSON, responses.as_json(responses.clean(values))


def _page(session: Session, after: int) -> tuple[str, str]:
    values = {"session": session.id, **tools.log(session, after, _PAGE)}
    return _JSON, responses.as_json(responses.clean(values))


def prompt(home: Forestay, asked: Prompt, session: str) -> str:
    """What is asked of a model, with the briefing of the session it is about."""
    try:
        meant = home.to_resume(session)
    except NoSession as error:
        told = responses.failed(asked.name, error, home, reads=True)
        return (
            f"{asked.asks}\n\nWhich session is meant is not clear; ask the user.\n{told.texts[0]}"
        )
    return f"{asked.asks}\n\nSession {meant.id}:\n{meant.brief().text}"
