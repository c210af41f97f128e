"""Fewer rights at the lab's SeaweedFS, sessions that end, and buckets that are full."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import boto3
from botocore.exceptions import ClientError

from tests.lab.s3_accounts import ROLE, policy
from tests.lab.s3_server import S3Server, client

LIMIT_S = 120.0
PROBE = "test-probe"


def as_user(server: S3Server, name: str) -> S3Server:
    return replace(server, access=name)


def in_session(server: S3Server, *seconds: int) -> S3Server:
    """With the credentials of a session of SHORT_S, or of so many `seconds`, which are 900 or more."""
    keys = {"aws_access_key_id": server.access, "aws_secret_access_key": server.secret}
    sts = boto3.client("sts", endpoint_url=server.endpoint, region_name="us-east-1", **keys)
    length = {"DurationSeconds": seconds[0]} if seconds else {}
    found = sts.assume_role(RoleArn=ROLE, RoleSessionName="lab", **length)["Credentials"]
    return replace(
        server, access=found["AccessKeyId"], secret=found["SecretAccessKey"], token=found["SessionToken"]
    )


@contextmanager
def denied(server: S3Server, bucket: str, name: str, *actions: str) -> Iterator[None]:
    """Meanwhile the user `name` may not do these in the bucket, in which there is something."""
    direct = client(server)
    everywhere = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    who = {"AWS": f"arn:aws:iam::000000000000:user/{name}"}
    statement = {"Effect": "Deny", "Principal": who, "Action": [*actions], "Resource": everywhere}
    user = client(as_user(server, name))
    held = direct.list_objects_v2(Bucket=bucket, MaxKeys=1)["Contents"][0]["Key"]
    probes: dict[str, Callable[[], Any]] = {
        "s3:ListBucket": lambda: user.list_objects_v2(Bucket=bucket, MaxKeys=1),
        "s3:DeleteObject": lambda: user.delete_object(Bucket=bucket, Key=PROBE),
        "s3:GetObject": lambda: user.get_object(Bucket=bucket, Key=held),
    }
    direct.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy(statement)))
    try:
        for action in actions:
            if action in probes:
                until_refused(probes[action])
        yield
    finally:
        direct.delete_bucket_policy(Bucket=bucket)


@contextmanager
def full(server: S3Server, bucket: str) -> Iterator[None]:
    """Meanwhile the bucket has more in it than its quota of 1 MiB, which takes more than that in it."""
    direct = client(server)

    def request() -> None:
        # How much is in a bucket the server knows from what its volumes tell every few seconds.
        _enforce(server, bucket, 1)
        direct.put_object(Bucket=bucket, Key=PROBE, Body=b"x")

    until_refused(request)
    try:
        yield
    finally:
        _enforce(server, bucket, 1000)


def _enforce(server: S3Server, bucket: str, mib: int) -> None:
    orders = (
        "lock",
        f"s3.bucket.quota -name={bucket} -op=set -sizeMB={mib}",
        "s3.bucket.quota.enforce -apply",
        "unlock",
    )
    told = "".join(f"{order}\n" for order in orders)
    subprocess.run(
        server.shell, input=told, text=True, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S
    )


def until_refused(request: Callable[[], Any]) -> None:
    """Repeat it until the server says no."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        try:
            request()
        except ClientError:
            return
        time.sleep(0.5)
    raise AssertionError("the server never refused")
