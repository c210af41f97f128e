"""The rules about settings that mean something to one kind of server only."""

from collections.abc import Iterator
from typing import Any

from zbackup.config.lines import Path_, Problem

MONGODB_ONLY = ("uri", "auth_source", "auth_mechanism")
INSTEAD_OF_URI = ("socket", "host", "port", "user", "password", "auth_source")
LOCKS = {"mongodb": ("auto", "fsync", "none")}
OTHER_LOCKS = ("auto", "ftwrl", "backup-stage", "backup-lock", "none")
SQL_LOCK_KEYS = ("give_way", "kill", "applier_stop")


def of_engine(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    """Settings that the instance's kind of server does not know."""
    engine, lock = table.get("engine"), table.get("lock")
    mongodb = engine == "mongodb"
    lock = {"kind": lock} if isinstance(lock, str) else lock
    if not mongodb:
        yield from (((key,), "has a meaning for mongodb only") for key in MONGODB_ONLY if key in table)
        if isinstance(recovery := table.get("recovery"), dict) and "login" in recovery:
            yield ("recovery", "login"), "has a meaning for mongodb only"
    if isinstance(lock, dict):
        yield from _lock(lock, mongodb=mongodb)
    yield from _masking(table.get("clones"), mongodb=mongodb)
    if mongodb and "plain_log" in table:
        yield ("plain_log",), "has no meaning for mongodb"
    if mongodb:
        yield from _one_way_to_a_mongod(table)


def _lock(lock: dict[str, Any], *, mongodb: bool) -> Iterator[Problem]:
    kinds, kind = LOCKS["mongodb"] if mongodb else OTHER_LOCKS, lock.get("kind")
    if kind in (*LOCKS["mongodb"], *OTHER_LOCKS) and kind not in kinds:
        yield ("lock", "kind"), f"expected {', '.join(kinds)} for this engine, got {kind}"
    if mongodb:
        yield from ((("lock", key), "has no meaning for mongodb") for key in SQL_LOCK_KEYS if key in lock)
        if lock.get("on_long_query") == "kill":
            yield (
                ("lock", "on_long_query"),
                "expected wait or abort: zbackup ends no transactions of mongodb's",
            )


def _masking(clones: object, *, mongodb: bool) -> Iterator[Problem]:
    steps = clones.get("mask") if isinstance(clones, dict) else None
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        if not isinstance(step, dict):
            continue
        path: Path_ = ("clones", "mask", number)
        if ("sql" in step) == ("run" in step):
            yield path, "expected either sql or run"
        elif "sql" in step and mongodb:
            yield path, "mongodb knows no SQL: expected run"


def _one_way_to_a_mongod(table: dict[str, Any]) -> Iterator[Problem]:
    if "uri" in table:
        yield from (
            ((key,), "is part of the uri, or instead of it: expected one of them")
            for key in INSTEAD_OF_URI
            if key in table
        )
    if "socket" in table:
        yield from (
            ((key,), "has no meaning with a socket") for key in ("host", "port", "tls") if key in table
        )
    tls = table.get("tls")
    if isinstance(tls, dict) and "key" in tls:
        yield (
            ("tls", "key"),
            "mongodb wants certificate and key in one file: cat both into that named by cert",
        )
    if table.get("auth_mechanism") == "MONGODB-X509":
        if not isinstance(tls, dict) or "cert" not in tls:
            yield ("auth_mechanism",), "logs in by a client certificate: name it in tls.cert"
        if "password" in table:
            yield ("password",), "has no meaning when a certificate logs in"
