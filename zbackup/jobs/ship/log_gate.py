"""Do for another host's log archive what the gate does itself: the words are checked already."""

import sys
from collections.abc import Iterable

from zbackup.model.archive_order import LogOrder, leftover_line, line_of
from zbackup.model.errors import Refused
from zbackup.proc.log_store import LogStore
from zbackup.proc.take_over import read_head
from zbackup.zfs.log_dataset import LogDataset


def serve(order: LogOrder) -> int:
    """Do what was asked for, with our input and output; return the exit status."""
    dataset = LogDataset(home=order.home, name=order.dataset)
    if order.verb == "append":
        if order.file is None or order.chunk is None:
            raise AssertionError("it was read as an append")
        data = read_head(order.chunk.size + 1)
        if len(data) != order.chunk.size:
            raise Refused(f"{len(data)} bytes came where {order.chunk.size} were announced")
        _say([str(LogStore(dataset.prepared()).append(order.file, order.chunk, data))])
        return 0
    if order.claim:
        _say([LogStore(dataset.prepared()).claim(*order.claim)])
        return 0
    directory = dataset.directory()
    if directory is None:
        return 0
    store = LogStore(directory)
    if order.file is None:
        found = store.archived()
        problems = (f"! {problem!a}" for problem in found.problems)
        _say([*map(line_of, found.files), *map(leftover_line, found.leftovers), *problems])
    elif order.verb == "read":
        for chunk, data in store.read(order.file, order.begin, order.end):
            sys.stdout.buffer.write(f"{chunk}\n".encode() + data)
        sys.stdout.buffer.flush()
    else:
        store.remove(order.file)
    return 0


def _say(lines: Iterable[str]) -> None:
    sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode())
    sys.stdout.buffer.flush()
