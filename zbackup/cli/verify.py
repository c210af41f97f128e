"""zbackup verify"""

from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from zbackup import app
from zbackup.cli import complete, tables
from zbackup.cli.options import Options
from zbackup.cli.output import plain
from zbackup.cli.working import AnyInstance, Done, conclude, on_each
from zbackup.config.ship import Sample
from zbackup.jobs.context import Context
from zbackup.jobs.verify_at import ReadBack, VerifyReport, verify_at
from zbackup.model.errors import UsageError, VerificationFailed

HELP = """Compare the backups at a destination with those that are here.

Of every backup that is on both sides the snapshots have to be the same by their guids, and its record has to
say the same. Of the newest of them data is read from the disks of both sides and compared. That needs a key
that may read there: zbackup gate lets an --append-only key compare, and not read. Nothing is changed.

What is in a bucket is proven by itself, too, also where nothing else of the instance is: what is written
about backups and streams by the listing of their objects, and with --read all every byte.

\b
zbackup verify --at offsite                 compare all, and read the first GiB of each dataset
zbackup verify shop --at offsite --read all
zbackup verify --at offsite --read none     compare, and read nothing
zbackup verify --at cloud --read all        fetch, hash and decrypt all that is in a bucket

The exit status is that of a failed verification when anything is different.
"""


def command(
    options: Options,
    instance: AnyInstance = None,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="DESTINATION",
            help="Which destination.",
            autocompletion=complete.destinations,
            show_default=False,
        ),
    ] = "",
    read: Annotated[
        str, typer.Option("--read", metavar="SIZE|all|none", help="How much of each dataset is read.")
    ] = "1GiB",
) -> None:
    if not at:
        raise UsageError("say which destination: --at DESTINATION")
    most = _most(read)

    def act(ctx: Context) -> VerifyReport:
        return verify_at(ctx, app.choose_target(ctx, at), most=most)

    outcomes = on_each(options, "verify", instance, act)
    conclude(options, "verify", outcomes, shape=_shape, text=_text)
    if any(isinstance(o, Done) and o.result.problems for o in outcomes):
        raise typer.Exit(VerificationFailed.exit_status)


def _most(text: str) -> int:
    """Bytes; 0 for all, -1 for none."""
    try:
        return TypeAdapter(Sample).validate_python(text)
    except ValidationError as wrong:
        raise UsageError(f'--read "{text}": expected a size such as "1GiB", or all, or none') from wrong


def _shape(done: Done[VerifyReport]) -> dict[str, Any]:
    report = done.result
    return {
        "destination": report.target.name,
        "place": report.target.destination.place,
        "compared": [plain(b.name) for b in report.compared],
        "only_there": [plain(b.name) for b in report.alone],
        "read": [
            {"snapshot": str(r.snapshot), "size": r.size, "whole": r.whole, "same": r.same}
            for r in report.read
        ],
        "proven": [{"name": c.name, "size": c.read, "problems": list(c.problems)} for c in report.proven],
        "problems": list(report.problems),
    }


def _text(turns: list[Done[VerifyReport]]) -> str:
    return "\n\n".join("\n".join(_lines(done)) for done in turns)


def _lines(done: Done[VerifyReport]) -> list[str]:
    report = done.result
    good = "the same" if report.compared else "sound" if report.proven else "nothing to compare"
    verdict = "DIFFERENT" if report.problems else good
    return [
        f"Instance {done.context.instance} at {report.target.destination.place}: {verdict}",
        f"  compared   {_how_many(len(report.compared))}, {len(report.alone)} more that are only there",
        *(f"  read       {_read(each)}" for each in report.read),
        *(["  read       nothing"] if not report.read and not report.proven else []),
        *_proven(report),
        *(f"  DIFFERENT  {text}" for text in report.problems),
    ]


def _read(each: ReadBack) -> str:
    part = "all" if each.whole else "the first"
    return f"{each.snapshot}: {part} {tables.size(each.size)}, {'the same' if each.same else 'DIFFERENT'}"


def _proven(report: VerifyReport) -> list[str]:
    if not report.proven:
        return []
    read = sum(checked.read for checked in report.proven)
    how = f"by reading {tables.size(read)}" if read else "by the listing of their objects"
    return [f"  proven     {_how_many(len(report.proven))}, {how}"]


def _how_many(count: int) -> str:
    return f"{count} backup{'' if count == 1 else 's'}"
