"""Write and verify acknowledgments of the session-state contract: `contract-acknowledgment.md`.

A *specification* is the text that is acknowledged, as bytes: the project's own if it has one, else
the contract that is part of Forestay. An acknowledgment is a *block* of fixed form, one per agent,
all in one file. A block holds the specification's checksum, so a change of one byte makes it stale.

Blocks of other agents, and any other text in the file, stay unchanged, byte for byte: callers
read and write the file with `errors="surrogateescape"`, without translating newlines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files

from msgspec import Struct

from forestay.base.findings import Finding
from forestay.errors import InvalidInput
from forestay.formats import timestamps
from forestay.formats.port import ERROR, INFO, WARNING

FILE = "contract-acknowledgment.md"
VERSION = "1.0"
ORIGINAL_SHA256 = "06416afc017a6d008f6c784c0f52a698113ee02bb29b056be0fb22213862bfb4"
"""The checksum of version 1.0 of the original specification, which our contract restates."""

CHANGED = "Contract has changed since acknowledgment"
AGAIN = "Re-acknowledgment required"


class Acknowledgment(Struct, frozen=True):
    """One agent's block, and its position in the text of the file."""

    agent: str
    date: str = ""
    version: str = ""
    checksum: str = ""
    pledged: bool = False
    """Whether the block has its closing sentence."""
    headed: bool = False
    start: int = 0
    end: int = 0


class Verdict(Struct, frozen=True):
    """Whether an agent has acknowledged the current specification, with the findings."""

    ok: bool
    findings: list[Finding]


# --- the specification -------------------------------------------------------------------------


@cache
def shipped() -> bytes:
    """Return the contract that is part of Forestay."""
    return files("forestay.formats.ai_session").joinpath(f"contract-{VERSION}.md").read_bytes()


@lru_cache(maxsize=1)
def checksum(spec: bytes) -> str:
    return hashlib.sha256(spec).hexdigest()


_SPEC_VERSION = re.compile(rb"^\W{0,4}version\W{1,6}(\d{1,4}\.\d{1,4})\b", re.I | re.M)


def version_of(spec: bytes) -> str:
    """Return the version stated near the top of a specification; 1.0 if it states none."""
    match = _SPEC_VERSION.search(spec[:4096])
    return match[1].decode() if match else VERSION


# --- blocks ------------------------------------------------------------------------------------

_HEADING = "# Contract Acknowledgment"
_PLEDGE = "I acknowledge that I have read and will adhere to the Session State Specification v"
_NAMES = {"Date": "date", "Contract Version": "version", "Checksum": "checksum"}
_MARK = re.compile(
    rf"^[ \t]*(?:(?P<heading>{_HEADING})"
    r"|(?P<key>Agent|Date|Contract Version|Checksum):[ \t]*(?P<value>.*?)"
    rf"|(?P<pledge>{_PLEDGE}).*?)[ \t\r]*(?:\n|\Z)",
    re.MULTILINE,
)
"""Matches the lines that belong to a block; all other lines are ignored."""


def block(agent: str, moment: int, spec: bytes) -> str:
    """Return the block with which an agent acknowledges a specification."""
    if not agent.strip() or not agent.isprintable():
        raise InvalidInput("an agent's name must be printable text on one line")
    version = version_of(spec)
    return (
        f"{_HEADING}\n\n"
        f"Agent: {agent.strip()}\n"
        f"Date: {timestamps.write(moment)}\n"
        f"Contract Version: {version}\n"
        f"Checksum: {checksum(spec)}\n\n"
        f"{_PLEDGE}{version}.\n"
    )


def parse(text: str) -> list[Acknowledgment]:
    """Return the blocks in the text of an acknowledgment file, in order; ignore other text."""
    found: list[Acknowledgment] = []
    heading, fields = -1, dict[str, str]()
    begin = end = 0
    pledged = False

    def close() -> None:
        if "Agent" in fields:
            rest = {_NAMES[key]: value for key, value in fields.items() if key in _NAMES}
            found.append(
                Acknowledgment(
                    fields["Agent"],
                    pledged=pledged,
                    headed=heading >= 0,
                    start=begin,
                    end=end,
                    **rest,
                )
            )

    for mark in _MARK.finditer(text):
        if (mark["heading"] or mark["key"] == "Agent") and "Agent" in fields:
            close()
            heading, fields, pledged = -1, {}, False
        if mark["heading"]:
            # Fields above this line that have no agent's name belong to no block.
            heading, fields = mark.start(), {}
        elif mark["key"]:
            if not fields:
                begin = mark.start() if heading < 0 else heading
            fields.setdefault(mark["key"], mark["value"])
            end = mark.end()
        elif "Agent" in fields and not pledged:
            pledged, end = True, mark.end()
    close()
    return found


def put(text: str | None, agent: str, moment: int, spec: bytes) -> str:
    """Return the file's text with a new block for the agent; all other text is unchanged."""
    text = text or ""
    new = block(agent, moment, spec)
    own = [each for each in parse(text) if each.agent == agent.strip()]
    if not own:
        return _end_block(text) + new
    ends = [*(each.start for each in own[1:]), len(text)]
    first, *others = (text[each.end : end] for each, end in zip(own, ends, strict=True))
    return text[: own[0].start] + new + first + "".join(part.lstrip("\r\n") for part in others)


def join(text: str, other: str) -> str:
    """Return `text` with the blocks of those agents added that only `other` has."""
    known = {each.agent for each in parse(text)}
    for each in parse(other):
        if each.agent not in known:
            text = _end_block(text) + other[each.start : each.end]
    return text


def _end_block(text: str) -> str:
    """Return the text with an empty line at its end, so that a block can follow."""
    if not text or text.endswith("\n\n"):
        return text
    return text + ("\n" if text.endswith("\n") else "\n\n")


# --- verifying ---------------------------------------------------------------------------------


def verify(text: str | None, agent: str, spec: bytes) -> Verdict:
    """Return whether an agent has acknowledged the specification in its current form."""
    known = parse(text or "")
    if not known:
        message = "no agent has acknowledged the contract"
        return Verdict(False, [_finding("contract-missing", ERROR, message, "S0-94")])
    own = [each for each in known if each.agent == agent.strip()]
    if own:
        return _verdict([], own[0], spec)
    names = ", ".join(each.agent for each in known)
    other = f"acknowledged by {names}, not by {agent.strip() or 'an unnamed agent'}"
    warning = _finding("contract-other-agent", WARNING, other, "S0-96")
    # If an agent has several blocks, the best one counts: a stale block does not undo a good one.
    judged = [_verdict([warning], each, spec) for each in known]
    return next((verdict for verdict in judged if verdict.ok), judged[-1])


def verify_all(text: str | None, spec: bytes) -> dict[str, Verdict]:
    """Return agent → verdict for every agent in the file; one for "" if it has no agent."""
    own: dict[str, Acknowledgment] = {}
    for each in parse(text or ""):
        own.setdefault(each.agent, each)
    found = {agent: _verdict([], each, spec) for agent, each in own.items()}
    return found or {"": verify(text, "", spec)}


def _verdict(before: list[Finding], given: Acknowledgment, spec: bytes) -> Verdict:
    faults = list(_check_block(given, spec))
    failed = any(fault.severity == ERROR for fault in faults)
    return Verdict(not failed, before + faults)


def _finding(code: str, severity: str, message: str, requirement: str) -> Finding:
    return Finding(code, severity, message, file=FILE, requirement=requirement)


def _check_block(given: Acknowledgment, spec: bytes) -> Iterator[Finding]:
    wanted = version_of(spec)
    if given.version != wanted:
        message = f"version {given.version or '(none)'} was acknowledged, the contract is {wanted}"
        yield _finding("contract-version", ERROR, message, "S0-98")
    given_sum = given.checksum.lower()
    if given_sum == ORIGINAL_SHA256 and spec == shipped():
        message = "the original specification was acknowledged, which this contract restates"
        yield _finding("contract-original", INFO, message, "S0-99")
    elif given_sum != checksum(spec):
        yield _finding("contract-changed", ERROR, f"{CHANGED}. {AGAIN}", "S0-99")
    if not given.headed:
        yield _finding("contract-no-heading", WARNING, f"`{_HEADING}` is missing", "S0-95")
    if not given.pledged:
        yield _finding(
            "contract-not-pledged", WARNING, "the pledge at its end is missing", "S0-100"
        )
    if timestamps.read(given.date) is None and timestamps.read(f"{given.date}T00:00:00Z") is None:
        yield _finding("contract-date", WARNING, f"{given.date!r} is not an ISO 8601 date", "S0-97")


def summary(text: str | None, spec: bytes) -> str:
    """Return one line about the contract, and one line per agent that acknowledged it."""
    lines = [f"Session state contract {version_of(spec)}, sha256 {checksum(spec)}"]
    verdicts = verify_all(text, spec)
    for each in parse(text or ""):
        state = "current" if verdicts[each.agent].ok else AGAIN
        lines.append(f"{each.agent}: version {each.version}, {each.date}: {state}")
    return "\n".join(lines if len(lines) > 1 else [*lines, "not acknowledged by any agent"]) + "\n"
