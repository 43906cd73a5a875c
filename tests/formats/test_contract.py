"""The contract and its acknowledgments: a block's form, several agents, what makes one stale."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.errors import InvalidInput
from forestay.formats.ai_session import contract
from forestay.formats.port import ERROR, INFO, WARNING

SPEC = b"# A specification\n\n**Version**: 1.0\n"
NOON = 1_741_089_600_000  # 2025-03-04T12:00:00Z


def acknowledged(*agents: str, spec: bytes = SPEC) -> str:
    text = ""
    for agent in agents:
        text = contract.put(text, agent, NOON, spec)
    return text


def codes(text: str | None, agent: str = "ann", spec: bytes = SPEC) -> tuple[bool, list[str]]:
    verdict = contract.verify(text, agent, spec)
    return verdict.ok, [finding.code for finding in verdict.findings]


# --- the contract ------------------------------------------------------------------------------


@pytest.mark.req("S0-1")
def test_shipped_contract_names_its_version_status_and_date() -> None:
    text = contract.shipped().decode()
    assert contract.version_of(contract.shipped()) == contract.VERSION == "1.0"
    assert "**Status**: BINDING" in text
    assert "2025-01-09" in text


def test_shipped_contract_states_how_it_changes() -> None:
    text = " ".join(contract.shipped().decode().split())
    assert "new acknowledgment by every agent" in text
    assert "It raises the version; one that breaks readers raises the first number" in text
    assert "brings a plan for migration" in text
    assert "at least one phase" in text


@pytest.mark.req("S0-99")
def test_shipped_contract_has_another_checksum_than_the_original() -> None:
    assert contract.ORIGINAL_SHA256.startswith("06416afc017a6d00")
    assert contract.checksum(contract.shipped()) != contract.ORIGINAL_SHA256
    assert contract.checksum(b"") == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )


@pytest.mark.parametrize(
    "spec, version",
    [
        (SPEC, "1.0"),
        (b"# S\nVersion: 2.3\n", "2.3"),
        (b"version 12.0 of it", "12.0"),
        (b"no such line", "1.0"),
        (b"", "1.0"),
        (b"\xff\xfe", "1.0"),
    ],
)
def test_specification_gives_its_own_version(spec: bytes, version: str) -> None:
    assert contract.version_of(spec) == version


# --- acknowledging -----------------------------------------------------------------------------


@pytest.mark.req("S0-95", "S0-96", "S0-97", "S0-98", "S0-99", "S0-100")
def test_acknowledgment_block_has_exactly_the_form_in_the_contract() -> None:
    assert acknowledged("agent-1") == (
        "# Contract Acknowledgment\n"
        "\n"
        "Agent: agent-1\n"
        "Date: 2025-03-04T12:00:00Z\n"
        "Contract Version: 1.0\n"
        f"Checksum: {contract.checksum(SPEC)}\n"
        "\n"
        "I acknowledge that I have read and will adhere to the Session State Specification v1.0.\n"
    )


@pytest.mark.req("S0-94", "S0-95")
def test_acknowledgments_of_several_agents_are_separate_blocks_in_one_file() -> None:
    text = acknowledged("ann", "bob", "cy")
    assert text.startswith("# Contract Acknowledgment\n")
    assert [each.agent for each in contract.parse(text)] == ["ann", "bob", "cy"]
    assert [codes(text, agent)[0] for agent in ("ann", "bob", "cy")] == [True] * 3
    assert contract.FILE == "contract-acknowledgment.md"


@pytest.mark.req("S0-94", "S0-104", "X0-9")
def test_repeated_acknowledgment_replaces_the_block_of_its_agent_and_no_other_byte() -> None:
    before = "Notes of a person.\r\n\r\n" + acknowledged("ann", "bob").replace("\n", "\r\n")
    before += "\nA remark \udcff after bob.\nAgent-like: text\n"
    after = contract.put(before, "ann", NOON + 1000, b"changed")
    (old, bob), (new, same) = contract.parse(before), contract.parse(after)
    assert after[: new.start] == before[: old.start]
    assert after[new.end :] == before[old.end :]
    assert after[same.start : same.end] == before[bob.start : bob.end]
    assert (new.date, new.checksum) == ("2025-03-04T12:00:01Z", contract.checksum(b"changed"))


NAMES = st.text(min_size=1, max_size=9).filter(lambda t: t.isprintable() and t.strip() == t)


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), st.data())
def test_each_acknowledgment_is_found_and_can_be_renewed_without_changing_others(
    agents: list[str], data: st.DataObject
) -> None:
    text = acknowledged(*agents)
    assert [each.agent for each in contract.parse(text)] == agents
    agent = data.draw(st.sampled_from(agents))
    again = contract.put(text, agent, NOON + 5000, SPEC)
    assert again == text.replace(
        contract.block(agent, NOON, SPEC), contract.block(agent, NOON + 5000, SPEC)
    )
    assert contract.put(again, agent, NOON, SPEC) == text


@given(st.text(alphabet="# ContracAgknwledme:\n\rI1.0Dhsuv", max_size=200), NAMES)
def test_text_before_a_new_acknowledgment_is_unchanged(text: str, agent: str) -> None:
    others = [each for each in contract.parse(text) if each.agent != agent]
    if len(others) == len(contract.parse(text)):
        made = contract.put(text, agent, NOON, SPEC)
        assert made.startswith(text)
        assert contract.parse(made)[-1].agent == agent
    assert all(0 <= each.start < each.end <= len(text) for each in others)


def test_second_block_of_the_same_agent_is_removed() -> None:
    text = acknowledged("ann", "bob") + "\n" + contract.block("ann", NOON, b"old")
    made = contract.put(text, "ann", NOON, SPEC)
    assert [each.agent for each in contract.parse(made)] == ["ann", "bob"]


@pytest.mark.req("X0-9")
def test_damaged_block_of_another_agent_is_unchanged_and_not_an_acknowledgment() -> None:
    torn = acknowledged("ann").replace("Agent:", "Age\ufffdnt:").replace("1.0", "0.9")
    text = torn
    for moment in (1, 2):
        text = contract.put(text, "bob", moment, SPEC)
        assert text.startswith(torn) and text.count(f"{contract._HEADING}\n") == 2
    assert codes(text, "bob") == (True, [])


def test_acknowledgment_can_be_added_to_a_file_without_a_final_newline() -> None:
    text = contract.put(acknowledged("ann").rstrip("\n"), "bob", NOON, SPEC)
    assert [each.pledged for each in contract.parse(text)] == [True, True]
    assert "\n\n# Contract Acknowledgment\n\nAgent: bob\n" in text


@pytest.mark.parametrize("agent", ["", "  ", "a\nb", "a\x1b[2Jb", "a\u2028b"])
def test_acknowledging_agent_needs_a_name_on_one_line(agent: str) -> None:
    with pytest.raises(InvalidInput, match="name must be printable"):
        contract.block(agent, NOON, SPEC)


# --- verifying ---------------------------------------------------------------------------------


@pytest.mark.req("X0-9", "S0-94")
@pytest.mark.parametrize("text", [None, "", "# Contract Acknowledgment\n", "Date: 2025-01-01\n"])
def test_verification_fails_without_an_acknowledgment(text: str | None) -> None:
    assert codes(text) == (False, ["contract-missing"])


@pytest.mark.req("X0-9", "S0-1", "S0-98")
def test_acknowledgment_of_another_contract_version_fails() -> None:
    text = acknowledged("ann").replace("Version: 1.0", "Version: 0.9")
    assert codes(text) == (False, ["contract-version"])
    newer = SPEC.replace(b"1.0", b"2.0")
    assert codes(acknowledged("ann"), spec=newer) == (
        False,
        ["contract-version", "contract-changed"],
    )
    assert "v2.0." in acknowledged("ann", spec=newer)


@pytest.mark.req("X0-9", "S0-99", "S0-104")
@pytest.mark.parametrize(
    "text", [acknowledged("ann", spec=b"other"), acknowledged("ann").replace("Checksum: ", "C: ")]
)
def test_changed_contract_asks_for_a_new_acknowledgment(text: str) -> None:
    verdict = contract.verify(text, "ann", SPEC)
    (finding,) = verdict.findings
    assert not verdict.ok
    assert (finding.code, finding.severity) == ("contract-changed", ERROR)
    assert "Contract has changed since acknowledgment" in finding.what
    assert "Re-acknowledgment required" in finding.what


@pytest.mark.req("X0-9", "S0-96")
def test_acknowledgment_by_another_agent_only_gives_a_warning() -> None:
    verdict = contract.verify(acknowledged("bob"), "ann", SPEC)
    assert verdict.ok
    assert [(f.code, f.severity) for f in verdict.findings] == [("contract-other-agent", WARNING)]
    mixed = contract.put(acknowledged("bob", spec=b"old"), "cy", NOON, SPEC)
    assert codes(mixed) == (True, ["contract-other-agent"])
    assert codes(mixed, "bob") == (False, ["contract-changed"])
    stale = acknowledged("bob", spec=b"old")
    assert codes(stale) == (False, ["contract-other-agent", "contract-changed"])


@pytest.mark.req("S0-95", "S0-97", "S0-100")
def test_missing_heading_sentence_or_date_is_a_warning() -> None:
    bare = acknowledged("ann").replace("# Contract Acknowledgment", "")
    assert codes(bare) == (True, ["contract-no-heading"])
    assert codes(acknowledged("bob") + bare) == (True, ["contract-no-heading"])
    text = acknowledged("ann").replace("I acknowledge", "I do not acknowledge")
    assert codes(text) == (True, ["contract-not-pledged"])
    assert codes(acknowledged("ann").replace("Date: 2025", "Date: year 2025")) == (
        True,
        ["contract-date"],
    )
    assert codes(acknowledged("ann").replace("T12:00:00Z", "")) == (True, [])


@pytest.mark.req("S0-99")
def test_acknowledgment_of_the_original_is_valid_for_the_shipped_contract() -> None:
    ours = contract.checksum(contract.shipped())
    text = acknowledged("ann", spec=contract.shipped()).replace(ours, contract.ORIGINAL_SHA256)
    verdict = contract.verify(text, "ann", contract.shipped())
    assert verdict.ok
    assert [(f.code, f.severity) for f in verdict.findings] == [("contract-original", INFO)]
    assert codes(text) == (False, ["contract-changed"])


@pytest.mark.req("X0-9")
def test_summary_names_every_agent_and_who_is_stale() -> None:
    text = contract.put(acknowledged("bob", spec=b"old"), "ann", NOON, SPEC)
    first, bob, ann = contract.summary(text, SPEC).splitlines()
    assert contract.checksum(SPEC) in first
    assert bob.startswith("bob: ") and bob.endswith("Re-acknowledgment required")
    assert ann.endswith("current")
    assert "not acknowledged" in contract.summary(None, SPEC)
