"""Find the briefing of a session in the requests that a model received."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from tests.real_agents.model import Model, Request

_FENCED = re.compile(r"<<<data (\w+)[^\n]*\n(.*?)\n?\1>>>", re.DOTALL)


def briefings(request: Request) -> Iterator[str]:
    """Yield the briefings of a request; some agents escape angle brackets in hook output."""
    for found in _FENCED.finditer(html.unescape(request.text)):
        yield found.group(2)


def briefing(model: Model, script: str, output: str = "") -> str:
    """Return the newest briefing in a script's first request with one; report `output` if none."""
    requests = [each for each in model.requests if each.script.startswith(f"{script}#")]
    found = [list(briefings(each)) for each in requests]
    assert any(found), f"no briefing in {len(requests)} requests; agent output: {output[-3000:]}"
    return next(texts[-1] for texts in found if texts)


def section(briefing: str, title: str) -> str:
    """Return the lines under one heading of a briefing."""
    _, _, rest = briefing.partition(f"\n{title}")
    return rest.partition("\n\n")[0]
