"""Verbatim: what stands in a layout's files stays as somebody wrote it.

The journal keeps no text that is too long, a secret, or of control characters whole, and gives
everything a time. Where the files say just that in the user's own words, or give no time, they go
on saying so: `written` puts back what we could not keep, and `in_words_of` reads it as ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from msgspec.structs import replace

from forestay.formats import carry_over
from forestay.formats import diff as trees
from forestay.formats.coerce import with_texts
from forestay.formats.facts import AgentFact, CheckpointFact, Facts, StepFact, plain
from forestay.formats.port import Format, Tree, Where

_Any = TypeVar("_Any")
_Unit = TypeVar("_Unit", StepFact, AgentFact)
Kept = Callable[[str], Sequence[str]]
"""What may have been kept of a text, in one way or another."""

_TIMES = ("started_at", "ended_at")
_CUT = "…"


def written(
    format: Format,
    old: Tree | None,
    facts: Facts,
    where: Where,
    kept: Kept,
    *,
    odd: bool = True,
) -> Tree:
    """The files for some facts; but where we only could not keep a text whole, what the user wrote.

    The layout knows elements by such texts, so it is shown the files in the words that were kept.
    `odd` is whether they may have odd texts (see `has_odd`). What stays is the very part of `old`.
    """
    if old:
        facts = _untold(facts, format.get(old, where))
    made = carry_over.write(format, old or None, facts, where)
    if not old:
        return made
    made = _sharing(old, made)
    gone, came = _strings_apart(old, made)
    # Most texts that change are stamps and statuses: a quick look at both sides first.
    if not odd and not any(map(_is_cut, came)):
        return made
    words = _substitutes(gone | _strings_of_lists(old, made), came, kept)
    if not words:
        return made
    return _sharing(old, _with_originals(format, old, facts, where, words))


def in_words_of(
    facts: Facts, values: list[_Any], kept: Kept, told: Sequence[Any] = ()
) -> list[_Any]:
    """What files say, in the words that the journal has for it: by them steps are known, also by
    what travels with a file, and what is there already. The values are a base, what it would be
    today, and what somebody made of it. Of several long texts with one beginning as many are known
    as the journal has; those that are `told` in the values come first, then those of the first
    values, and who edited an old file knew none that came since."""
    said = Counter(_all_texts(plain(facts)))
    counts = [Counter(_all_texts(value)) for value in values]
    since = counts[-2] - counts[0] if values[1:] else Counter[str]()
    texts: list[dict[str, Any]] = [*map(texts_in, told), *counts]
    others = {text: None for each in texts for text in each if text not in said}
    words: dict[str, str] = {}
    for text, ways in _substitutes(others, dict.fromkeys(said), kept).items():
        way = ways[-1]
        if said[way] > max(counts[-1][way], since[way]):
            words[text] = way
            said[way] -= 1
    return [_said_in(value, words) for value in values] if words else values


def _with_originals(
    format: Format, old: Tree, facts: Facts, where: Where, words: dict[str, list[str]]
) -> Tree:
    """The files, with the original text wherever it stood.

    One text may be kept in several ways, in fields of other lengths, or whole where there is room:
    of the tries, the one counts after which the fewest of them are left.
    """
    words = {text: [text, *ways] for text, ways in words.items()}
    kept = {text for ways in words.values() for text in ways}
    tries = max(map(len, words.values())) + 1
    shown = _said_in(old, {text: ways[-1] for text, ways in words.items()})
    found: list[tuple[int, Tree]] = []
    while len(found) < tries:
        new = carry_over.write(format, shown, facts, where, full=False)
        made = {n: restored(old.get(n), shown.get(n), value) for n, value in new.items()}
        made = {n: _moved_on(old.get(n), value, words) for n, value in made.items()}
        found.append((len(kept & _strings_apart(old, made)[1].keys()), made))
        if not found[-1][0]:
            break
        shown = {n: _otherwise(old[n], value, new.get(n), words) for n, value in shown.items()}
    return min(found, key=lambda each: each[0])[1]


def _moved_on(old: Any, made: Any, words: dict[str, list[str]]) -> Any:
    """A file in which a text that went from one place is whole where it came in another."""
    gone = Counter(_all_texts(old)) - Counter(_all_texts(made))
    lost: dict[str, list[str]] = {}
    for text in gone:
        for way in words.get(text, ()):
            lost.setdefault(way, []).append(text)
    return _with_lost(old, made, lost, gone) if lost else made


def _with_lost(old: Any, made: Any, lost: dict[str, list[str]], gone: Counter[str]) -> Any:
    if isinstance(made, dict):
        known = old if isinstance(old, dict) else {}
        return {key: _with_lost(known.get(key), each, lost, gone) for key, each in made.items()}
    if isinstance(made, list):
        listed = old if isinstance(old, list) else []
        was = {to: listed[at] for at, to in trees.align(listed, made)}
        return [_with_lost(was.get(to), each, lost, gone) for to, each in enumerate(made)]
    if not isinstance(made, str) or made == old:
        return made
    text = next((text for text in lost.get(made, ()) if gone[text] > 0 and text != made), made)
    gone[text] -= 1
    return text


def _sharing(old: Tree, new: Tree) -> Tree:
    return {name: trees.shared(old.get(name), value) for name, value in new.items()}


def _untold(facts: Facts, said: Facts) -> Facts:
    """The facts without times that the files leave out of what they say already.

    In the journal everything has a time, also what nobody told one of.
    """
    steps, agents = {s.id: s for s in said.steps if s.id}, {a.id: a for a in said.agents}
    judged = {check.step: check for check in said.checkpoints}
    return replace(
        facts,
        steps=[_with_files(_bare(s, steps.get(s.id)), steps.get(s.id)) for s in facts.steps],
        agents=[
            _with_error(_bare(agent, said), said)
            for agent, said in ((a, agents.get(a.id)) for a in facts.agents)
        ],
        checkpoints=[_as_judged(check, judged.get(check.step)) for check in facts.checkpoints],
    )


def _bare(fact: _Unit, said: _Unit | None) -> _Unit:
    if said is None or said.status != fact.status:
        return fact
    gone = [name for name in _TIMES if getattr(said, name) is None and getattr(fact, name)]
    return replace(fact, **dict.fromkeys(gone)) if gone else fact


def _with_files(fact: StepFact, said: StepFact | None) -> StepFact:
    """With the files that it made before it was done, which the journal does not hear of."""
    new = [] if said is None else [file for file in fact.files if file not in said.files]
    if said is None or len(said.files) + len(new) == len(fact.files):
        return fact
    return replace(fact, files=[*said.files, *new])


def _with_error(fact: AgentFact, said: AgentFact | None) -> AgentFact:
    """With what its program tells of the same run: how often it was tried by then, and of one that
    runs again what it had failed of, which the journal knows of the run before."""
    if said is None or _run(said) != _run(fact):
        return fact
    fact = replace(fact, retries=said.retries, retried_at=said.retried_at)
    is_again = fact.status == "running" and not fact.error
    return replace(fact, error=said.error, category=said.category) if is_again else fact


def _run(agent: AgentFact) -> object:
    """What tells a run of an agent from another one, as far as every file has it."""
    return agent.status, *((getattr(agent, name) or 0) // 1000 for name in _TIMES)


def _as_judged(fact: CheckpointFact, said: CheckpointFact | None) -> CheckpointFact:
    """A verdict that the file gives already, in its word; ours for one left out is passed."""
    if said is None or said.at is not None or said.evidence != fact.evidence:
        return fact
    same = said.verdict in (fact.verdict, "skipped" if fact.verdict == "passed" else "")
    return replace(fact, verdict=said.verdict, at=None) if same else fact


def texts_in(value: Any) -> dict[str, None]:
    """All texts in a value, each once."""
    return dict.fromkeys(_all_texts(value))


def _all_texts(value: Any) -> list[str]:
    found: list[str] = []
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            found.append(each)
        elif isinstance(each, dict):
            todo += each.values()
        elif isinstance(each, list):
            todo += each
    return found


def has_odd(value: Any) -> bool:
    """Whether some text in a value is one of which we may keep only a part without marking it."""
    return any(map(_is_odd, texts_in(value)))


def _is_odd(text: str) -> bool:
    return not text.isprintable() or text != text.strip()


def _is_cut(text: str) -> bool:
    return text.endswith(_CUT) or "[redacted:" in text


def _strings_of_lists(old: Any, new: Any) -> dict[str, None]:
    """The texts of lists that changed: none has to be gone, but one may be what came once more."""
    found: dict[str, None] = {}
    todo = [(old, new)]
    while todo:
        one, other = todo.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            todo += [(one.get(k), each) for k, each in other.items() if one.get(k) is not each]
        elif isinstance(one, list) and isinstance(other, list):
            found |= texts_in(one)
    return found


def _strings_apart(old: Any, new: Any) -> tuple[dict[str, None], dict[str, None]]:
    """The texts in those parts of two values that are not one and the same."""
    gone: dict[str, None] = {}
    came: dict[str, None] = {}
    todo = [(old, new)]
    while todo:
        one, other = todo.pop()
        if one is other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            todo += [(one.get(k), each) for k, each in other.items() if one.get(k) is not each]
            if one.keys() != other.keys():
                todo += [(one[key], None) for key in one.keys() - other.keys()]
        elif isinstance(one, list) and isinstance(other, list):
            todo += [(a, b) for a, b in zip_longest(one, other) if a is not b]
        else:
            gone |= texts_in(one)
            came |= texts_in(other)
    return gone, came


def _substitutes(gone: dict[str, None], came: dict[str, None], kept: Kept) -> dict[str, list[str]]:
    """Text that went, or stays in a list → texts that came and are all that could be kept of it."""
    marked, odd = list(filter(_is_cut, came)), frozenset(filter(_is_odd, gone))
    if not marked and not odd:
        return {}
    all_, those = _places(came), _places(marked)
    asked = ((text, all_ if text in odd else those) for text in gone if marked or text in odd)
    pairs = ((text, _left_of(text, kept(text), among)) for text, among in asked)
    return {text: left for text, left in pairs if left}


def _places(texts: Iterable[str]) -> dict[str, int]:
    return {text: place for place, text in enumerate(texts)}


def _left_of(original: str, ways: Sequence[str], among: dict[str, int]) -> list[str]:
    """Those of some texts which are a way to keep the original; the last of them last."""
    found = {text for text in ways if text in among and text != original}
    return sorted(found, key=among.__getitem__)


def _said_in(value: Any, words: dict[str, str]) -> Any:
    return with_texts(value, lambda text: words.get(text, text))


def restored(original: Any, shown: Any, new: Any) -> Any:
    """The new value, with the original text wherever it still is the one shown for it."""
    if isinstance(shown, str):
        return original if shown == new else new
    if isinstance(shown, dict) and isinstance(new, dict):
        return {
            key: restored(original[key], shown[key], value) if key in shown else value
            for key, value in new.items()
        }
    if isinstance(shown, list) and isinstance(new, list):
        places = {to: at for at, to in trees.align(shown, new)}
        return [
            restored(original[places[to]], shown[places[to]], value) if to in places else value
            for to, value in enumerate(new)
        ]
    return new


def _otherwise(original: Any, shown: Any, new: Any, words: dict[str, list[str]]) -> Any:
    """What was shown, with another of the ways to keep a text wherever that one was not it."""
    if isinstance(shown, str):
        ways = words.get(original, []) if shown != new else []
        return new if new in ways else ways[ways.index(shown) - 1] if shown in ways else shown
    if isinstance(shown, dict):
        inside = new if isinstance(new, dict) else {}
        return {k: _otherwise(original[k], v, inside.get(k), words) for k, v in shown.items()}
    if isinstance(shown, list):
        inner = _counterparts(original, shown, new, words) if isinstance(new, list) else {}
        return [
            _otherwise(original[at], value, inner.get(at), words) for at, value in enumerate(shown)
        ]
    return shown


def _counterparts(
    original: list[Any], shown: list[Any], new: list[Any], words: dict[str, list[str]]
) -> dict[int, Any]:
    """Place of what was shown → what it is in a new list. A log keeps what it does not know again
    and says it once more: that is it, then."""
    places = dict(trees.align(shown, new))
    waiting: dict[str, list[int]] = {}
    for at in reversed(range(len(original))):
        for way in {way for text in texts_in(original[at]) for way in words.get(text, ())}:
            waiting.setdefault(way, []).append(at)
    found: dict[int, Any] = {}
    for to in sorted(set(range(len(new))) - set(places.values())):
        for places_of in (waiting[text] for text in texts_in(new[to]) if text in waiting):
            while places_of and places_of[-1] in found:
                places_of.pop()
            if places_of:
                found[places_of[-1]] = new[to]
                break
    return {at: new[to] for at, to in places.items()} | found
