"""A write load for a real mongod: a process of its own that journals what the server acknowledged.

`start(server)` runs it (see load.Load), `verify(client, journal, at)` judges a recovered state. mongod logs
commit times in whole milliseconds, so only moments of whole milliseconds can be judged.
"""

import argparse
import signal
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from pymongo import UpdateOne, WriteConcern
from pymongo.errors import PyMongoError

from tests.lab.load import Load
from tests.lab.load_journal import Entry, JournalFile, Verdict, judge, read, true_ns
from tests.lab.load_model import SCHEMA, Add, Content, Forget, Move, Transaction, contents, transaction
from tests.lab.mongo_fixture import APP_PASSWORD, APP_USER, Client, MongoServer, connect

CONCERNS = {
    "w1": WriteConcern(w=1, j=False),
    "journaled": WriteConcern(w=1, j=True),
    "majority": WriteConcern(w="majority"),
}
COLLECTIONS = ("progress", "ledger", "balance")

_RETRY_S = 0.05


def start(
    server: MongoServer,
    *,
    threads: int = 4,
    rate: float | None = None,
    concern: str = "majority",
    journal: Path | None = None,
    timeout: float = 60,
) -> Load:
    """Write with `threads` connections, `rate` transactions a second in all (None: as fast as it goes).

    `server` must be a primary: seven of ten transactions are multi-document ones. `concern` is one of
    CONCERNS. See load.Load.start.
    """
    options = [f"--socket={server.settings.socket}", f"--threads={threads}", f"--rate={rate or 0}"]
    options += [f"--concern={concern}", f"--user={APP_USER if server.settings.auth else ''}"]
    return Load.of_program("tests.lab.mongo_load", options, threads, journal, timeout)


def verify(client: Client, journal: Path, at: datetime | None = None, by: datetime | None = None) -> Verdict:
    """Judge what `client` shows by the journal: a state as of `at`, or the end when None (see judge).

    Raises AssertionError that lists lost, surplus and wrong documents.
    """
    return judge(rows(client), read(journal), at, by)


def rows(client: Client) -> dict[int, Content]:
    """All documents of the load by thread. Of one moment only while nobody writes."""
    db = client[SCHEMA]
    return contents(
        [(d["_id"], d["seq"]) for d in db.progress.find()],
        [(d["thread"], d["seq"], d["part"], d["note"]) for d in db.ledger.find()],
        [(d["thread"], d["slot"], d["amount"]) for d in db.balance.find()],
    )


class _Writer(threading.Thread):
    """One client that writes its transactions one after the other until told to stop."""

    def __init__(
        self, number: int, given: argparse.Namespace, journal: JournalFile, stop: threading.Event
    ) -> None:
        super().__init__(name=f"writer-{number}")
        self._number, self._given, self._journal, self._stop_asked = number, given, journal, stop
        self._concern = CONCERNS[given.concern]
        self.failure: str | None = None

    def run(self) -> None:
        try:
            with _client(self._given) as client:
                self._write(client)
        except (PyMongoError, OSError) as failed:
            self.failure = f"thread {self._number}: {failed}"

    def _write(self, client: Client) -> None:
        seq = rows(client).get(self._number, Content()).last
        interval = self._given.threads / self._given.rate if self._given.rate else 0.0
        due = time.monotonic()
        while not self._stop_asked.is_set():
            seq += 1
            self._commit(client, transaction(self._number, seq))
            due = max(due + interval, time.monotonic() - interval)
            self._stop_asked.wait(max(0.0, due - time.monotonic()))

    def _commit(self, client: Client, wanted: Transaction) -> None:
        """Until it is acknowledged.

        Under a lock transactions give up at once; what was certainly not committed is tried again.
        """
        while True:
            try:
                self._try(client, wanted)
            except PyMongoError as failed:
                if not failed.has_error_label("TransientTransactionError") or self._stop_asked.is_set():
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    def _try(self, client: Client, wanted: Transaction) -> None:
        sent = acked = None
        try:
            if wanted.single:
                ledger = client[SCHEMA].ledger.with_options(write_concern=self._concern)
                document = _ledger(wanted, wanted.changes[0])
                sent = true_ns()
                ledger.insert_one(document)
            else:
                with client.start_session() as session:
                    session.start_transaction(write_concern=self._concern)
                    _apply(client, session, wanted)
                    sent = true_ns()
                    session.commit_transaction()
            acked = true_ns()
        except PyMongoError as failed:
            if failed.has_error_label("TransientTransactionError"):
                sent = None
            raise
        finally:
            if sent is not None:
                self._journal.write(Entry(wanted.thread, wanted.seq, sent, acked))


def _apply(client: Client, session: Any, wanted: Transaction) -> None:
    db = client[SCHEMA]
    for change in wanted.changes:
        match change:
            case Add():
                db.ledger.insert_one(_ledger(wanted, change), session=session)
            case Move(slot, amount):
                key = {"_id": f"{wanted.thread}-{slot}"}
                known = {"thread": wanted.thread, "slot": slot}
                update = {"$inc": {"amount": amount}, "$setOnInsert": known}
                db.balance.bulk_write([UpdateOne(key, update, upsert=True)], session=session)
            case Forget(first, last):
                old = {"thread": wanted.thread, "seq": {"$gte": first, "$lte": last}}
                db.ledger.delete_many(old, session=session)
    mark = {"$set": {"seq": wanted.seq}}
    db.progress.update_one({"_id": wanted.thread}, mark, upsert=True, session=session)


def _ledger(of: Transaction, change: Any) -> dict[str, Any]:
    key = f"{of.thread}-{of.seq}-{change.part}"
    return {"_id": key, "thread": of.thread, "seq": of.seq, "part": change.part, "note": change.note}


def _client(given: argparse.Namespace) -> Client:
    login = {"username": given.user, "password": APP_PASSWORD} if given.user else {}
    return connect(Path(given.socket), retryWrites=False, serverSelectionTimeoutMS=3000, **login)


def main(arguments: list[str]) -> int:
    """Write until SIGTERM or until every thread has failed; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.lab.mongo_load", description=__doc__)
    parser.add_argument("--socket", required=True, help="the server's Unix socket")
    parser.add_argument("--user", default="", help="account; none without logins")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0, help="transactions a second in all; 0: no limit")
    parser.add_argument("--concern", choices=sorted(CONCERNS), default="majority")
    parser.add_argument("--journal", type=Path, required=True, help="file that gets a line a transaction")
    given = parser.parse_args(arguments)

    stop = threading.Event()

    def asked(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, asked)
    signal.signal(signal.SIGINT, asked)
    with _client(given) as client:
        there = client[SCHEMA].list_collection_names()
        for name in COLLECTIONS:
            if name not in there:
                client[SCHEMA].create_collection(name)
        if "ledger" not in there:
            client[SCHEMA].ledger.create_index([("thread", 1), ("seq", 1)])
    journal = JournalFile(given.journal)
    writers = [_Writer(number, given, journal, stop) for number in range(1, given.threads + 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    failures = [writer.failure for writer in writers if writer.failure]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
