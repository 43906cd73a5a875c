"""Tests of what every remote must do. An adapter is complete when all of them pass.

The test module of an adapter defines how to open a remote over empty data, and inherits the tests:

    class TestMyRemote(RemoteContract):
        @pytest.fixture
        def opener(self, tmp_path: Path) -> Callable[[], Remote]:
            return partial(open_remote, f"my:{tmp_path}/remote")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from forestay.errors import InvalidInput, NotThere
from forestay.sync.remotes.port import FORMAT, Object, Remote

NAMES = ["a/1", "a/10", "a/2", "a-b/1", "ab", "b/c/d/e", "b.c", "z/0000-0001-ff"]
BAD_NAMES = ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", ".a", "a/.b", "A", "a b", "ä"]
BAD_NAMES += ["a\0b", "a\n", "a\\b", "a:b", "x" * 201, "/".join(["abcdefgh"] * 100), "a.tmp"]
BAD_NAMES += ["a.conflict1", "a.sync-conflict-20260101-000000", "desktop.ini", "a~", "%2e%2e/a"]
BAD_NAMES += ["b/a.part"]


class RemoteContract:
    @pytest.fixture
    def opener(self) -> Callable[[], Remote]:
        raise NotImplementedError("an adapter's test class needs its own fixture `opener`")

    @pytest.fixture
    def another(self, opener: Callable[[], Remote]) -> Iterator[Callable[[], Remote]]:
        """Yield a function that opens one more remote over the same data."""
        opened: list[Remote] = []

        def open_one() -> Remote:
            opened.append(opener())
            return opened[-1]

        yield open_one
        for remote in opened:
            remote.close()

    @pytest.fixture
    def remote(self, another: Callable[[], Remote]) -> Remote:
        return another()

    # -- objects ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("data", [b"", b"\0", b"sealed \xff\n" * 100, bytes(6_000_000)])
    def test_what_was_put_is_what_is_got(self, remote: Remote, data: bytes) -> None:
        assert remote.put("s/1/p", data)
        assert remote.get("s/1/p") == data
        assert [*remote.list("")] == [Object("s/1/p", len(data))]

    def test_existing_object_is_not_overwritten(self, remote: Remote) -> None:
        assert remote.put("s/1", b"first")
        assert not remote.put("s/1", b"second, and longer")
        assert not remote.put("s/1", b"first")
        assert remote.get("s/1") == b"first"

    def test_large_object_does_not_replace_another(self, remote: Remote) -> None:
        assert remote.put("s/1", b"first")
        assert not remote.put("s/1", bytes(6_000_000))
        assert remote.get("s/1") == b"first"

    def test_missing_object_raises_not_there(self, remote: Remote) -> None:
        for name in ("s", "s/1", FORMAT):
            with pytest.raises(NotThere):
                remote.get(name)
        remote.put("s/1", b"1")
        for name in ("s/2", "s/1.x", "t/1"):
            with pytest.raises(NotThere):
                remote.get(name)

    def test_removed_object_is_gone_and_its_name_is_free(self, remote: Remote) -> None:
        remote.put("s/1", b"one")
        remote.put("s/2", b"two")
        remote.delete("s/1")
        remote.delete("s/1")
        remote.delete("t/never")
        with pytest.raises(NotThere):
            remote.get("s/1")
        assert [*remote.list("")] == [Object("s/2", 3)]
        assert remote.put("s/1", b"again")
        assert remote.get("s/1") == b"again"

    def test_name_that_could_mean_something_else_is_refused(self, remote: Remote) -> None:
        for name in BAD_NAMES:
            for act in (remote.get, remote.delete, partial(remote.put, data=b"")):
                with pytest.raises(InvalidInput):
                    act(name)
        assert [*remote.list("")] == []

    # -- lists -----------------------------------------------------------------------------------

    def test_objects_are_listed_by_name_with_their_sizes(self, remote: Remote) -> None:
        for size, name in enumerate(reversed(NAMES)):
            remote.put(name, bytes(size))
        assert [*remote.list("")] == [
            Object(name, len(NAMES) - 1 - NAMES.index(name)) for name in sorted(NAMES)
        ]

    def test_prefix_is_of_the_name_and_not_of_folders(self, remote: Remote) -> None:
        for name in NAMES:
            remote.put(name, b"")
        for prefix in ("", "a", "a/", "a/1", "a-", "b/c", "b/c/d/e", "x", "a/1/", "z/0"):
            expected = sorted(name for name in NAMES if name.startswith(prefix))
            assert [each.name for each in remote.list(prefix)] == expected

    def test_nothing_is_listed_where_nothing_was_put(self, remote: Remote) -> None:
        assert [*remote.list("")] == [*remote.list("s/")] == []

    def test_objects_may_be_removed_while_they_are_listed(self, remote: Remote) -> None:
        for name in NAMES:
            remote.put(name, b"")
        for each in remote.list(""):
            remote.delete(each.name)
        assert [*remote.list("")] == []

    # -- together --------------------------------------------------------------------------------

    def test_another_sees_at_once_what_was_put_and_removed(
        self, remote: Remote, another: Callable[[], Remote]
    ) -> None:
        other = another()
        for name in NAMES:
            assert remote.put(name, name.encode())
            assert Object(name, len(name)) in [*other.list("")]
            assert other.get(name) == name.encode()
            assert not other.put(name, b"other")
            other.delete(name)
            assert [*remote.list("")] == []

    def test_one_of_many_simultaneous_puts_succeeds(self, another: Callable[[], Remote]) -> None:
        remotes = [another() for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            puts = [pool.submit(remote.put, "s/1/p", b"same") for remote in remotes]
        assert any(each.result() for each in puts)
        assert {remote.get("s/1/p") for remote in remotes} == {b"same"}

    def test_many_at_once_lose_nothing(self, remote: Remote) -> None:
        with ThreadPoolExecutor(8) as pool:
            for n in range(40):
                pool.submit(remote.put, f"s/{n % 3}/{n:04}", bytes(n))
        assert sorted(each.size for each in remote.list("s/")) == [*range(40)]

    # -- probing ---------------------------------------------------------------------------------

    def test_probe_leaves_nothing_behind_and_proves_both(self, remote: Remote) -> None:
        probe = remote.probe()
        assert probe.conditional and probe.lists and not probe.why
        assert [*remote.list("")] == []
        remote.put("s/1", b"1")
        assert remote.probe() == probe
        assert [*remote.list("")] == [Object("s/1", 1)]

    def test_closing_twice_is_as_good_as_once(self, remote: Remote) -> None:
        remote.put("s/1", b"1")
        remote.close()
        remote.close()

    def test_address_names_the_kind_of_remote(self, remote: Remote) -> None:
        assert remote.address and remote.backend
