"""A bucket as a remote: addresses, answers of servers, and secrets that must not leak."""

from __future__ import annotations

import os
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from forestay.base.config import s3_access
from forestay.errors import ForestayError, InvalidInput, NotThere, RemoteFailed, Unreachable
from forestay.sync.remotes.open import open_remote
from forestay.sync.remotes.port import Object, Remote
from forestay.sync.remotes.s3 import S3Remote, parse
from forestay.sync.remotes.weak_consistency import ReadBackRemote
from tests.servers import KEY, SECRET, Server

ACCESS = {"access_key_id": KEY, "secret_access_key": SECRET}


# --- addresses ----------------------------------------------------------------------------------


def test_address_has_bucket_prefix_endpoint_and_region() -> None:
    place = parse("s3://hold/a/B_c?endpoint=https://s3.example.org:9000/x/&region=eu-west-1")
    assert place == ("hold", "a/B_c", "https://s3.example.org:9000/x", "eu-west-1")
    assert parse(place.address) == place
    assert parse("s3://hold").address == "s3://hold/"


@pytest.mark.parametrize("host", ["127.0.0.1:8333", "[::1]:8333", "localhost", "LOCALHOST:1"])
def test_plain_http_is_allowed_to_this_machine(host: str) -> None:
    assert parse(f"s3://hold/?endpoint=http://{host}").endpoint == f"http://{host}"


@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3:///x",
        "s3://a",
        "s3://UPPER/x",
        "s3://hold/../x",
        "s3://hold/a//b",
        "s3://hold/a b",
        "s3://hold/x#y",
        "s3://hold/?endpoint=s3.example.org",
        "s3://hold/?endpoint=ftp://s3.example.org",
        "s3://hold/?endpoint=http://s3.example.org",
        "s3://hold/?endpoint=http://127.0.0.1.example.org",
        "s3://hold/?endpoint=http://192.168.1.2",
        "s3://hold/?endpoint=http://[::1",
        "s3://hold/?endpoint=http://127.0.0.1:99999999",
        "s3://hold/?region=a%20b",
        "s3://hold/?nonsense",
    ],
)
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput):
        open_remote(address)


@pytest.mark.parametrize(
    "address",
    [
        "s3://canary:canary@hold/x",
        "s3://hold/?endpoint=https://canary:canary@s3.example.org",
        "s3://hold/?endpoint=https%3A%2F%2Fcanary%40s3.example.org",
        "s3://hold/?access_key_id=canary",
        "s3://hold/?secret_access_key=canary&endpoint=https://x.example.org",
        "s3://hold/?X-Amz-Signature=canary",
    ],
)
def test_secret_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_remote(address)
    assert "canary" not in visible_text(caught.value)


def visible_text(error: ForestayError) -> str:
    """Return all text of an error, however it is shown."""
    seen = [str(error), repr(error), repr(error.__dict__), repr(pickle.dumps(error))]
    return " ".join([*seen, repr(error.__cause__)])


# --- credentials --------------------------------------------------------------------------------


def test_credentials_come_from_our_variables_before_those_of_all_programs() -> None:
    ours = {"FORESTAY_S3_ACCESS_KEY_ID": "k1", "FORESTAY_S3_SECRET_ACCESS_KEY": "s1"}
    all_ = {
        "AWS_ACCESS_KEY_ID": "k2",
        "AWS_SECRET_ACCESS_KEY": "s2",
        "AWS_SESSION_TOKEN": "t2",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "https://x.example.org",
    }
    where = {"region": "eu-west-1", "endpoint": "https://x.example.org"}
    assert s3_access({**ours, **all_}) == {
        "access_key_id": "k1",
        "secret_access_key": "s1",
        **where,
    }
    assert s3_access(all_) == {
        "access_key_id": "k2",
        "secret_access_key": "s2",
        "session_token": "t2",
        **where,
    }


def test_credentials_come_from_the_profile_where_no_variable_has_them() -> None:
    folder = os.path.join(os.environ["HOME"], ".aws")
    os.mkdir(folder)
    with open(os.path.join(folder, "credentials"), "w") as file:
        file.write(
            "[default]\naws_access_key_id = k\naws_secret_access_key = a%b\n[w]\nregion = r\n"
        )
    assert s3_access() == {"access_key_id": "k", "secret_access_key": "a%b"}
    assert s3_access({**os.environ, "AWS_PROFILE": "w"}) == {"region": "r"}
    assert s3_access({**os.environ, "AWS_PROFILE": "none"}) == {}


def test_missing_credentials_are_reported_before_any_request() -> None:
    with pytest.raises(RemoteFailed, match="no credentials") as caught:
        open_remote("s3://hold/x?endpoint=http://127.0.0.1:1")
    assert "AWS_ACCESS_KEY_ID" in caught.value.hint


def test_environment_variable_does_not_override_the_address(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    faulty.answers = [(200, "")]
    assert faulty.remote().get("s/1") == b""


def test_plain_http_of_the_environment_is_refused_as_well() -> None:
    with pytest.raises(InvalidInput, match="plain http"):
        S3Remote("s3://hold/x", {**ACCESS, "endpoint": "http://s3.example.org"})


def test_missing_library_is_reported_with_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(RemoteFailed) as caught:
        S3Remote("s3://hold/x", ACCESS)
    assert caught.value.hint == "pip install 'forestay[teleport]'"


# --- what a server may answer -------------------------------------------------------------------


class Faulty:
    """A server that gives the prepared answers in order, and then repeats the last one.

    An answer is a status and a body, or a status below 100 for a connection that breaks.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def remote(self, timeout: float = 5.0) -> S3Remote:
        endpoint = f"http://127.0.0.1:{self.server.server_port}"
        return S3Remote(f"s3://hold/x?endpoint={endpoint}", ACCESS, timeout=timeout)

    def next(self) -> tuple[int, str]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            owner: ClassVar[Faulty] = self

            def do(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.owner.asked.append(f"{self.command} {self.path}")
                status, body = self.owner.next()
                if status < 100:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.send_header("etag", '"1"')
                self.send_header("last-modified", "Mon, 16 Nov 2026 10:00:00 GMT")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None: ...

            do_GET = do_PUT = do_DELETE = do_POST = do_HEAD = do

        return Handler


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("forestay.sync.remotes.s3._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("forestay.sync.remotes.s3._LONGEST_PAUSE", 0.01)
    faulty = Faulty()
    yield faulty
    faulty.server.shutdown()
    faulty.server.server_close()


def refusal(code: str) -> str:
    secrets = f"<AWSAccessKeyId>{KEY}</AWSAccessKeyId><StringToSign>{SECRET}</StringToSign>"
    return f"<Error><Code>{code}</Code><Message>{SECRET}</Message>{secrets}</Error>"


ACTS: list[Callable[[Remote], object]] = [
    lambda remote: remote.get("s/1"),
    lambda remote: remote.put("s/1", b"1"),
    lambda remote: [*remote.list("s/")],
    lambda remote: remote.delete("s/1"),
]


@pytest.mark.parametrize(
    "status, code, kind, words",
    [
        (403, "SignatureDoesNotMatch", RemoteFailed, "secret key is wrong"),
        (403, "InvalidAccessKeyId", RemoteFailed, "does not know this access key"),
        (403, "AccessDenied", RemoteFailed, "do not allow the request"),
        (403, "Strange", RemoteFailed, "do not allow the request"),
        (401, "", RemoteFailed, "not accepted"),
        (404, "NoSuchBucket", RemoteFailed, "no such bucket"),
        (400, "InvalidBucketName", RemoteFailed, "no such bucket"),
        (400, "Strange", RemoteFailed, "answered 400 Strange"),
        (507, "", RemoteFailed, "no room left"),
        (400, "QuotaExceeded", RemoteFailed, "no room left"),
        (503, "SlowDown", Unreachable, "limits the rate of requests"),
        (429, "", Unreachable, "limits the rate of requests"),
        (500, "InternalError", Unreachable, "error 500"),
        (0, "", Unreachable, "connection"),
    ],
)
def test_error_of_a_server_becomes_ours_without_a_secret(
    faulty: Faulty, status: int, code: str, kind: type[RemoteFailed], words: str
) -> None:
    faulty.answers = [(status, refusal(code))]
    for act in ACTS:
        with pytest.raises(kind, match=words) as caught:
            act(faulty.remote())
        assert type(caught.value) is kind and not isinstance(caught.value, NotThere)
        assert SECRET not in visible_text(caught.value) and KEY not in visible_text(caught.value)


@pytest.mark.parametrize("answer", [(503, refusal("SlowDown")), (500, ""), (429, ""), (0, "")])
def test_busy_server_is_asked_a_limited_number_of_times(
    faulty: Faulty, answer: tuple[int, str]
) -> None:
    remote = faulty.remote()
    faulty.answers = [answer, answer, answer, (200, "sealed")]
    assert remote.get("s/1") == b"sealed" and len(faulty.asked) == 4
    faulty.asked.clear()
    faulty.answers = [answer, answer, (200, "")]
    assert remote.put("s/1", b"1") and len(faulty.asked) == 3
    faulty.asked.clear()
    faulty.answers = [answer]
    with pytest.raises(Unreachable):
        remote.get("s/1")
    assert len(faulty.asked) == 7


def test_missing_server_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="no server answers") as caught:
        S3Remote("s3://hold/x?endpoint=http://127.0.0.1:1", ACCESS, timeout=0.2).get("s/1")
    assert caught.value.retryable


@pytest.mark.parametrize("size", [1, 3 << 19])
def test_silent_server_is_abandoned_in_time(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        remote = S3Remote(f"s3://hold/x?endpoint={endpoint}", ACCESS, timeout=0.2)
        began = time.monotonic()
        with pytest.raises(Unreachable, match="no answer in time"):
            remote.put("s/1", bytes(size))
        assert time.monotonic() - began < 4, "a large object has longer, but not forty times"


def test_name_reported_as_taken_but_missing_is_written_again(faulty: Faulty) -> None:
    conflict, missing = (409, refusal("ConditionalRequestConflict")), (404, refusal("NoSuchKey"))
    faulty.answers = [conflict, missing, conflict, missing, (200, "")]
    assert faulty.remote().put("s/1", b"1")
    faulty.answers = [conflict, (200, "")]
    assert not faulty.remote().put("s/1", b"1")


def test_server_that_refuses_conditions_is_written_to_without_them(faulty: Faulty) -> None:
    faulty.answers = [(501, refusal("NotImplemented"))] * 7 + [(404, ""), (200, ""), (200, "")]
    remote = faulty.remote()
    assert remote.put("s/1", b"1") and not remote.put("s/1", b"2")
    assert [each.split()[0] for each in faulty.asked[7:]] == ["HEAD", "PUT", "HEAD", "HEAD"]


def page(names: list[str], more: str = "") -> tuple[int, str]:
    rest = f"<NextContinuationToken>{more}</NextContinuationToken>" if more else ""
    rest += f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
    entries = "".join(
        f"<Contents><Key>x/{name}</Key><Size>7</Size><ETag>1</ETag>"
        "<LastModified>2026-11-16T10:00:00.000Z</LastModified></Contents>"
        for name in names
    )
    return 200, f"<ListBucketResult>{rest}{entries}</ListBucketResult>"


def test_list_reads_all_pages_sorts_and_omits_foreign_names(
    faulty: Faulty,
) -> None:
    strange = ["s/UP", "s/1.tmp", "s/a b", "s/.hidden"]
    faulty.answers = [page(["s/2", *strange], "t1"), page(["s-b/1"], "t2"), page(["s/1"])]
    assert [*faulty.remote().list("s")] == [Object(n, 7) for n in ("s-b/1", "s/1", "s/2")]
    assert len(faulty.asked) == 3 and "continuation-token=t2" in faulty.asked[-1]


def test_object_with_an_invalid_name_is_reported(faulty: Faulty) -> None:
    faulty.answers = [page(["s/1", "s/../2"])]
    with pytest.raises(RemoteFailed, match="invalid name") as caught:
        [*faulty.remote().list("s")]
    assert "prefix for Forestay alone" in caught.value.hint


def test_object_larger_than_any_of_ours_is_not_read(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forestay.sync.remotes.object_names.MOST", 3)
    faulty.answers = [(200, "four")]
    with pytest.raises(RemoteFailed, match="too large"):
        faulty.remote().get("s/1")


def test_remote_shows_no_secret(faulty: Faulty) -> None:
    remote = faulty.remote()
    assert SECRET not in f"{remote!r} {remote.address} {remote.place!r}"


# --- real servers -------------------------------------------------------------------------------


@pytest.fixture
def access(seaweedfs: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    return seaweedfs


def test_missing_bucket_is_an_error_and_not_an_empty_remote(access: Server) -> None:
    remote = open_remote(access._replace(bucket="never-made").address("x"))
    for act in ACTS:
        with pytest.raises(RemoteFailed, match="no such bucket"):
            act(remote)


def test_wrong_secret_is_not_reported_as_a_missing_object(
    access: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(RemoteFailed, match="secret key is wrong"):
        open_remote(access.address("x")).get("s/1")


def test_prefixes_of_one_bucket_are_separate_remotes(access: Server) -> None:
    base = os.urandom(8).hex()
    one, other = (open_remote(access.address(f"{base}{end}")) for end in ("", "x"))
    assert one.put("s/1", b"one") and other.put("s/1", b"other")
    assert one.get("s/1") == b"one" and [*other.list("")] == [Object("s/1", 5)]


def test_server_that_ignores_conditions_is_detected(
    rclone: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in rclone.environment().items():
        monkeypatch.setenv(name, value)
    remote = open_remote(rclone.address(os.urandom(8).hex()))
    assert remote.put("s/1", b"1") and remote.put("s/1", b"2")  # it overwrites
    probe = remote.probe()
    assert not probe.conditional and "overwrites" in probe.why
    careful = ReadBackRemote(remote, late=not probe.lists)
    assert not careful.put("s/1", b"3") and careful.get("s/1") == b"2"
    assert [each.name for each in remote.list("")] == ["s/1"]
