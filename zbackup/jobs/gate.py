"""The one command that the holder of a key asked for over ssh: look at it, decide, run it, write it down."""

from zbackup.model.errors import ZbackupError
from zbackup.plan.gate import Order, Policy, decide, require_below, still_to_mark
from zbackup.plan.stream_head import SIZE, require_plain
from zbackup.proc.become import become, feed, read_head
from zbackup.proc.system_log import tell
from zbackup.zfs.guarded import described, own_properties

NAME = "zbackup-gate"
_SHOWN = 2000


def gate(line: str, policy: Policy, client: str) -> int:
    """Run the command if the policy allows it; return its exit status, unless it takes our place.

    `client` is whom sshd let in, for the machine's log. Raise Refused for what is not allowed.
    """
    try:
        order = decide(line, policy)
        if order.changes:
            tell(NAME, f"{client}, below {policy.root}: {line[:_SHOWN]!r}", warning=False)
        return _run(order, policy)
    except ZbackupError as failure:
        tell(NAME, f"{client}, below {policy.root}: {line[:_SHOWN]!r}: {failure}", warning=True)
        raise


def _run(order: Order, policy: Policy) -> int:
    if order.kind == "receive":
        head = read_head(SIZE)
        require_plain(head)
        return feed(order.argv, head)
    if order.kind == "mark":
        argv = still_to_mark(order, own_properties(order.snapshots))
        return become(argv) if argv else 0
    if order.kind == "resume":
        require_below(described(order.argv[-1]), policy)
    return become(order.argv)
