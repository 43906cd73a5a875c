"""What a model was told of a session: the briefing in its requests, as it came over the wire."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from tests.real_agents.model import Asked, Model

_FENCED = re.compile(r"<<<data (\w+)[^\n]*\n(.*?)\n?\1>>>", re.DOTALL)


def briefings(asked: Asked) -> Iterator[str]:
    """As the model reads them; some agents escape angle brackets in what a hook says."""
    for found in _FENCED.finditer(html.unescape(asked.text)):
        yield found.group(2)


def briefing(model: Model, script: str, said: str = "") -> str:
    """The newest one in the first request of a script that has any; `said` helps to see why not."""
    asked = [each for each in model.asked if each.script.startswith(f"{script}#")]
    told = [list(briefings(each)) for each in asked]
    assert any(told), f"no briefing in {len(asked)} requests; the agent said: {said[-3000:]}"
    return next(texts[-1] for texts in told if texts)


def section(told: str, title: str) -> str:
    """The lines under one heading of a briefing."""
    _, _, rest = told.partition(f"\n{title}")
    return rest.partition("\n\n")[0]
