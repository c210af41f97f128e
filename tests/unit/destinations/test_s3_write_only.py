"""Contents sealed for a public key: who ships does all of his work, and cannot read what he shipped."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from structlog.testing import capture_logs

from tests.destinations.archives import chunk_of, named
from tests.unit.destinations.bucket import (
    DATASET,
    LAYOUT,
    OTHER_SECRET,
    PRIVATE,
    PUBLIC,
    ROOT,
    SECRET,
    WHEN,
    MemoryBucket,
    Shop,
    part,
    record,
    stream_id,
)
from zbackup.destinations.s3.encryption import KeyFiles, Scope
from zbackup.destinations.s3.manifest_schema import SealedKey, header_from, index_from, manifest_from, to_json
from zbackup.destinations.s3.sealed_keys import PrivateKeys, PublicKey, public_of
from zbackup.destinations.s3.session import S3Session
from zbackup.destinations.s3.signatures import Signatures
from zbackup.jobs.ship.archived import require_readable_log
from zbackup.model.backup import Backup
from zbackup.model.errors import (
    ConfigError,
    NotFound,
    PrivateKeyElsewhere,
    Refused,
    Taken,
    VerificationFailed,
)
from zbackup.plan.recovery.archived import Carrier, Chain
from zbackup.proc.pipeline import Meter

ELEVEN, TWELVE = stream_id(part(11)), stream_id(part(12, 11))
HEADER, INDEX, SEGMENTS = LAYOUT.header(ELEVEN), LAYOUT.index(ELEVEN), LAYOUT.segments(ELEVEN)
OTHER_PRIVATE = bytes([0x24]) * 32
OTHER_PUBLIC = public_of(OTHER_PRIVATE)
SCOPE = Scope(about="tank/@11-full", root=ROOT, server="u1")
FILE = named()
LOG = b"insert into secret " * 50


def reader(shop: Shop, **changes: Any) -> Shop:
    """Another host, which has the private key."""
    return replace(shop, home=shop.home / "elsewhere", private=(PRIVATE,), **changes)


def inventory(shop: Shop, **changes: Any) -> Any:
    (target,) = shop.session(**changes).inventory().datasets
    return target


# how a key is sealed


def test_a_sealed_key_opens_for_its_private_key_and_its_scope_alone() -> None:
    key, sealed = PublicKey(PUBLIC).new_key(SCOPE)
    private = PrivateKeys(lambda: (OTHER_PRIVATE, PRIVATE))
    assert private.unseal(sealed, SCOPE) == key and len(key.key) == 32
    assert PublicKey(PUBLIC).new_key(SCOPE)[0].key != key.key
    with pytest.raises(PrivateKeyElsewhere, match=f"public key {sealed.public_key}"):
        PrivateKeys(lambda: (OTHER_PRIVATE,)).unseal(sealed, SCOPE)
    for other in (replace(SCOPE, root="b/shop"), replace(SCOPE, server="u2"), replace(SCOPE, about="x")):
        with pytest.raises(VerificationFailed):
            private.unseal(sealed, other)
    body = base64.b64decode(sealed.sealed)
    for at in (0, 31, 32, 64, len(body) - 1):
        changed = bytearray(body)
        changed[at] ^= 1
        damaged = sealed.model_copy(update={"sealed": base64.b64encode(changed).decode()})
        with pytest.raises(VerificationFailed):
            private.unseal(damaged, SCOPE)
    for text in ("", "!", base64.b64encode(bytes(32)).decode(), base64.b64encode(bytes(80)).decode()):
        with pytest.raises(VerificationFailed):
            private.unseal(sealed.model_copy(update={"sealed": text}), SCOPE)


def test_what_was_sealed_once_opens_forever() -> None:
    """The vector of docs/reference/s3-layout.md."""
    text = Path("docs/reference/s3-layout.md").read_text()
    vector = json.loads(text.partition("<!-- vector -->\n```json\n")[2].partition("```")[0])
    private = PrivateKeys(lambda: (bytes.fromhex(vector["private_key"]),))
    sealed = SealedKey(public_key=vector["public_key_id"], sealed=vector["sealed"])
    scope = Scope(about=vector["stream"], root=vector["root"], server=vector["server"])
    assert scope.context == vector["info"].encode()
    assert private.unseal(sealed, scope).key.hex() == vector["key"]


# what a host does that cannot read


def test_a_host_without_the_private_key_ships_and_looks_and_prunes(write_only: Shop) -> None:
    contents = write_only.chain((11, None), (12, 11), (13, 12))
    assert set(write_only.named()) == {"backup-1", "backup-2", "backup-3"}
    assert write_only.problems() == {f"backup-{n}": () for n in (1, 2, 3)}
    assert inventory(write_only).bases == (13,)
    header = header_from(write_only.bucket.body(HEADER), "it")
    assert header.version == 3 and header.contents and header.contents.public_key == PublicKey(PUBLIC).id
    manifest = manifest_from(write_only.bucket.body(LAYOUT.manifest("backup-1")), "it")
    assert manifest.version == 4 and manifest.parts[0].public_key == PublicKey(PUBLIC).id
    assert not (write_only.home / "run").exists() or not list((write_only.home / "run").rglob("*.*"))
    for number in (3, 2):
        session = write_only.session()
        named = {b.record.backup: b for b in session.copies().backups}
        session.remove(named[f"backup-{number}"], WHEN)
    write_only.bucket.later(days=3)
    assert write_only.session().collect_garbage() == ()
    assert set(write_only.named()) == {"backup-1"} and write_only.problems() == {"backup-1": ()}
    assert reader(write_only).fetched(part(11)) == contents[11]


def test_who_has_the_private_key_reads_it_and_nobody_else(write_only: Shop) -> None:
    content = write_only.ship(part(11), 1)
    assert reader(write_only).fetched(part(11)) == content
    assert reader(write_only).problems(deep=True) == {"backup-1": ()}
    for private in ((), (OTHER_PRIVATE,)):
        with pytest.raises(PrivateKeyElsewhere, match="--private-key FILE"):
            write_only.fetched(part(11), private=private)
        with pytest.raises(PrivateKeyElsewhere):
            write_only.problems(deep=True, private=private)
        session = write_only.session(private=private)
        wanted = session.copies().backups[0].snapshots
        with pytest.raises(PrivateKeyElsewhere):
            session.stream_steps(wanted)
    assert not [verb for verb, key in write_only.bucket.asked[-1:] if verb == "get" and SEGMENTS in key]
    # Without the key that signs, nothing is believed, private key or not.
    with pytest.raises(Refused, match="needs the key"):
        reader(write_only).fetched(part(11), keys=())
    with pytest.raises(Refused, match="needs the key"):
        reader(write_only).fetched(part(11), keys=(OTHER_SECRET,))


def test_before_anything_is_fetched_a_stream_of_a_pruned_backup_is_looked_at_too(write_only: Shop) -> None:
    contents = write_only.chain((11, None), (12, 11))
    write_only.bucket.drop(LAYOUT.manifest("backup-1"))
    session = write_only.session()
    with pytest.raises(PrivateKeyElsewhere):
        session.stream_steps(session.copies().backups[0].snapshots)
    there = reader(write_only)
    session = there.session()
    assert len(session.stream_steps(session.copies().backups[0].snapshots)) == 2
    assert there.fetched(part(12, 11)) == contents[12]


def opened(keys: list[bytes], body: bytes) -> bool:
    """Tell whether one of the keys opens a segment, as any that it could be."""
    for key in keys:
        for number in range(3):
            for last in (0, 1):
                place = f"zbackup segment 1\n{ELEVEN}\n{number}\n{last}".encode()
                try:
                    AESGCM(key).decrypt(body[:12], body[12:], place)
                except InvalidTag:
                    continue
                return True
    return False


def test_no_key_that_the_host_can_come_to_opens_a_segment(write_only: Shop) -> None:
    """All that `key` unwraps, in pages as in the log's objects; and the same reads what is not sealed."""
    for shop, readable in ((write_only, False), (Shop(write_only.home / "old", keys=(SECRET,)), True)):
        shop.home.mkdir(exist_ok=True)
        shop.ship(part(11), 1)
        shop.session().append_log(FILE, chunk_of(LOG, 0, 100), LOG[:100])
        keys, known = [SECRET], KeyFiles(lambda: (SECRET,))
        for found in shop.bucket.having():
            line = shop.bucket.body(found).partition(b"\n")[0]
            page = json.loads(line) if line.startswith(b"{") else {}
            page = page.get("begun", page)
            if envelope := page.get("encryption"):
                for about in (str(ELEVEN), "the manifest of backup-1", f"the log of {FILE.server}"):
                    for server in (
                        page.get("server", ""),
                        page.get("record", {}).get("server_uuid", ""),
                        FILE.server,
                    ):
                        scope = Scope(about=about, root=ROOT, server=server)
                        try:
                            keys.append(known.unwrap(envelope["key_id"], envelope["wrapped"], scope))
                        except VerificationFailed:
                            continue
        assert len(keys) >= 4, "of the stream, the manifest and the log"
        bodies = [shop.bucket.body(each) for each in shop.bucket.having(SEGMENTS)]
        assert len(bodies) == 3 and all(opened(keys, body) == readable for body in bodies)


# who goes on after a cut


def cut(shop: Shop, puts: int = 3, **changes: Any) -> None:
    """A run that ends before so many objects are there."""
    left = [puts]

    def full() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise ConnectionError("cut")
        shop.bucket.hook("put", "", full)

    shop.bucket.hook("put", "", full)
    with pytest.raises(ConnectionError):
        shop.store(part(11), **changes)
    shop.bucket.hooks.clear()


def keys_kept(shop: Shop) -> list[Path]:
    return [path for path in (shop.home / "run").rglob("*") if path.is_file()]


def test_who_is_cut_off_goes_on_with_the_same_key_and_then_forgets_it(write_only: Shop) -> None:
    cut(write_only, 2)
    (kept,) = keys_kept(write_only)
    assert kept.stat().st_mode & 0o777 == 0o600 and kept.parent.stat().st_mode & 0o777 == 0o700
    there = dict(write_only.bucket.objects)
    content = write_only.store(part(11))
    assert not keys_kept(write_only)
    assert len(write_only.bucket.having(SEGMENTS)) == 3
    same = [key for key in there if SEGMENTS in key and write_only.bucket.objects[key] == there[key]]
    assert len(same) == 2, "nothing is stored twice"
    write_only.session().commit(record(1), [part(11)], WHEN)
    assert reader(write_only).fetched(part(11)) == content


def forget(shop: Shop) -> None:
    for path in keys_kept(shop):
        path.unlink()


def damage(shop: Shop) -> None:
    for path in keys_kept(shop):
        path.write_text("nothing\n")


def of_another(shop: Shop) -> None:
    """The key of another run: a stream that began otherwise."""
    for path in keys_kept(shop):
        path.write_text("0" * 64 + "\n" + path.read_text().split("\n")[1] + "\n")


@pytest.mark.parametrize("lost", [forget, damage, of_another])
def test_where_the_key_is_not_kept_the_stream_is_begun_again(
    write_only: Shop, lost: Callable[[Shop], None]
) -> None:
    cut(write_only, 2)
    lost(write_only)
    before = write_only.bucket.body(HEADER)
    content = write_only.ship(part(11), 1)
    assert write_only.bucket.body(HEADER) != before
    assert len(write_only.bucket.having(SEGMENTS)) == 3, "what has the lost key is taken away"
    assert reader(write_only).fetched(part(11)) == content
    assert write_only.problems() == {"backup-1": ()} == reader(write_only).problems(deep=True)


def test_what_lost_its_page_is_sent_again_with_another_key_and_comes_back(write_only: Shop) -> None:
    """By ship, which sends all that is based on it once more, and commits the backups once more."""
    contents = write_only.chain((11, None), (12, 11))
    later = LAYOUT.header(TWELVE), LAYOUT.index(TWELVE), LAYOUT.segments(TWELVE)
    kept = {key: body for key, body in write_only.bucket.objects.items() if key.startswith(later)}
    write_only.bucket.drop(INDEX)
    write_only.ship(part(11), 1)
    write_only.ship(part(12, 11), 2)
    assert write_only.problems() == {"backup-1": (), "backup-2": ()}
    there = reader(write_only).session()
    for backup in there.copies().backups:
        for step in there.stream_steps(backup.snapshots):
            there.pages.committed(stream_id(part(step.copy.guid, step.base and step.base.guid)))
    assert reader(write_only).fetched(part(11)) == contents[11]
    now = {key: body for key, body in write_only.bucket.objects.items() if key.startswith(later)}
    assert now == kept, "what is whole is not stored again"


def test_who_may_not_delete_leaves_what_has_a_lost_key(write_only: Shop) -> None:
    cut(write_only, 2)
    forget(write_only)
    write_only.bucket.refused = {"delete"}
    content = write_only.ship(part(11), 1)
    assert len(write_only.bucket.having(SEGMENTS)) == 5
    assert reader(write_only).fetched(part(11)) == content


def test_a_key_that_is_left_over_is_forgotten_by_the_next_look(write_only: Shop) -> None:
    """Killed between the page and the key: it would open what is whole in the bucket."""
    cut(write_only, 2)
    (kept,) = keys_kept(write_only)
    text = kept.read_text()
    write_only.session().inventory()
    assert keys_kept(write_only) == [kept], "of a stream that is on its way it stays"
    write_only.store(part(11))
    kept.write_text(text)
    kept.chmod(0o600)
    write_only.session().inventory()
    assert not keys_kept(write_only)


def test_no_page_that_cannot_be_read_keeps_a_key_that_is_left_over(write_only: Shop) -> None:
    """Whoever may write to the bucket must not keep it there."""
    cut(write_only, 2)
    write_only.bucket.set(LAYOUT.manifest("backup-9"), b"{")
    write_only.bucket.drop(HEADER)
    with pytest.raises(VerificationFailed):
        write_only.session().inventory()
    assert not keys_kept(write_only)


def test_the_key_of_a_stream_that_is_given_up_is_forgotten_where_nothing_may_be_deleted(
    write_only: Shop,
) -> None:
    cut(write_only, 2)
    write_only.bucket.refused = {"delete"}
    write_only.session().abort(DATASET)
    assert write_only.bucket.having(HEADER) and not keys_kept(write_only)


def test_two_hosts_do_not_store_one_stream_at_once(write_only: Shop) -> None:
    other = replace(write_only, home=write_only.home / "other")
    other.home.mkdir()

    def another_begins() -> None:
        cut(other, 0)

    write_only.bucket.hook("put_new", "begun.json", another_begins)
    with pytest.raises(Taken, match="another zbackup has just begun"):
        write_only.store(part(11))


def test_who_owns_the_host_can_forge_what_is_new_and_reads_nothing_that_is_old(write_only: Shop) -> None:
    """The key that signs is there: SECURITY.md says so."""
    real = write_only.ship(part(11), 1)
    forged = replace(write_only, home=write_only.home / "attacker")
    forged.home.mkdir()
    false = forged.ship(part(12), 2)
    assert set(write_only.named()) == {"backup-1", "backup-2"}
    with pytest.raises(PrivateKeyElsewhere):
        forged.fetched(part(11))
    assert (reader(write_only).fetched(part(11)), reader(write_only).fetched(part(12))) == (real, false)


# who may write to the bucket, and has no key


def forged_header(shop: Shop) -> bytes:
    """The header with contents sealed for the attacker, and all else as it was."""
    header = header_from(shop.bucket.body(HEADER), "it")
    scope = Scope(about=str(ELEVEN), root=ROOT, server=header.server)
    _, sealed = PublicKey(OTHER_PUBLIC).new_key(scope)
    return to_json(header.model_copy(update={"contents": sealed}))


def as_symmetric(shop: Shop) -> bytes:
    """The header as if contents were encrypted by the wrapped key: a downgrade."""
    header = header_from(shop.bucket.body(HEADER), "it")
    return to_json(header.model_copy(update={"version": 2, "contents": None}))


@pytest.mark.parametrize("forge", [forged_header, as_symmetric])
def test_nobody_makes_the_host_seal_for_another_key(write_only: Shop, forge: Callable[[Shop], bytes]) -> None:
    cut(write_only, 1)
    write_only.bucket.set(HEADER, forge(write_only))
    content = write_only.ship(part(11), 1)
    header = header_from(write_only.bucket.body(HEADER), "it")
    assert header.contents and header.contents.public_key == PublicKey(PUBLIC).id
    assert reader(write_only).fetched(part(11)) == content
    with pytest.raises(PrivateKeyElsewhere):
        write_only.fetched(part(11), private=(OTHER_PRIVATE,))
    # The same of what is whole: it does not count.
    index = json.loads(write_only.bucket.body(INDEX))
    index["begun"] = json.loads(forge(write_only))
    write_only.bucket.set(INDEX, json.dumps(index).encode())
    assert "changed since it was written" in write_only.problems()["backup-1"][0]
    with pytest.raises(VerificationFailed):
        reader(write_only).fetched(part(11))


def test_a_stream_that_was_begun_for_another_key_or_none_is_begun_again(write_only: Shop) -> None:
    """By this host, as it was configured before: real, and not what is wanted now."""
    for before, after in (
        ({"public": None}, {}),
        ({"public": OTHER_PUBLIC}, {}),
        ({}, {"public": None}),
    ):
        shop = replace(write_only, bucket=MemoryBucket())
        cut(shop, 1, **before)
        content = shop.ship(part(11), 1, **after)
        header = header_from(shop.bucket.body(HEADER), "it")
        wanted = after.get("public", PUBLIC)
        assert (header.contents.public_key if header.contents else None) == (
            PublicKey(wanted).id if wanted else None
        )
        assert reader(shop).fetched(part(11)) == content


def test_every_field_of_what_is_sealed_is_signed() -> None:
    signing = Signatures(keys=KeyFiles(lambda: (SECRET,)), root=ROOT)
    plain = header_from(
        b'{"version":1,"line":"tank","snapshot":"s","guid":"11","base":null,"raw":false,"segment_size":1048576,'
        b'"compression":"zstd","encryption":null,"host":"db1"}',
        "it",
    )
    stream = replace(ELEVEN, dataset="tank")
    keys, header = signing.new_stream(signing.keys, stream, plain, "u1", PublicKey(PUBLIC))  # type: ignore[arg-type]
    assert header.contents and header_from(to_json(header), "it") == header
    assert signing.open_stream(stream, header, "it") == keys.signing != keys.contents
    for changes in ({"public_key": "0" * 16}, {"sealed": "AAAA"}):
        forged = header.model_copy(update={"contents": header.contents.model_copy(update=changes)})
        with pytest.raises(VerificationFailed):
            signing.open_stream(stream, forged, "it")
    for changes in ({"version": 2}, {"contents": None}, {"version": 1}, {"version": 4}):
        with pytest.raises(VerificationFailed):
            header_from(json.dumps(json.loads(to_json(header)) | changes).encode(), "it")


# from one kind to the other


def test_a_bucket_is_moved_over_by_a_new_chain_and_what_is_old_stays_readable(tmp_path: Path) -> None:
    old = Shop(tmp_path, keys=(SECRET,))
    contents = old.chain((11, None), (12, 11))
    new = replace(old, public=PUBLIC)
    assert inventory(old).bases == (12,) and inventory(new).bases == (), "a chain is for one reader"
    contents[13] = new.ship(part(13), 3)
    assert inventory(new).bases == (13,) and inventory(old).bases == ()
    contents[14] = new.ship(part(14, 13), 4)
    assert inventory(new, public=OTHER_PUBLIC).bases == ()
    assert set(new.named()) == {f"backup-{n}" for n in (1, 2, 3, 4)}
    assert new.problems() == {f"backup-{n}": () for n in (1, 2, 3, 4)}
    for guid, base in ((11, None), (12, 11)):
        assert new.fetched(part(guid, base)) == contents[guid]
    for guid, base in ((13, None), (14, 13)):
        with pytest.raises(PrivateKeyElsewhere):
            new.fetched(part(guid, base))
        assert reader(new).fetched(part(guid, base)) == contents[guid]
    assert reader(new).problems(deep=True) == {f"backup-{n}": () for n in (1, 2, 3, 4)}
    assert new.session().contents().sealed_for == (PublicKey(PUBLIC).id,)


def test_pages_of_a_bucket_without_a_public_key_are_what_they_were(encrypted: Shop) -> None:
    encrypted.ship(part(11), 1)
    manifest = json.loads(encrypted.bucket.body(LAYOUT.manifest("backup-1")))
    header = json.loads(encrypted.bucket.body(HEADER))
    assert manifest["version"] == 3 and "public_key" not in manifest["parts"][0]
    assert header["version"] == 2 and "contents" not in header
    assert index_from(encrypted.bucket.body(INDEX), "it").header.contents is None


# archived log


def append(session: S3Session, begin: int, end: int, **more: Any) -> None:
    session.append_log(FILE, replace(chunk_of(LOG, begin, end), **more), LOG[begin:end])


def log_keys(shop: Shop) -> list[str]:
    return [key for key in shop.bucket.having(f"{ROOT}/log/") if not key.endswith(".writer")]


def read(shop: Shop) -> bytes:
    return b"".join(shop.session().read_log(FILE, 0, 700, Meter()))


def test_log_is_archived_and_gone_on_with_by_who_cannot_read_it(write_only: Shop) -> None:
    append(write_only.session(), 0, 100)
    session = write_only.session()
    archived = session.archived().files[0]
    append(session, 100, 300)
    append(write_only.session(), 300, 700)
    heads = [json.loads(write_only.bucket.body(key).partition(b"\n")[0]) for key in log_keys(write_only)]
    assert {head["version"] for head in heads} == {2}
    assert len({head["contents"]["sealed"] for head in heads}) == 3, "each has a key of its own"
    with pytest.raises(PrivateKeyElsewhere):
        read(write_only)
    with pytest.raises(PrivateKeyElsewhere):
        write_only.session().require_log_key(write_only.session().archived().files[0])
    assert archived.size == 100 and read(reader(write_only)) == LOG[:700]
    reader(write_only).session().require_log_key(write_only.session().archived().files[0])


def test_log_of_two_public_keys_asks_for_both_private_ones_before_anything_is_fetched(
    write_only: Shop,
) -> None:
    """The public key was changed: the end of the log alone says nothing of what is before it."""
    for number, public in ((1, OTHER_PUBLIC), (2, PUBLIC)):
        session = write_only.session(public=public)
        session.append_log(
            replace(FILE, name=f"binlog.00000{number}", number=number), chunk_of(LOG, 0, 100), LOG[:100]
        )
    files = write_only.session().archived().files
    carrier = Carrier(
        backup=Backup(record=record(1), snapshots=()), chains=(Chain(files=files, complete_to=None),)
    )
    for private, id_lacking in (((PRIVATE,), OTHER_PUBLIC), ((OTHER_PRIVATE,), PUBLIC), ((), OTHER_PUBLIC)):
        with pytest.raises(PrivateKeyElsewhere, match=PublicKey(id_lacking).id):
            require_readable_log(write_only.session(private=private), carrier)
    require_readable_log(write_only.session(private=(PRIVATE, OTHER_PRIVATE)), carrier)


def test_an_append_that_is_there_already_is_success_without_reading_it(write_only: Shop) -> None:
    """A run that was cut after it took effect: another one has another key, and the same name."""
    append(write_only.session(), 0, 100)
    (key,) = log_keys(write_only)
    body = write_only.bucket.body(key)
    session = write_only.session()
    session.logs._known[FILE.key] = []
    append(session, 0, 100)
    assert write_only.bucket.body(key) == body
    # Whoever has no key put something there beforehand.
    for forged in (
        body[:-1] + bytes([body[-1] ^ 1]),
        body.replace(b'"zstd"', b'"none"').replace(b'"compression":"none"', b'"compression":"zstd"')[:-1],
        b'{"compression":"none","encryption":null,"version":1}\n' + LOG[:100],
        resealed(body),
    ):
        write_only.bucket.set(key, forged)
        session = write_only.session()
        session.logs._known[FILE.key] = []
        with pytest.raises(VerificationFailed):
            append(session, 0, 100)
        with pytest.raises(VerificationFailed):
            b"".join(reader(write_only).session().read_log(FILE, 0, 100, Meter()))


def resealed(body: bytes) -> bytes:
    """The attacker's own bytes, sealed for the public key, which anybody can do."""
    line, _, content = body.partition(b"\n")
    head = json.loads(line)
    scope = Scope(about=f"the log of {FILE.server}", root=ROOT, server=FILE.server)
    _, sealed = PublicKey(PUBLIC).new_key(scope)
    head["contents"] = {"public_key": sealed.public_key, "sealed": sealed.sealed}
    head["sha256"] = hashlib.sha256(content).hexdigest()
    return json.dumps(head, separators=(",", ":"), sort_keys=True).encode() + b"\n" + content


def test_junk_at_the_end_of_a_file_keeps_nobody_from_what_is_real(write_only: Shop) -> None:
    """Who may add objects must not end a restore before it is begun."""
    append(write_only.session(), 0, 100)
    junk = chunk_of(LOG, 100, 200)
    write_only.bucket.set(log_keys(write_only)[0].rpartition("/")[0] + f"/{junk}", b"junk")
    there = reader(write_only).session()
    (archived,) = there.archived().files
    assert archived.last == junk
    there.require_log_key(archived)
    assert b"".join(there.read_log(FILE, 0, 100, Meter())) == LOG[:100]


def test_a_sealed_object_counts_under_its_own_name_alone(write_only: Shop) -> None:
    append(write_only.session(), 0, 100)
    append(write_only.session(), 100, 200)
    first, second = log_keys(write_only)
    write_only.bucket.set(second, write_only.bucket.body(first))
    with pytest.raises(VerificationFailed, match="was changed since it was written, or is another's"):
        b"".join(reader(write_only).session().read_log(FILE, 0, 200, Meter()))


def test_who_cannot_read_folds_nothing_and_loses_nothing(write_only: Shop) -> None:
    session = write_only.session()
    for at in range(0, 700, 100):
        append(session, at, at + 100)
    append(session, 700, 700, closed=True)
    assert len(log_keys(write_only)) == 8 and read(reader(write_only)) == LOG[:700]


def test_a_private_key_that_is_missing_keeps_nobody_from_archiving(write_only: Shop) -> None:
    """It is on a disk that is not there; only folding needs it."""

    def missing() -> tuple[bytes, ...]:
        raise ConfigError(["/media/safe/shop.private: cannot read the secret"])

    session = write_only.session()
    logs = replace(session.logs, storing=replace(session.storing, private=PrivateKeys(missing)))
    with capture_logs() as said:
        logs.append(FILE, chunk_of(LOG, 0, 100), LOG[:100])
    assert [each["event"] for each in said] == ["archive.not_folded"]
    assert session.archived().files[0].size == 100


def test_archived_log_of_both_kinds_is_one_file(tmp_path: Path) -> None:
    old = Shop(tmp_path, keys=(SECRET,))
    append(old.session(), 0, 300)
    new = replace(old, public=PUBLIC)
    append(new.session(), 300, 700)
    assert read(reader(new)) == LOG[:700]
    assert b"".join(new.session().read_log(FILE, 0, 300, Meter())) == LOG[:300]
    with pytest.raises(PrivateKeyElsewhere):
        read(new)
    assert new.session().archived().files[0].size == 700


# trying a private key


def test_a_private_key_is_tried_with_the_newest_backup_and_the_newest_log(write_only: Shop) -> None:
    write_only.chain((11, None), (12, 11), (13, 12))
    append(write_only.session(), 0, 100)
    append(write_only.session(), 100, 150)
    append(write_only.session(), 150, 150)
    there = reader(write_only)
    write_only.bucket.asked.clear()
    tried = there.session().try_private_key(Meter())
    assert (tried.name, tried.streams, tried.read, tried.log) == ("zbackup-13", 3, 2000, 50)
    fetched_from = {key for verb, key in there.bucket.asked if verb == "get" and "/segments/" in key}
    assert len(fetched_from) == 2, "of the first stream and the last the first segment"
    for private in ((), (OTHER_PRIVATE,)):
        with pytest.raises(PrivateKeyElsewhere):
            write_only.session(private=private).try_private_key(Meter())


@pytest.mark.parametrize("what", ["segment", "sealed", "log"])
def test_what_does_not_open_is_no_success(write_only: Shop, what: str) -> None:
    write_only.ship(part(11), 1)
    append(write_only.session(), 0, 100)
    (log_key,) = log_keys(write_only)
    first = next(key for key in write_only.bucket.having(SEGMENTS) if "/00000000." in key)
    key = {"segment": first, "sealed": HEADER, "log": log_key}[what]
    body = bytearray(write_only.bucket.body(key))
    if what == "sealed":
        header = json.loads(body)
        header["contents"]["sealed"] = base64.b64encode(bytes(80)).decode()
        body = bytearray(json.dumps(header).encode())
        index = json.loads(write_only.bucket.body(INDEX))
        write_only.bucket.set(INDEX, json.dumps(index | {"begun": header}).encode())
    else:
        body[len(body) - 20] ^= 1
    write_only.bucket.set(key, bytes(body))
    with pytest.raises(VerificationFailed):
        reader(write_only).session().try_private_key(Meter())


def test_where_nothing_is_sealed_or_nothing_is_there_nothing_was_tried(tmp_path: Path) -> None:
    shop = Shop(tmp_path, keys=(SECRET,), private=(PRIVATE,))
    with pytest.raises(NotFound, match="no committed backup"):
        shop.session().try_private_key(Meter())
    shop.ship(part(11), 1)
    with pytest.raises(VerificationFailed, match="private key was not tested"):
        shop.session().try_private_key(Meter())


def test_log_that_is_not_sealed_was_not_opened_by_the_private_key(tmp_path: Path) -> None:
    """Archived before public_key was set, and not since."""
    old = Shop(tmp_path, keys=(SECRET,), private=(PRIVATE,))
    append(old.session(), 0, 100)
    new = replace(old, public=PUBLIC)
    new.ship(part(11), 1)
    assert new.session().try_private_key(Meter()).log == 0
    append(new.session(), 100, 150)
    assert new.session().try_private_key(Meter()).log == 50


def test_while_nobody_knows_which_backup_is_the_newest_nothing_is_tried(write_only: Shop) -> None:
    write_only.chain((11, None), (12, 11))
    write_only.bucket.set(LAYOUT.manifest("backup-2"), b"{")
    with pytest.raises(VerificationFailed, match="backup-2"):
        reader(write_only).session().try_private_key(Meter())


def test_who_can_read_is_told(tmp_path: Path) -> None:
    shop = Shop(tmp_path, keys=(SECRET,))
    shop.ship(part(11), 1)
    found = shop.session().readers()
    assert (found.encrypted, found.public_key, found.others, found.sealed) == (True, "", 1, 0)
    new = replace(shop, public=PUBLIC)
    new.ship(part(12), 2)
    found = new.session().readers()
    assert (found.public_key, found.others, found.sealed) == (PublicKey(PUBLIC).id, 1, 1)
    assert not found.private_key_here
    found = reader(new).session().readers()
    assert found.private_key_here
