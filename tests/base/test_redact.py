"""Secrets go, everything else stays, twice is once, and hostile text costs no more than its size.

Secrets are put together from parts, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forestay.base import redact as module
from forestay.base.redact import MAX_DEPTH, MAX_PATTERN_LENGTH, MAX_PATTERNS, Redactor, redact
from forestay.errors import InvalidInput

MIXED = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
AWS_ID = "AKIA" + "IOSFODNN7EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9"
LINE = "MIIEowIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MhgHcTz6sE2I2yPB"
HEAD = "-----BEGIN RSA " + "PRIVATE KEY-----"
FOOT = "-----END RSA " + "PRIVATE KEY-----"
SHA1 = "9fceb02d0ae598e95dc970b74767f19372d61af8"
SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

KNOWN = [
    (AWS_ID, "aws-key"),
    ("ASIA" + "IOSFODNN7EXAMPLE", "aws-key"),
    ("ghp_" + MIXED, "github-token"),
    ("gho_" + MIXED, "github-token"),
    ("ghu_" + MIXED, "github-token"),
    ("ghs_" + MIXED, "github-token"),
    ("ghr_" + MIXED, "github-token"),
    ("github_pat_" + MIXED + "_" + MIXED, "github-token"),
    ("ghs_12345_" + JWT, "github-token"),
    ("xoxb-" + "123456789012-abcdefABCDEF", "slack-token"),
    ("xoxe.xoxp-" + "1-Mi0yLTEyMzQ1Njc4OTA", "slack-token"),
    ("AIza" + "SyA1234567890abcdefghijklmnopqrstuv", "google-key"),
    ("ya29." + MIXED, "google-key"),
    ("sk-ant-" + "api03-" + MIXED, "anthropic-key"),
    ("sk-" + MIXED, "openai-key"),
    ("sk-proj-" + MIXED + "_x-" + MIXED, "openai-key"),
    ("glpat-" + MIXED, "service-token"),
    ("sk_live_" + MIXED, "service-token"),
    ("AGE-SECRET-KEY-1" + "Q" * 58, "service-token"),
    (JWT, "jwt"),
    (f"{HEAD}\n{LINE}\n{LINE}\n{FOOT}", "private-key"),
    (f"{HEAD}\\n{LINE}\\n{FOOT}", "private-key"),
    (f"{HEAD}\n{LINE}\n{LINE[:30]}", "private-key"),
    (f"{HEAD}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB12\n\n{LINE}", "private-key"),
    (f"{LINE}\n{LINE[:11]}==\n{FOOT}", "private-key"),
]


@pytest.mark.parametrize("secret, name", KNOWN, ids=[f"{n}-{i}" for i, (_, n) in enumerate(KNOWN)])
@pytest.mark.parametrize("frame", ["{}", "see {} there", "({})", 'x = "{}"', "a\n{}\nb"])
def test_a_known_secret_is_replaced_and_nothing_else(secret: str, name: str, frame: str) -> None:
    if frame.endswith("b") and HEAD in secret and FOOT not in secret:
        frame = "a\n{}"  # The short last line of a truncated key is taken for a part of it.
    assert redact(frame.format(secret)) == (frame.format(f"[redacted:{name}]"), [name])


def test_aws_secret_near_its_id_is_replaced_but_a_hash_next_to_it_is_not() -> None:
    text = f"{AWS_ID},{AWS_SECRET}\ncommit {SHA1}"
    clean, names = redact(text)
    assert clean == f"[redacted:aws-key],[redacted:aws-secret]\ncommit {SHA1}"
    assert names == ["aws-secret", "aws-key"]
    assert redact(f"{AWS_SECRET} {AWS_ID}")[0] == "[redacted:aws-secret] [redacted:aws-key]"
    assert redact(AWS_SECRET) == (AWS_SECRET, [])


def test_second_key_block_is_found_after_a_truncated_first() -> None:
    text = f"{HEAD}\n{LINE}\nlog line, not a key\n{HEAD}\n{LINE}\n{FOOT} end"
    clean, _ = redact(text)
    assert clean == "[redacted:private-key]\nlog line, not a key\n[redacted:private-key] end"


KEPT_AROUND = [
    ("postgres://bob:s3cr3t@db:5432/x", "postgres://bob:{}@db:5432/x", "url-password"),
    ("redis://:p@ss@host/0", "redis://:{}@host/0", "url-password"),
    ("x://a:b@c and y://d:e@f", "x://a:{}@c and y://d:{}@f", "url-password"),
    ("postgres://bob:s3/cr3t/x@db:5432/x", "postgres://bob:{}@db:5432/x", "url-password"),
    ("redis://:a/b@host/0?at=c@d", "redis://:{}@host/0?at=c@d", "url-password"),
    (
        "https://hooks.slack.com/services/T0000/B0000/XXXXXXXX",
        "https://hooks.slack.com/services/{}",
        "slack-webhook",
    ),
    ("send Bearer abc123def456 now", "send Bearer {} now", "bearer"),
    ("authorization: Bearer abc123def456", "authorization: Bearer {}", "bearer"),
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic {}", "secret"),
    ('{"Authorization": "Bearer abc"}', '{"Authorization": "Bearer {}"}', "secret"),
    ("password=hunter2", "password={}", "secret"),
    ("password=swordfish", "password={}", "secret"),
    ("password = hunter2", "password = {}", "secret"),
    ("passwd = swordfish", "passwd = {}", "secret"),
    ("password: hunter2", "password: {}", "secret"),
    ("the password is hunter2.", "the password is {}.", "secret"),
    ("the password is 'swordfish'", "the password is '{}'", "secret"),
    ('if password == "hunter":', 'if password == "{}":', "secret"),
    ("{ apiKey: 'abcd1234' }", "{ apiKey: '{}' }", "secret"),
    ("password: 'two'", "password: '{}'", "secret"),
    ('"password": "none of these"', '"password": "{}"', "secret"),
    ("DB_PASSWORD=x", "DB_PASSWORD={}", "secret"),
    ("SMTP_PASS=abc", "SMTP_PASS={}", "secret"),
    ("pwd='correct horse'", "pwd='{}'", "secret"),
    ('{"password": "x"}', '{"password": "{}"}', "secret"),
    ('"clientSecret":"two words"', '"clientSecret":"{}"', "secret"),
    (r"{\"password\": \"x1\", \"a\": 1}", r"{\"password\": \"{}\", \"a\": 1}", "secret"),
    (r'"password": "a\"b"', '"password": "{}"', "secret"),
    ('password="never closed', 'password="{}', "secret"),
    ("mysql --password x -u root", "mysql --password {} -u root", "secret"),
    ("--db-password=x y", "--db-password={} y", "secret"),
    ("--api-key abcd1234", "--api-key {}", "secret"),
    ("token=abc&next=1", "token={}&next=1", "secret"),
    ("x://token=abc&next=1@y", "x://token={}&next=1@y", "secret"),
    ("Server=db;Password=p4ss;User=x", "Server=db;Password={};User=x", "secret"),
    ("api_key: 9f86d081884c7d65", "api_key: {}", "secret"),
    ("X-Api-Key: 9f86d081884c7d65", "X-Api-Key: {}", "secret"),
    ("apikey='abcd'", "apikey='{}'", "secret"),
    (f"aws_secret_access_key = {AWS_SECRET}", "aws_secret_access_key = {}", "secret"),
    ('config["token"] = "abc"', 'config["token"] = "{}"', "secret"),
    ('token: str = "abc"', 'token: str = "{}"', "secret"),
    ("connect(h, password=hunter2)", "connect(h, password={})", "secret"),
    ("export SECRET_KEY='x y'", "export SECRET_KEY='{}'", "secret"),
    (f"GH_TOKEN=ghp_{MIXED}", "GH_TOKEN={}", "github-token"),
    ("İİ password=hunter2", "İİ password={}", "secret"),
]


@pytest.mark.parametrize("text, kept, name", KEPT_AROUND, ids=[row[0] for row in KEPT_AROUND])
def test_name_of_a_redacted_value_and_surrounding_text_are_preserved(
    text: str, kept: str, name: str
) -> None:
    assert redact(text) == (kept.replace("{}", f"[redacted:{name}]"), [name])


HARMLESS = [
    "token: the next word",
    "token = get_token()",
    "password = None",
    "password=null",
    'os.environ["TOKEN"]',
    'token = os.environ["TOKEN"]',
    "token = self.token",
    "const password = req.body.password;",
    "password = password",
    "api_key=api_key",
    "login(password=password, token=token)",
    "connect(password=user_password)",
    "def f(token: str | None = None, password: str = ''):",
    "if (token === undefined) return",
    "max_tokens: 4096, tokens=500, token_count=12, token_type=bearer",
    "Password: required",
    "Password: required!",
    "pass=12 fail=3 compass=north",
    '"token": null, "password": ""',
    "use --token flag or --password option",
    "--password-file /run/x --password-stdin",
    "password=$PASSWORD token=${TOKEN} secret=$(cat f) api_key={api_key}",
    "token: ${{ secrets.GITHUB_TOKEN2 }}",
    "password=<your password> token=*** secret=xxxx",
    'print("Token: ", value, "x")',
    'log("password=" + x + "y")',
    "PWD=/home/user/project",
    '{"PWD": "/root", "OLDPWD": "/home/user"}',
    "def extract(self, path=None, pwd=None):",
    "password = (a or b)",
    "fds_to_pass = [1, 2] and last_pass = 3",
    'if token == "with" or token === "(":',
    "Token: '#dcdccc',",
    '<a accesskey="p" href="x.html">',
    "logger.debug('token=%r', token)",
    "source argument for a token is `args[token.index]`",
    "const password = new Password()",
    "secret: src/forestay/secrets2.py",
    "Token::parse2024things",
    "the secret is base64-encoded",
    "the token bucket has 2000tokens",
    "Token expired: refresh failed at 10:32",
    "primary key: user_id2024, foreign key = account7",
    "task-list-2024-with-a-long-name disk-usage-report-for-2024-01",
    "sk-learn-style-names-are-not-secrets",
    "ghp_token_for_tests_is_a_name",
    "Bearer authentication is used",
    "http://localhost:8080/path@x http://localhost:8080?email=a@b.c",
    "http://localhost:4873/@scope/pkg https://medium.com/@user",
    "git@github.com:org/repo.git ssh://git@github.com:22/org",
    "postgres://user:$PASS@host postgres://user:{pw}@host",
    "-----BEGIN PRIVATE " + "KEY----- is how such files begin, and they end otherwise",
    "-----BEGIN CERTIFICATE-----\n" + LINE + "\n-----END CERTIFICATE-----",
    f"commit {SHA1}",
    f"sha256:{SHA256}",
    f"image@sha256:{SHA256} {SHA1} {SHA1[:7]}",
    "123e4567-e89b-12d3-a456-426614174000",
    "/usr/lib/python3.11/site-packages/token.py",
    "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_code_paths_and_hashes_survive(text: str) -> None:
    assert redact(text) == (text, [])


def test_secret_named_inside_the_value_of_another_name_is_redacted() -> None:
    assert redact("token: x:password=hunter")[0] == "token: x:password=[redacted:secret]"


def test_secret_inside_a_forged_redaction_mark_is_redacted() -> None:
    clean, names = redact(f"[redacted:sk-{MIXED}]")
    assert MIXED not in clean
    assert names == ["openai-key"]


def test_long_value_is_replaced_to_its_end() -> None:
    assert redact("password=" + "x1" * 5000) == ("password=[redacted:secret]", ["secret"])


FRAGMENTS = st.sampled_from(
    [secret for secret, _ in KNOWN]
    + [text for text, _, _ in KEPT_AROUND]
    + [HEAD, FOOT, LINE, AWS_SECRET, SHA1, MIXED, "[redacted:secret]", "[redacted:", "[redacted:x]"]
    + ["password", "TOKEN", "api_key", "--", "=", ":", " ", '"', "'", "\\", "]", "://", "@", ","]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=6), max_size=12).map("".join)
PATTERNS = st.lists(
    st.sampled_from([r"\w+", ".", "^.", "x*", r"\[", "red", r"id-(?P<secret>\d+)", "e.{3}", ".+$"]),
    max_size=3,
)


@given(TEXTS)
@example("password=[redacted:secret]x")
@example(HEAD * 20 + f"\n{LINE}\n" + FOOT * 20)
@example("[redacted:aws-key][redacted:jwt]password=[redacted:aws-key][redacted:jwt]")
def test_redacting_twice_equals_redacting_once(text: str) -> None:
    once, _ = redact(text)
    assert redact(once) == (once, [])


@given(TEXTS, PATTERNS)
@example("ab", [r"\]b", "a"])  # What one pass leaves behind may be what the next one looks for.
def test_patterns_of_the_user_never_cut_into_a_token(text: str, patterns: list[str]) -> None:
    redactor = Redactor(patterns)
    once, _ = redactor.text(text)
    assert redactor.text(once) == (once, [])


@given(TEXTS)
def test_every_rule_that_finds_a_secret_is_selected_by_its_anchor(text: str) -> None:
    found = [i for i, (_, _, find) in enumerate(module._RULES) if list(find(text))]
    assert set(found) <= set(module._matching(text))


@given(st.sampled_from(KNOWN), TEXTS, TEXTS)
def test_no_known_secret_survives_between_words(
    known: tuple[str, str], before: str, after: str
) -> None:
    clean, _ = redact(f"{before} {known[0]} {after}")
    assert f" {known[0]} " not in clean


HOSTILE = [
    "eyJ", "eyJaaaaaaaaa.", "-eyJ", "password=", "password='", "token:", "token: ", 'token: "',
    "--token ", "--", "://", "://a:", "://a:b", "-----BEGIN ", HEAD, HEAD + "\n", FOOT, LINE + "\n",
    "AKIA", AWS_ID + " ", "ghp_", "github_pat_", "xox", "xoxb-", "sk-", "sk-ant-", "Bearer ",
    "hooks.slack.com/", "token\\", "token ", "authorization: bearer ", "[redacted:secret]",
    "password=[redacted:secret]", "a", " ", "secret is ", "AIza", "ya29.", "pass", "key=",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("ending", ["", "@", " PRIVATE KEY", "'"])
def test_time_grows_with_the_size_of_hostile_text_and_not_its_square(
    unit: str, ending: str
) -> None:
    small, large = (unit * (size // len(unit)) + ending for size in (5_000, 40_000))
    slow = _seconds(large)
    # Eight times the text: linear is 8, a square 64. What is fast anyway proves enough.
    assert slow < 0.025 or slow < 24 * _seconds(small)


def _seconds(text: str) -> float:
    def once() -> float:
        start = time.process_time()
        redact(text)
        return time.process_time() - start

    return min(once() for _ in range(2))


def test_redacting_a_nested_value_does_not_change_the_original() -> None:
    value = {
        "goal": f"use {AWS_ID}",
        "env": [{"API_TOKEN": "plain", "N": 3, "note": "plain"}, ("password=x", None, 1.5, True)],
        "tokens": "12",
    }
    before = repr(value)
    clean, names = Redactor().value(value)
    assert clean == {
        "goal": "use [redacted:aws-key]",
        "env": [
            {"API_TOKEN": "[redacted:secret]", "N": 3, "note": "plain"},
            ("password=[redacted:secret]", None, 1.5, True),
        ],
        "tokens": "12",
    }
    assert names == ["aws-key", "secret"]
    assert repr(value) == before
    assert Redactor().value(clean) == (clean, [])


@pytest.mark.parametrize(
    "key, number, secret",
    [
        ("password", 81726354, True),
        ("passcode", 1234, True),
        ("api_key", 81726354, True),
        ("secret", 3.14159, True),
        ("max_token", 500, False),
        ("tokens", 25_000_000, False),
        ("keyboard", 81726354, False),
        ("password", True, False),
        ("password", None, False),
    ],
)
def test_number_under_the_name_of_a_secret_is_redacted(
    key: str, number: float | None, secret: bool
) -> None:
    kept = "[redacted:secret]" if secret else number
    assert Redactor().value({key: number}) == ({key: kept}, ["secret"] if secret else [])


def test_keys_are_redacted_and_no_value_is_lost_when_two_become_one() -> None:
    clean, names = Redactor().value({AWS_ID: 1, "ASIA" + AWS_ID[4:]: 2, 5: 3})
    assert clean == {"[redacted:aws-key]": 1, "[redacted:aws-key]~2": 2, 5: 3}
    assert names == ["aws-key"]


@pytest.mark.parametrize(
    "key, text, clean",
    [
        ("API_TOKEN", "plain", "[redacted:secret]"),
        ("dbPassword", "two words", "[redacted:secret]"),
        ("password", '"quoted" and\nlong', "[redacted:secret]"),
        ("password", "none of these", "[redacted:secret]"),
        ("PWD", "/home/user", "/home/user"),
        ("note", "password=x", "password=[redacted:secret]"),
        ("password", "", ""),
        ("password", "null", "null"),
        ("password", "$PASSWORD", "$PASSWORD"),
        ("token", f"sk-{MIXED}", "[redacted:openai-key]"),
        ("token_count", "12", "12"),
        ("key", "plain", "plain"),
    ],
)
def test_text_under_the_name_of_a_secret_is_redacted(key: str, text: str, clean: str) -> None:
    assert Redactor().pair(key, text)[0] == clean


def test_value_nested_too_deeply_is_refused() -> None:
    deep: object = "x"
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert Redactor().value(deep)[0] == deep
    with pytest.raises(InvalidInput, match="nested"):
        Redactor().value([deep])
    for _ in range(10_000):
        deep = {"a": deep}
    with pytest.raises(InvalidInput, match="nested"):
        Redactor().value(deep)


def test_patterns_of_the_user_are_applied_whole_or_by_their_group() -> None:
    redactor = Redactor([r"EMP-\d+", r"badge (?P<secret>\w+)"])
    assert redactor.text("EMP-123 has badge x7") == (
        "[redacted:custom] has badge [redacted:custom]",
        ["custom"],
    )
    assert redact("EMP-123", [re.compile(r"EMP-\d+")]) == ("[redacted:custom]", ["custom"])


def test_user_pattern_that_overlaps_a_token_covers_it() -> None:
    assert Redactor(["id .{6}"]).text(f"id {AWS_ID} end") == (
        "[redacted:custom] end",
        ["aws-key", "custom"],
    )


@pytest.mark.parametrize(
    "pattern, why",
    [
        ("(unclosed", "unterminated"),
        ("x" * (MAX_PATTERN_LENGTH + 1), "longer"),
        ("(a+)+$", "repeats"),
        (r"(?:\w+\s?)*x", "repeats"),
        ("(.*,){3,}", "repeats"),
    ],
)
def test_an_unusable_user_pattern_is_refused_by_name(pattern: str, why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Redactor(["fine", pattern])
    assert repr(pattern)[:20] in caught.value.what
    assert why in caught.value.why


@pytest.mark.parametrize("pattern", [r"(a\+)+", "(?:ab)+", "(?:[a-z]{2,4}-){3}", "a+b*"])
def test_a_harmless_user_pattern_is_accepted(pattern: str) -> None:
    Redactor([pattern])


def test_too_many_user_patterns_are_refused() -> None:
    Redactor(["x"] * MAX_PATTERNS)
    with pytest.raises(InvalidInput, match="too many"):
        Redactor(["x"] * (MAX_PATTERNS + 1))


def test_only_one_character_changes_its_length_in_lower_case() -> None:
    # The search for names runs on lowered text and relies on equal offsets.
    assert [c for c in map(chr, range(0x110000)) if len(c.lower()) != 1] == ["\u0130"]


def test_secret_in_one_of_many_texts_checked_at_once_is_found() -> None:
    secret = "AKIA" + "ABCDEFGH" * 2
    assert Redactor().has_no_secret(["plain", "text"])
    assert not Redactor().has_no_secret(["plain", secret, "text"])
    # Where each text begins matters to a pattern of the user's own.
    assert not Redactor([r"^x\d+$"]).has_no_secret(["plain"])


def test_text_after_too_many_secrets_is_removed() -> None:
    pair = "password" + ": x1y2z3w4 "
    few, many = (redact(pair * count + "the end")[0] for count in (5_000, 20_000))
    assert few.endswith("the end") and few.count("[redacted:secret]") == 5_000
    assert many.endswith("[redacted:secret]") and "x1y2" not in many
    assert redact(many) == (many, [])


def test_text_full_of_secrets_is_redacted_quickly() -> None:
    text = ("password" + ": x1y2z3w4 ") * 200_000
    began = time.process_time()
    for _ in range(20):
        redact(text)
    assert not Redactor().has_no_secret([text])
    assert time.process_time() - began < 60


def test_repeated_texts_are_redacted_from_the_cache() -> None:
    texts = [f"fetch https://user:pw{n}@host{n}.example/path" for n in range(4_000)]

    def seconds() -> float:
        began = time.process_time()
        assert all("[redacted:url-password]" in redact(text)[0] for text in texts)
        return time.process_time() - began

    first = seconds()
    assert 5 * seconds() < first or first < 0.01
