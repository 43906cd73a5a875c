"""Remove secrets before anything is stored.

A *rule* has a name, *anchors* (literals, one of which every match contains) and a finder that
yields the spans to replace. A clean text costs a few `in` tests; a pattern is compiled when one of
its anchors occurs for the first time. A secret is replaced by `[redacted:NAME]`, the *token*.

Tokens are never redacted again, and rules run until nothing changes, so redacting twice equals
redacting once. Every finder is linear in the text: a rejected value was examined for at most
`_PROBE` characters, an accepted one is skipped. In a text with more than `_MOST` secrets,
everything after them is removed too.

A *pair* such as `password=x` is judged by how clearly it is a literal. A quoted JSON value, `=`
without spaces and an authorization scheme are literals; after `:` or ` = ` the value must
itself look like a secret, so that prose ("token: the next word") and code (`token = get_token()`)
survive. Hashes and UUIDs survive because no rule matches them.

Not covered: passwords in prose ("it is swordfish") and letters-only ones after `:`; `curl -u
user:pass`, cookies; keys of vendors not named below; an AWS secret key far from its id and without
a name; passwords that begin like a variable (`$x`, `{x`, `<x`), contain quotes, or continue after
`,` `;` `&` or a space without quotes; short numbers named as a token or key; anything encoded
(base64, gzip, pictures) or split over two fields.
"""

from __future__ import annotations

import functools
import itertools
import re

from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Spans = Iterator[tuple[int, int]]
    Finder = Callable[[str], Spans]
    Rule = tuple[str, tuple[str, ...], Finder]

MAX_PATTERNS = 50
MAX_PATTERN_LENGTH = 500
MAX_DEPTH = 100

_PASSES = 8
_PROBE = 80
_NEAR = 300
_LONG_NUMBER = 6
_SHORT, _LONG = 1_000, 20_000
_MOST = 10_000
"""Secrets replaced one by one in a text; the limit bounds the time for a hostile text."""

_compiled = functools.cache(re.compile)


def _spans(pattern: re.Pattern[str], text: str) -> Spans:
    """Yield what a pattern matches: its group `secret` if it has one, else the whole match."""
    group = "secret" if "secret" in pattern.groupindex else 0
    for match in pattern.finditer(text):
        yield match.span(group)


def _regex(source: str) -> Finder:
    return lambda text: _spans(_compiled("(?a)" + source), text)


def _random(source: str) -> Finder:
    """Return a finder for prefixes that names have too (`sk-learn-…`): values must be random."""

    def is_mixed(value: str) -> bool:
        return _has_digit(value) or not (value.islower() or value.isupper())

    find = _regex(source)
    return lambda text: ((a, b) for a, b in find(text) if is_mixed(text[a:b]))


def _has_digit(value: str) -> bool:
    return _compiled("[0-9]").search(value) is not None


_AWS_ID = r"(?<![A-Za-z0-9])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"
_AWS_SECRET = r"(?<![\w/+=])[A-Za-z0-9/+]{40}(?![\w/+=])"


def _aws_secret(text: str) -> Spans:
    """Find forty base64 characters near a key id; unlike a git hash they have mixed case."""
    done = 0
    for key in _compiled(_AWS_ID).finditer(text):
        near = max(done, key.start() - _NEAR)
        for match in _compiled(_AWS_SECRET).finditer(text, near, key.end() + _NEAR):
            if match.group().lower() != match.group() != match.group().upper():
                yield match.span()
                done = match.end()


_B, _NOT_B = "[A-Za-z0-9+/=]", "[^A-Za-z0-9+/=]"
_PEM_EDGE = r"-----(BEGIN|END) [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?(?:-----)?"
_PEM_BODY = (
    rf"(?:{_NOT_B}{{0,12}}+(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]*+)*+"
    rf"(?:{_NOT_B}{{1,12}}+{_B}{{16,}}+)*+(?:(?:\n|\\n)[ \t]*{_B}{{1,15}}(?={_NOT_B}*\Z))?"
)
_PEM_BODY_REVERSED = (
    rf"(?:{_NOT_B}{{0,12}}+{_B}{{1,15}}+){{0,2}}(?:{_NOT_B}{{0,12}}+{_B}{{16,}}+)++"
)


def _pem(text: str) -> Spans:
    """Find whole key blocks, or the base64 next to one edge if the other was cut off."""
    opened: list[re.Match[str]] = []
    floor = 0
    for edge in _compiled(_PEM_EDGE).finditer(text):
        if edge[1] == "BEGIN":
            opened.append(edge)
        elif opened:
            yield opened.pop().start(), edge.end()
        else:
            body = text[max(floor, edge.start() - 8192) : edge.start()][::-1]
            match = _compiled(_PEM_BODY_REVERSED).match(body)
            if match:
                yield edge.start() - match.end(), edge.end()
        floor = edge.end()
    for edge in opened:
        match = _compiled(_PEM_BODY).match(text, edge.end())
        if match and match.group():  # An edge alone is prose about keys, not a key.
            yield edge.start(), match.end()


_WORDS = ("pass", "pwd", "secret", "token", "key", "authorization")
_KEY = r"""(?xia)
(?P<key>(?P<human>passw(?:or)?d|passphrase|passcode|pwd)
  |pass|secret(?:[_-]?(?:access[_-]?)?key)?|token|key|(?P<auth>authorization))
(?P<closed>\\*["'])?(?(closed)\]?)
(?:(?P<space>[ \t]*)
   (?P<sep>:[ \t]*str(?:ing)?[ \t]*=|:=|=>|={1,3}|:(?![:/])|(?<=[ \t])is(?=[ \t]))
   (?P<after>[ \t]*)
  |(?P<flag>[ \t]+))
(?:[bruf]{1,2}(?=["']))?(?P<quote>\\+["']|["']{3}|["'`])?
(?(auth)(?P<scheme>(?:bearer|basic|token|apikey)[ \t]+)?)
"""
_KEY_OF = ("api", "access", "private", "signing", "encryption", "account", "shared")
_BARE = r"""(?:[^\s"'`,;&\\]|\\(?!["'`nrt]))+"""
_QUOTED = {
    '"': r'(?:[^"\\\n]|\\.)+',
    "'": r"(?:[^'\\\n]|\\.)+",
    "`": r"[^`]+",
    "\\": r"""[^"'\\\n]+""",
}
_PLACEHOLDER = (
    r"(?i:\$[\w({]|<|\{|%[sdrv({]|\.\.\.|…"
    r"|(?:none|null|nil|true|false|undefined|str|string|bytes|\*+|•+|x{3,})(?=[)\]}>.|?:]*\Z))"
)
_CODE = r"[A-Za-z_][\w.]*[(\[]|[A-Za-z_]+(?:\.[A-Za-z_]+)+\Z"
_PATH = r"(?:~|\.{1,2})?(?:/[\w.@-]+){2,}/?\Z|(?:[\w@-]+/)*[\w@-]+\.[a-z]{1,5}\Z"
_TALK = frozenset(
    "a an and any are argument arguments as at authentication await be but by can field file flag "
    "flags for from has if in input is it may must new not of on option options or parameter "
    "prompt should so that the this to token value was when where which will with".split()
)


def _pairs(text: str) -> Spans:
    """Find the values of names that suggest a secret."""
    done = 0
    # Only U+0130 is longer in lower case; offsets must remain valid in the original text.
    for word in _compiled("|".join(_WORDS)).finditer(text.replace("\u0130", "i").lower()):
        pair = _compiled(_KEY).match(text, word.start())
        if pair and pair.end() >= done and _names_a_secret(pair):
            kind = _QUOTED[pair["quote"][0]] if pair["quote"] else _BARE
            start = pair.end()
            probe = _value(kind, text, start, start + _PROBE)
            end = start + len(probe)
            if _is_secret(pair, probe, text[end : end + 1]):
                done = start + len(_value(kind, text, start, len(text)))
                yield start, done


def _names_a_secret(pair: re.Match[str]) -> bool:
    """Return whether the name suggests a secret; `key` and `pass` need a prefix (`api_key`)."""
    word = pair["key"].lower()
    before = pair.string[max(0, pair.start() - 12) : pair.start()].lower()
    if word == "key":
        return before.removesuffix("_").removesuffix("-").endswith(_KEY_OF)
    return word != "pass" or before.endswith("_")


def _value(kind: str, text: str, start: int, end: int) -> str:
    match = _compiled(kind).match(text, start, end)
    value = match.group() if match else ""
    return value.rstrip(")]}>.") if kind is _BARE else value


def _is_secret(pair: re.Match[str], value: str, following: str) -> bool:
    if _is_placeholder(pair, value) or (pair["flag"] is not None and not _is_flag(pair)):
        return False
    if pair["quote"]:
        return _is_quoted_secret(pair, value)
    return _is_bare_secret(pair, value, following)


def _is_placeholder(pair: re.Match[str], value: str) -> bool:
    if len(value) < (1 if pair["human"] else 2) or _compiled(_PLACEHOLDER).match(value):
        return True
    directory = pair["key"].lower() == "pwd" and value[0] in "/~"
    end = pair.end("key")
    own_name = pair.string[max(0, end - len(value)) : end]
    return directory or own_name.lower() == value.lower()


def _is_quoted_secret(pair: re.Match[str], value: str) -> bool:
    human, sep = bool(pair["human"]), pair["sep"]
    if sep == ":" and pair["closed"]:
        return True
    # `"password=" + x + "…"`: the quote closes a string that ends with the name.
    if value[0] in " \t,+)" or (sep in (":", "is") and " " in value):
        return False
    # Lexers compare and colour tokens; a real token has a random value.
    return human or sep not in (":", "is", "==", "===") or _looks_secret(pair, value)


def _is_bare_secret(pair: re.Match[str], value: str, following: str) -> bool:
    if _compiled(_CODE).match(value) or _compiled(_PATH).match(value):
        return False
    is_variable = "_" in value and value.replace("_", "").isalpha()
    talk = is_variable or value.lower() in _TALK
    if pair["scheme"]:
        return not talk
    if pair["sep"] == "=" and not pair["space"] and not pair["after"]:
        return not (talk and following in (",", ")"))
    if value[0] in "([":
        return False
    if pair["human"] and pair["sep"] not in (":", "is"):
        return not talk
    return _looks_secret(pair, value)


def _is_flag(pair: re.Match[str]) -> bool:
    """Return whether the pair is an option such as `--db-password x`."""
    dashes, name = pair.string[max(0, pair.start() - 40) : pair.start()].rpartition("--")[1:]
    named = not name or name.replace("-", "_").isidentifier()
    return bool(dashes) and named and not pair["closed"]


def _looks_secret(pair: re.Match[str], value: str) -> bool:
    human, value = bool(pair["human"]), value.rstrip("!?:")
    if len(value) < (6 if human else 8) or not _compiled(r"[^\W\d_]").search(value):
        return False
    if pair["sep"] == "is":
        return human and _has_digit(value) and value.isalnum()
    marked = human and "." not in value and _compiled("[!#$%^*@]").search(value)
    return bool(marked) or _has_digit(value)


# A slash belongs to a password only before the first @, and only if it ends no port.
_URL = (
    r"""://[^\s/:@"'<>?#[]*+:(?P<secret>(?![$<{*])"""
    r"""(?:[^\s/"'<>?#]+|(?!\d{1,5}/)[^\s"'<>?#@]{1,200}))@"""
)
_E = r"(?<![A-Za-z0-9])"
# Order matters: a specific rule must name its secret before a general rule matches it.
_RULES: tuple[Rule, ...] = (
    ("private-key", ("PRIVATE KEY",), _pem),
    ("aws-secret", ("AKIA", "ASIA"), _aws_secret),
    ("aws-key", ("AKIA", "ASIA"), _regex(_AWS_ID)),
    (
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        _random(_E + r"(?:gh[pousr]|github_pat)_[\w-]{20,}+(?:\.[\w-]{10,}+){0,2}"),
    ),
    (
        "slack-token",
        ("xox", "xapp-"),
        _regex(_E + r"(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9-]{10,}+"),
    ),
    (
        "slack-webhook",
        ("hooks.slack.com/",),
        _regex(r"hooks\.slack\.com/(?:[a-z]+/)?(?P<secret>[\w/-]{10,}+)"),
    ),
    (
        "google-key",
        ("AIza", "ya29.", "GOCSPX-"),
        _regex(_E + r"(?:AIza[\w-]{30,}+|ya29\.[\w.-]{20,}+|GOCSPX-[\w-]{20,}+)"),
    ),
    ("anthropic-key", ("sk-ant-",), _regex(_E + r"sk-ant-[\w-]{10,}+")),
    ("openai-key", ("sk-",), _random(_E + r"sk-[\w-]{20,}+")),
    (
        "service-token",
        ("glpat-", "npm_", "pypi-AgE", "hf_", "k_live_", "AGE-SECRET-KEY-1"),
        _random(_E + r"(?:glpat-|npm_|pypi-AgE|hf_|[sr]k_live_|AGE-SECRET-KEY-1)[\w-]{20,}+"),
    ),
    ("jwt", ("eyJ",), _regex(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+){0,3}")),
    ("url-password", ("://",), _regex(_URL)),
    (
        "bearer",
        ("earer ", "BEARER "),
        _random(r"(?:[Bb]earer|BEARER) +(?P<secret>[\w.~+/=-]{8,}+)"),
    ),
    ("secret", (), _pairs),
)
_CUSTOM = "custom"
_OPENING = "[redacted:"
_TOKEN = r"\[redacted:(?:" + "|".join([*(rule[0] for rule in _RULES), _CUSTOM]) + r")\]"


def _gates() -> list[tuple[str, list[tuple[str, int]]]]:
    """Group anchors under a rare character each: one-character tests are ten times cheaper."""
    gates: dict[str, list[tuple[str, int]]] = {}
    for index, (_name, anchors, _find) in enumerate(_RULES):
        for anchor in anchors:
            gate = next((c for c in "J9zK/_-BA" if c in anchor), anchor)
            gates.setdefault(gate, []).append((anchor, index))
    return list(gates.items())


_GATES = _gates()


def _matching(text: str) -> list[int]:
    """Return the indexes of the rules whose anchors occur."""
    hits = [i for gate, rows in _GATES if gate in text for anchor, i in rows if anchor in text]
    if "=" in text or ":" in text or "--" in text or " is " in text:
        low = text.lower()
        if [word for word in _WORDS if word in low]:
            hits.append(len(_RULES) - 1)
    return sorted(set(hits)) if hits else hits


def _cut(text: str, spans: Spans, name: str) -> str:
    """Replace the spans; one that overlaps a token covers all of it, one inside it is ignored."""
    out: list[str] = []
    at = 0
    found = sorted(itertools.islice(spans, _MOST))
    if len(found) == _MOST:  # too many: the last one extends to the end of the text
        found[-1] = (found[-1][0], len(text))
    for start, end in _widened(text, found):
        start = max(start, at)
        if start < end:
            out += (text[at:start], _OPENING, name, "]")
            at = end
    return "".join([*out, text[at:]]) if out else text


def _widened(text: str, spans: Iterable[tuple[int, int]]) -> Spans:
    tokens = [m.span() for m in _compiled(_TOKEN).finditer(text)] if _OPENING in text else []
    starts = [start for start, _ in tokens]
    for span in spans:
        yield _widen(*span, tokens, starts) if tokens else span


def _widen(
    start: int, end: int, tokens: list[tuple[int, int]], starts: list[int]
) -> tuple[int, int]:
    """Extend the span over every token it overlaps; empty if it covers only one token."""
    from bisect import bisect_right

    first = tokens[bisect_right(starts, start) - 1]
    last = tokens[bisect_right(starts, end - 1) - 1]
    if start == end:
        return start, end
    if first[0] <= start < first[1]:
        start = first[0]
    if last[0] < end < last[1]:
        end = last[1]
    return (start, start) if (start, end) in (first, last) else (start, end)


def redact(text: str, extra: Sequence[re.Pattern[str]] = ()) -> tuple[str, list[str]]:
    """Return the text without its secrets, and the names of the rules that matched."""
    if not extra and not _matching(text):
        return text, []
    run = _redact_short if len(text) < _SHORT else _redact_long if len(text) >= _LONG else _redact
    clean, names = run(text, tuple(extra))
    return clean, list(names)


def _redact(text: str, extra: Sequence[re.Pattern[str]]) -> tuple[str, list[str]]:
    names: dict[str, None] = {}
    for _ in range(_PASSES):
        before = text
        for index in _matching(text):
            name, _anchors, find = _RULES[index]
            text = _apply(text, find(text), name, names)
        for pattern in extra:
            text = _apply(text, _spans(pattern, text), _CUSTOM, names)
        if text is before:
            break
    return text, list(names)


# Comparing files needs the same texts repeatedly: in the largest edit that is accepted, each text
# occurs five times in the same order, so smaller caches would be useless. They hold 8 MB at most,
# in the memory of a process that may read the original files anyway.
_redact_long = functools.lru_cache(maxsize=4)(_redact)
_redact_short = functools.lru_cache(maxsize=8192)(_redact)


def _has_any(text: str) -> bool:
    """Return whether anything in a text would be replaced."""
    found = (_widened(text, _RULES[index][2](text)) for index in _matching(text))
    return any(start < end for spans in found for start, end in spans)


def _apply(text: str, spans: Spans, name: str, names: dict[str, None]) -> str:
    after = _cut(text, spans, name)
    if after is not text:
        names[name] = None
    return after


class Redactor:
    """The rules above plus the user's own patterns, for texts and for nested values.

    A pattern is a regular expression; if it has a group named `secret`, only that group is
    replaced. Patterns run on every text, without an anchor, so they are few (`MAX_PATTERNS`) and
    short (`MAX_PATTERN_LENGTH`), and may not repeat a group that itself repeats without bound, the
    usual form of exponential backtracking. A slow pattern is still possible; it costs time, never a
    secret.
    """

    __slots__ = ("_extra",)

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        if len(patterns) > MAX_PATTERNS:
            what = f"{len(patterns)} redaction patterns are too many"
            raise InvalidInput(
                what, why=f"at most {MAX_PATTERNS} are allowed", hint="combine some with |"
            )
        self._extra = tuple(_user_pattern(source) for source in patterns)

    def is_surely_clean(self, text: str) -> bool:
        """Return whether a text cannot contain a secret: a quick test with false negatives."""
        return not self._extra and not _matching(text)

    def has_no_secret(self, texts: Iterable[str]) -> bool:
        """Return whether none of the texts holds a secret: one test for all, with false negatives.

        A user's pattern may depend on where a text begins, so with such patterns the answer is no.
        """
        return not self._extra and not _has_any("\n".join(texts))

    def text(self, text: str) -> tuple[str, list[str]]:
        return redact(text, self._extra)

    def pair(self, key: str, text: str) -> tuple[str, list[str]]:
        """Redact a text stored under a name: `API_TOKEN` makes a secret of any value."""
        clean, names = redact(text, self._extra)
        start = f'"{key}": "'
        pairs = _pairs(start + _compiled(r"""["\\\s]""").sub("'", clean[:_PROBE]))
        if _compiled(_TOKEN).fullmatch(clean) or len(start) not in (begin for begin, _ in pairs):
            return clean, names
        return f"{_OPENING}secret]", [*names, "secret"]

    def number(self, key: str, value: object) -> tuple[object, list[str]]:
        """Redact a number stored under a name: a password, or a long token or key."""
        clean, names = self.pair(key, str(value))
        human = _compiled(_KEY).search(f'{key}": ')
        is_short = len(str(value)) < _LONG_NUMBER and not (human and human["human"])
        return (value, []) if not names or is_short else (clean, names)

    def value(self, value: object) -> tuple[object, list[str]]:
        """Return a copy with every text and key redacted; refuse a value nested too deeply."""
        names: dict[str, None] = {}
        return self._walk(value, names, MAX_DEPTH), list(names)

    def _walk(self, value: object, names: dict[str, None], depth: int) -> object:
        if isinstance(value, str):
            return _collect_names(self.text(value), names)
        if not isinstance(value, (list, tuple, dict)):
            return value
        if not depth:
            raise InvalidInput(
                "the value is nested too deeply", why=f"at most {MAX_DEPTH} levels are allowed"
            )
        if isinstance(value, dict):
            return self._walk_dict(value, names, depth - 1)
        items = [self._walk(item, names, depth - 1) for item in value]
        return items if isinstance(value, list) else tuple(items)

    def _walk_dict(
        self, value: dict[object, object], names: dict[str, None], depth: int
    ) -> dict[object, object]:
        out: dict[object, object] = {}
        for key, item in value.items():
            if isinstance(key, str) and isinstance(item, str):
                item = _collect_names(self.pair(key, item), names)
            elif isinstance(key, str) and type(item) in (int, float):
                item = _collect_names(self.number(key, item), names)
            else:
                item = self._walk(item, names, depth)
            out[_free(self._walk(key, names, depth), out)] = item
        return out


def _collect_names(cleaned: tuple[object, list[str]], names: dict[str, None]) -> object:
    names.update(dict.fromkeys(cleaned[1]))
    return cleaned[0]


def _free(key: object, used: dict[object, object]) -> object:
    """Return a key that is not in use: two keys may become one token, and no value may be lost."""
    number, new = 2, key
    while new in used:
        number, new = number + 1, f"{key}~{number}"
    return new


def _user_pattern(source: str) -> re.Pattern[str]:
    what = f"redaction pattern {source[:60]!r} cannot be used"
    hint = "correct it in the configuration; see: forestay config"
    if len(source) > MAX_PATTERN_LENGTH:
        raise InvalidInput(
            what, why=f"it is longer than {MAX_PATTERN_LENGTH} characters", hint=hint
        )
    if _compiled(r"\([^()]*(?<!\\)(?:[+*]|\{\d*,\})[^()]*\)(?:[+*]|\{\d*,)").search(source):
        why = "it repeats a group that repeats, which may run for ever"
        raise InvalidInput(what, why=why, hint=hint)
    try:
        return re.compile(source)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidInput(what, why=str(error), hint=hint) from error
