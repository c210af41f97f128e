"""Every field of a sealed page counts, and where it was written: prefix, instance and server."""

import json
from typing import Any

import pytest

from zbackup.destinations.s3.encryption import KeyFiles, Scope, data_key, new_data_key
from zbackup.destinations.s3.fetching import check_page
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import (
    Manifest,
    PartPage,
    Segment,
    StreamHeader,
    StreamIndex,
    header_from,
    index_from,
    manifest_from,
    to_json,
)
from zbackup.destinations.s3.signatures import Signatures
from zbackup.model.errors import Refused, VerificationFailed

KEYS = KeyFiles(lambda: (bytes(32),))
STREAM = StreamId(dataset="tank", guid=2, base=1)
HERE = Signatures(keys=KEYS, root="a/shop")

PLAIN = StreamHeader(
    dataset="tank",
    snapshot="s",
    guid=2,
    base=1,
    raw=False,
    segment_size=1 << 20,
    compression="zstd",
    encryption=None,
    host="db1",
)
MANIFEST = Manifest(
    committed="2026-11-01T12:00:00+00:00",
    host="db1",
    record={"backup": "one", "server_uuid": "u1", "as_of": "2026"},
    parts=(
        PartPage(
            dataset="tank",
            snapshot="s",
            guid=2,
            base=1,
            size=5,
            stored=4,
            raw=False,
            stream_sha256=bytes(32),
        ),
    ),
)


def other(value: Any) -> Any:
    """Something else of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case None:
            return 7
        case bytes():
            return b"x" * 32
        case _:
            return f"{value}x"


def test_every_field_of_a_header_is_sealed() -> None:
    keys, header = HERE.new_stream(KEYS, STREAM, PLAIN, "u1")
    assert header.version == 2 and header_from(to_json(header), "it") == header
    assert HERE.open_stream(STREAM, header, "it") == keys.signing == keys.contents
    names = [
        name
        for name in StreamHeader.model_fields
        if name not in ("version", "encryption", "compression", "contents")
    ]
    assert {"segment_size", "raw", "root", "server", "host", "snapshot", "signature"} <= set(names)
    for name in names:
        forged = header.model_copy(update={name: other(getattr(header, name))})
        with pytest.raises(VerificationFailed):
            HERE.open_stream(STREAM, forged, "it")
    with pytest.raises(VerificationFailed):
        HERE.open_stream(STREAM, header.model_copy(update={"compression": "none"}), "it")
    # As if it were of an earlier version, which had no seal.
    bare = header.model_copy(update={"version": 1, "root": "", "server": "", "signature": ""})
    with pytest.raises(VerificationFailed):
        HERE.open_stream(STREAM, bare, "it")


def test_pages_name_the_dataset_and_the_signature_as_they_always_did() -> None:
    """As `line` and `seal`: what earlier versions wrote is read, and they read what this one writes."""
    _, header = HERE.new_stream(KEYS, STREAM, PLAIN, "u1")
    page, manifest = json.loads(to_json(header)), json.loads(to_json(HERE.sign(MANIFEST)))
    assert page["line"] == manifest["parts"][0]["line"] == "tank"
    assert page["seal"] == header.signature and len(manifest["seal"]) == 64
    assert not {"dataset", "signature"} & {*page, *manifest, *manifest["parts"][0]}


def test_a_manifest_that_is_signed_is_signed_anew_as_any_other() -> None:
    """As who takes back a commit, and may not delete, signs what he has signed before."""
    withdrawn = HERE.sign(HERE.sign(MANIFEST).model_copy(update={"withdrawn": True}))
    HERE.prove(withdrawn, "it")
    assert manifest_from(to_json(withdrawn), "it") == withdrawn


def test_every_field_of_a_manifest_is_sealed() -> None:
    manifest = HERE.sign(MANIFEST)
    assert manifest.version == 3 and manifest_from(to_json(manifest), "it") == manifest
    HERE.prove(manifest, "it")
    forged = [
        manifest.model_copy(update={name: other(getattr(manifest, name))})
        for name in ("committed", "host", "signature", "root", "withdrawn")
    ]
    forged += [
        manifest.model_copy(update={"record": {**manifest.record, name: "x"}}) for name in manifest.record
    ]
    forged += [manifest.model_copy(update={"record": {**manifest.record, "more": ""}})]
    (part,) = manifest.parts
    forged += [
        manifest.model_copy(update={"parts": (part.model_copy(update={name: other(getattr(part, name))}),)})
        for name in PartPage.model_fields
    ]
    forged += [manifest.model_copy(update={"parts": parts}) for parts in ((), (part, part))]
    forged += [manifest.model_copy(update={"version": 2, "root": ""})]
    for page in forged:
        with pytest.raises(VerificationFailed):
            HERE.prove(page, "it")


@pytest.mark.parametrize("root", ["shop", "a/shop2", "b/shop", "a/x/shop", ""])
def test_what_was_written_elsewhere_with_the_same_key_does_not_count(root: str) -> None:
    there = Signatures(keys=KEYS, root=root)
    _, header = HERE.new_stream(KEYS, STREAM, PLAIN, "u1")
    manifest = HERE.sign(MANIFEST)
    with pytest.raises(VerificationFailed, match="was written below a/shop, and copied here"):
        there.open_stream(STREAM, header, "it")
    with pytest.raises(VerificationFailed, match="was written below a/shop, and copied here"):
        there.prove(manifest, "it")
    # Nor when it says that it is from here.
    with pytest.raises(VerificationFailed):
        there.open_stream(STREAM, header.model_copy(update={"root": root}), "it")
    with pytest.raises(VerificationFailed):
        there.prove(manifest.model_copy(update={"root": root}), "it")


def test_a_manifest_of_earlier_times_counts_unless_that_is_refused() -> None:
    """Version 2 names no place: its key opens below any root, and for any server."""
    key, envelope = new_data_key(KEYS, Scope(about="the manifest of one"))
    page = MANIFEST.model_copy(update={"version": 2, "encryption": envelope})
    page = page.model_copy(update={"signature": key.mac(page.to_sign())})
    HERE.prove(page, "it")
    strict = Signatures(keys=KEYS, root="a/shop", bound_only=True)
    with pytest.raises(VerificationFailed, match="accept_unbound = false refuses such"):
        strict.prove(page, "it")
    strict.prove(HERE.sign(MANIFEST), "it")
    strict.prove(MANIFEST, "it")
    with pytest.raises(VerificationFailed, match="was changed"):
        HERE.prove(page.model_copy(update={"host": "another"}), "it")


def test_a_manifests_key_opens_for_its_place_and_server_alone() -> None:
    envelope = HERE.sign(MANIFEST).encryption
    about = "the manifest of one"
    assert data_key(KEYS, envelope, Scope(about=about, root="a/shop", server="u1"))
    for other in (
        Scope(about=about, root="a/shop", server=""),
        Scope(about=about, root="b/shop", server="u1"),
        Scope(about="the manifest of two", root="a/shop", server="u1"),
        Scope(about=about),
    ):
        with pytest.raises(VerificationFailed):
            data_key(KEYS, envelope, other)


def test_who_has_no_key_sees_where_a_page_was_written_and_asks_for_the_key() -> None:
    nobody = Signatures(keys=None, root="b/shop")
    with pytest.raises(VerificationFailed, match="copied here"):
        nobody.prove(HERE.sign(MANIFEST), "it")
    with pytest.raises(Refused, match="needs the key"):
        Signatures(keys=None, root="a/shop").prove(HERE.sign(MANIFEST), "it")


@pytest.mark.parametrize("seal", ["\u00e9", "\ud800", "f" * 63 + "\u00fc", "F" * 64, "0" * 65, "\n"])
def test_a_seal_of_any_characters_is_of_one_page_that_does_not_count(seal: str) -> None:
    """Who may write to the bucket without the key must not end what reads all of it."""
    keys, header = HERE.new_stream(KEYS, STREAM, PLAIN, "u1")
    forged = header.model_copy(update={"signature": seal})
    with pytest.raises(VerificationFailed):
        HERE.open_stream(STREAM, forged, "it")
    with pytest.raises(VerificationFailed, match="it cannot be understood"):
        header_from(to_json(forged), "it")
    manifest = HERE.sign(MANIFEST).model_copy(update={"signature": seal})
    with pytest.raises(VerificationFailed):
        HERE.prove(manifest, "it")
    with pytest.raises(VerificationFailed, match="it cannot be understood"):
        manifest_from(to_json(manifest), "it")
    whole = StreamIndex(header=header, size=1, segments=(Segment(size=1, plain=1, sha256=bytes(32)),))
    whole = whole.model_copy(update={"signature": seal})
    with pytest.raises(VerificationFailed):
        check_page(whole, keys.signing, "it")
    with pytest.raises(VerificationFailed, match="it cannot be understood"):
        index_from(to_json(whole), "it")
