"""zbackup's end of a stream into a bucket, as a program: `python -m bench.s3_end put|get ENDPOINT`.

It imports what that takes, and is started for each measurement as the other tools are.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.quiet import quiet
from zbackup.config.s3 import S3
from zbackup.config.secret import SecretRef
from zbackup.destinations.s3.destination import S3Destination
from zbackup.destinations.s3.encryption import KeyFiles
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.model.shipping import OutgoingStream
from zbackup.proc.pipeline import Meter, local, writing

MIB = 1 << 20
BUCKET = "zbackup-bench"
PART = OutgoingStream(dataset="tank/bench", guid=11, name="bench", base=None, raw=False)


def main(argv: Sequence[str]) -> None:
    """Put or get it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("put", "get"))
    parser.add_argument("endpoint")
    parser.add_argument("--segment", type=int, default=0)
    parser.add_argument("--encrypted", action="store_true")
    given = parser.parse_args(argv)
    table = S3.model_construct(
        endpoint=given.endpoint,
        region="us-east-1",
        path_style=True,
        ca_file=Path(ca) if (ca := os.environ.get("AWS_CA_BUNDLE")) else None,
        key=SecretRef("env", "KEY") if given.encrypted else None,
        **({"segment": given.segment * MIB} if given.segment else {}),
    )
    keys = KeyFiles(lambda: (bytes(32),)) if given.encrypted else None
    destination = S3Destination(
        name="bench",
        address="bench",
        prefix=f"ours-{given.segment}-{given.encrypted}",
        instance="bench",
        bucket=BUCKET,
        storing=StorageSettings(table=table, keys=keys),
        now=lambda: datetime.now(UTC),
    )
    with destination.connect() as session:
        if given.verb == "put":
            session.store(PART, local(("cat", os.environ["STREAM"])), Meter())
        else:
            stream = StreamId(dataset=PART.dataset, guid=PART.guid, base=None)
            with writing(local(("cat",))) as sink:
                for content in session.stream(stream, Meter()):
                    sink(content)


if __name__ == "__main__":
    quiet()
    main(sys.argv[1:])
