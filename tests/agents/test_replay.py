"""Every recorded payload of a real agent has the expected events, or is ignored on purpose."""

from __future__ import annotations

import json
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

from forestay.agents.payloads import KNOWN, parse_payload
from tests import corpus

CORPUS = corpus.CORPUS / "hooks"
pytestmark = corpus.needs_corpus

NOTHING = "nothing"
# Pattern of the file → the expected kind of event. The first match counts.
REVIEWED = {
    "*-SessionStart.json": "start",
    "*-UserPromptSubmit.json": "prompt",
    "*-PreToolUse.json": "before",
    "*-PostToolUse.json": "after",
    "*-PostToolUseFailure.json": "after",
    "*-PostToolBatch.json": NOTHING,
    "*-PermissionRequest.json": NOTHING,
    "*-SubagentStart.json": "agent_start",
    "run1/*-SubagentStop.json": "agent_stop",
    "*-SubagentStop.json": NOTHING,  # of the summary
    "*-PreCompact.json": "compacting",
    "*-PostCompact.json": "compacted",
    "*-Stop.json": "turn_end",
    "*-StopFailure.json": "failure",
    "*-SessionEnd.json": "end",
    "codex*-PreModelRequest.json": NOTHING,
    "codex*-notify.json": NOTHING,
    "gemini/*-BeforeAgent.json": "prompt",
    "gemini/*-AfterAgent.json": "turn_end",
    "gemini/*-BeforeTool.json": "before",
    "gemini/*-AfterTool.json": "after",
    "gemini/*-PreCompress.json": NOTHING,
    "opencode/*-event-session.created.json": NOTHING,  # reported by our own start event
    "opencode/*-chat.message.json": "prompt",
    "opencode/*-tool.execute.before.json": "before",
    "opencode/*-tool.execute.after.json": "after",
    "opencode/*-event-session.idle.json": "turn_end",
    # Whole answers and texts; the same events come while they grow.
    "opencode/0067-event-message.part.updated.json": "other",
    "opencode/0101-event-message.part.updated.json": "other",
    "opencode/0070-event-message.updated.json": "other",
    "opencode/0075-event-message.updated.json": "other",
    "opencode/0091-event-message.updated.json": "other",
    "opencode/0104-event-message.updated.json": "other",
    "opencode/*-event-message.part.updated.json": NOTHING,
    "opencode/*-event-message.updated.json": NOTHING,
    "opencode/*-event-session.updated.json": NOTHING,
    "opencode/*-event-session.status.json": NOTHING,
    "opencode/*-event-session.diff.json": NOTHING,
    "opencode/*-event-catalog.updated.json": NOTHING,
    "opencode/*-event-reference.updated.json": NOTHING,
    "opencode/*-event-integration.updated.json": NOTHING,
}


def recorded() -> list[Path]:
    return sorted(CORPUS.rglob("*.json"))


def agent_of(path: Path) -> str:
    folder = path.parent.name
    known = ("codex", "gemini", "opencode", "qwen")
    return next((agent for agent in known if folder.startswith(agent)), "claude-code")


def test_every_recorded_payload_has_the_expected_events() -> None:
    used: Counter[str] = Counter()
    for path in recorded():
        name = str(path.relative_to(CORPUS))
        pattern = next((one for one in REVIEWED if fnmatch(name, one)), "")
        assert pattern, f"{name} was never reviewed"
        used[pattern] += 1
        found = parse_payload(agent_of(path), json.loads(path.read_bytes()))
        assert (found.what if found else NOTHING) == REVIEWED[pattern], name
    assert set(used) == set(REVIEWED)
    assert used.total() > 400


def test_every_recorded_event_has_a_row() -> None:
    """No event is ignored because it is unknown."""
    for path in recorded():
        payload = json.loads(path.read_bytes())
        name = payload.get("hook_event_name") or payload.get("type") or path.stem.partition("-")[2]
        assert (agent_of(path), name) in KNOWN, path


def test_every_session_is_parsed_under_its_own_id() -> None:
    natives = Counter(
        (agent_of(path), found.native)
        for path in recorded()
        if (found := parse_payload(agent_of(path), json.loads(path.read_bytes())))
    )
    assert len({agent for agent, _ in natives}) == 5
    assert all(len(native) > 20 for _, native in natives)
