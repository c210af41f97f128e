"""Buckets that an earlier version of zbackup made: one with the key OLD_KEY, and one without.

`old_bucket.json` was written by its code: three backups of one chain, of which the second is pruned, and a
stream that was begun and is not whole. Manifests are of versions 2 and 1, headers of version 1: they name no
prefix.
"""

import base64
import json
import struct
from pathlib import Path

from tests.destinations.shop import Shop
from zbackup.model.drr_begin import MAGIC

OLD_KEY = bytes(range(32))


def put_old(shop: Shop, kind: str) -> None:
    """`kind` is "sealed" or "plain"."""
    objects = json.loads(Path(__file__).with_name("old_bucket.json").read_text("ascii"))[kind]
    for key, body in objects.items():
        shop.replace(f"{shop.root}/{key}", base64.b64decode(body))


def old_stream(guid: int, base: int | None = None) -> bytes:
    """What was stored as that stream."""
    head = struct.pack("<IIQQQIIQQ", 0, 0, MAGIC, 1, 0, 2, 0, guid, base or 0)
    return head + b"".join(b"%d of %d\n" % (n, guid) for n in range(900))
