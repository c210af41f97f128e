"""The one command that the holder of a key asked for over ssh: look at it, decide, run it, write it down."""

from collections.abc import Callable

from zbackup.model.drr_begin import RECORD
from zbackup.model.errors import ZbackupError
from zbackup.plan.ship.accept_stream import require_plain
from zbackup.plan.ship.gate import GateOrder, Policy, decide, require_below, still_to_mark
from zbackup.proc.system_log import tell
from zbackup.proc.take_over import become, feed, read_head

NAME = "zbackup-gate"
_SHOWN = 2000


def _ready() -> None:
    return


def gate(line: str, policy: Policy, client: str, before_asking: Callable[[], None] = _ready) -> int:
    """Run the command if the policy allows it; return its exit status, unless it takes our place.

    `client` is whom sshd let in, for the machine's log; `before_asking` is called before ZFS is asked
    anything, which is logged. Raise Refused for what is not allowed.
    """
    try:
        order = decide(line, policy)
        if order.changes:
            tell(NAME, f"{client}, below {policy.root}: {line[:_SHOWN]!r}", warning=False)
        return _run(order, policy, before_asking)
    except ZbackupError as failure:
        tell(NAME, f"{client}, below {policy.root}: {line[:_SHOWN]!r}: {failure}", warning=True)
        raise


def _run(order: GateOrder, policy: Policy, before_asking: Callable[[], None]) -> int:
    if order.kind == "receive":
        head = read_head(RECORD)
        require_plain(head)
        return feed(order.argv, head)
    if order.log is not None:
        before_asking()
        from zbackup.jobs.ship.log_gate import serve

        return serve(order.log)
    if order.kind in ("mark", "resume"):
        before_asking()
        return _ask_and_run(order, policy)
    return become(order.argv)


def _ask_and_run(order: GateOrder, policy: Policy) -> int:
    """What is let through or not by what ZFS says."""
    # What runs programs and logs of it takes long to import, and most commands are a list or a receive.
    from zbackup.zfs.gate_facts import described, own_properties

    if order.kind == "mark":
        argv = still_to_mark(order, own_properties(order.snapshots))
        return become(argv) if argv else 0
    require_below(described(order.argv[-1]), policy)
    return become(order.argv)
