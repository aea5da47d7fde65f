"""Decoded document versions are kept for the next query: the newest of each, as many as fit."""

from __future__ import annotations

from kit.builders import document

from store.catalog.sqlite.snapshots import DECODED_CHARACTERS_MAX, DecodedVersions
from store.model import Instant, Layout, Version, VisibleDocument


def version(text: str = "text", acl: tuple[str, ...] | None = None) -> VisibleDocument:
    return VisibleDocument(document(), Version(1), None, "text/plain", None, {}, acl, Instant(0), text, Layout())


def test_a_version_whose_permissions_changed_is_kept_as_it_is_now() -> None:
    kept = DecodedVersions()
    kept.keep((1, 1), version())
    kept.keep((1, 1), version(acl=("*",)))
    assert kept.get((1, 1)) == version(acl=("*",))


def test_the_versions_asked_for_longest_ago_leave_when_there_is_no_room() -> None:
    kept, half = DecodedVersions(), "x" * (DECODED_CHARACTERS_MAX // 2)
    for _ in range(3):
        kept.keep((1, 1), version(half))
    kept.keep((2, 1), version(half))
    assert kept.get((1, 1)) is not None
    kept.keep((3, 1), version(half))
    assert [key for key in (1, 2, 3) if kept.get((key, 1))] == [1, 3]
