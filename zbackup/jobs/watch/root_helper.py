"""The helper: what one with root's rights does for a daemon that has none: little, and believing nothing.

Whoever asks names a verb, an instance and a clone, and nothing else: no dataset, no path, no command. Where
the clones are comes from the configuration, which belongs to root; what a clone is, from ZFS. Each verb is
the whole step that root's own commands take, with its own look, lock and proof, so that it cannot be made to
touch what such a command would not.
"""

from collections.abc import Callable, Mapping
from typing import Any

from zbackup.jobs.cleanup.cleanup import remove_unfinished
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.lease import end_lease
from zbackup.jobs.drills.drill import UNTRIED
from zbackup.jobs.drills.scheduled_drill import make
from zbackup.jobs.drills.verdicts import read
from zbackup.model.bounds import strings
from zbackup.model.drill import one_line
from zbackup.model.errors import Postponed, Refused, VerificationFailed, ZbackupError

_FIELDS = frozenset({"verb", "instance", "clone"})

VERBS: Mapping[str, Callable[[Context, str], tuple[str, bool] | None]] = {
    "remove-unfinished": remove_unfinished,
    "end-lease": end_lease,
}


def obey(line: str, contexts: Mapping[str, Context]) -> dict[str, Any]:
    """Do what the line asks for; the answer. Raise Refused when it is no question that is ever asked."""
    verb, instance, clone = _parse(line)
    if verb not in VERBS:
        raise Refused("no such verb")
    if instance not in contexts:
        raise Refused("no such instance in the helper's configuration")
    everywhere = contexts[instance].everywhere()
    ended = next((told for at in everywhere if (told := VERBS[verb](at, clone))), None)
    return {"said": ended[0] if ended else "", "done": bool(ended and ended[1])}


def obey_drill(
    line: str,
    contexts: Mapping[str, Context],
    limits: Mapping[tuple[str, str], float],
    told: Callable[[], str],
) -> dict[str, Any]:
    """Make the drill that the line asks for: of which instance, and at which destination ("" for none).

    `limits` are seconds, of the drills that are on schedule; it ends when `told` says why. Raise Refused when
    it is no such question.
    """
    verb, instance, label = _parse(line)
    if verb != "drill":
        raise Refused("no such verb")
    if (instance, label) not in limits:
        raise Refused("no such drill is on schedule in the helper's configuration")
    ctx = contexts[instance]
    destination = next((t for t in ctx.destinations if t.name == label), None)
    before = read(ctx, label)[-1:]
    try:
        make(ctx, destination, limits[instance, label], told)
    except Postponed as later:
        return {"result": "postponed", "said": str(later)}
    except UNTRIED as failure:
        return {"result": "untried", "said": one_line(str(failure))}
    except ZbackupError as failure:
        # One that could not be begun, or that passed and could not be removed, says nothing of the backup.
        after = read(ctx, label)[-1:]
        failed = after != before and not after[-1].passed
        proven = failed or isinstance(failure, VerificationFailed)
        return {"result": "failed" if proven else "untried", "said": one_line(str(failure))}
    return {"result": "passed", "said": ""}


def _parse(line: str) -> tuple[str, str, str]:
    try:
        asked = strings(line, _FIELDS)
    except ValueError as wrong:
        raise Refused("not a question") from wrong
    return asked["verb"], asked["instance"], asked["clone"]
