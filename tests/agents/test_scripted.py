"""The rig itself: each real agent does what the scripted model says, in its fence."""

from __future__ import annotations

import pytest

from tests.agents.clients import Client, Place
from tests.agents.model import Model, Step

pytestmark = pytest.mark.agents

# Some agents leave a sub-agent to itself and go on.
_WAIT = "for i in $(seq 200); do [ -e part.txt ] && break; sleep 0.1; done"


def test_an_agent_does_what_the_script_says(client: Client, place: Place, model: Model) -> None:
    made, tools = place.project / "made.txt", client.tools
    steps = [
        tools.shell("echo bonjour > heard.txt"),
        tools.write(made, "line one\n"),
        tools.edit(made, "line one", "line two"),
        tools.delegate("[[script:part]] do the small part"),
        tools.shell(_WAIT),
        Step(say="All done."),
    ]
    model.scripts = {
        "work": steps,
        "part": [tools.shell("echo part > part.txt"), tools.report("It is done.")],
    }
    client.settings(place)
    said = client.start(place, "[[script:work]] Greet in French too.").wait()
    assert (place.project / "heard.txt").read_text() == "bonjour\n", said
    assert made.read_text() == "line two\n", said
    assert (place.project / "part.txt").exists(), said
