"""Resources and prompts: sessions to read by address, and instructions for a model.

Everything here is read-only. Texts are fenced as data; values are labelled as data.
"""

from __future__ import annotations

import re
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
_NUMBER = re.compile("[0-9]{1,20}")
_TEXT, _JSON = "text/plain", "application/json"


def list_resources(home: Forestay) -> list[tuple[str, str, str]]:
    """Return the open sessions of the project: address, id, goal."""
    return [
        (f"{_SCHEME}session/{row.session}", str(row.session), shorten(row.goal, _GOAL))
        for row in home.list(limit=_LISTED)
        if row.status not in FINISHED
    ]


def complete_id(home: Forestay, prefix: str) -> list[str]:
    """Return ids of sessions of the project that begin with `prefix`, latest first."""
    rows = home.list(limit=_COMPLETED)
    return [str(row.session) for row in rows if str(row.session).startswith(prefix)]


def read_resource(home: Forestay, uri: str) -> tuple[str, str]:
    """Return the media type and the text of the resource at an address."""
    parts = uri.removeprefix(_SCHEME).split("/") if uri.startswith(_SCHEME) else [""]
    if uri in CURRENT:
        session = home.to_resume(open_only=False)
        return _read_session(session, ["briefing"] if parts[1] == "briefing" else [], uri)
    if parts[0] == "session" and 2 <= len(parts) <= 4 and parts[1]:
        return _read_session(home.session(parts[1]), parts[2:], uri)
    raise _unknown_resource(uri)


def _read_session(session: Session, rest: list[str], uri: str) -> tuple[str, str]:
    if not rest:
        values = {**tools.show_session(session), "status": session.status().as_json()}
        return _JSON, responses.as_json(responses.clean(values))
    if rest == ["briefing"]:
        return _TEXT, session.brief().text
    after = int(rest[1]) if len(rest) == 2 and _NUMBER.fullmatch(rest[1]) else 0
    if rest[0] == "journal" and (len(rest) == 1 or _NUMBER.fullmatch(rest[1])):
        values = {"session": session.id, **tools.read_log(session, after, _PAGE)}
        return _JSON, responses.as_json(responses.clean(values))
    raise _unknown_resource(uri)


def _unknown_resource(uri: str) -> InvalidInput:
    known = ", ".join([*CURRENT, *TEMPLATES])
    return InvalidInput(f"there is no resource {uri[:200]}", why=f"the resources are {known}")


def render_prompt(home: Forestay, prompt: Prompt, session: str) -> str:
    """Return the text of a prompt with the briefing of the session it is about."""
    try:
        chosen = home.to_resume(session)
    except NoSession as error:
        answer = responses.report_error(prompt.name, error, home, reads=True)
        question = f"Ask the user which session to use.\n{answer.texts[0]}"
        return f"{prompt.asks}\n\n{question}"
    return f"{prompt.asks}\n\nSession {chosen.id}:\n{chosen.brief().text}"
