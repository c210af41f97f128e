"""Make a server of a dev clone's files: accounts, masking, start."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import reserved_ports
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.cloning import Adoption, Login, Mask, PrivateServer
from zbackup.model.errors import MaskingFailed, ZbackupError
from zbackup.model.recovery import Limits, RecoveryFiles, Serving
from zbackup.proc import secure_files
from zbackup.proc.hook import run_hook

PASSWORD_FILE = "password"
MASK_FILE = 1 << 30
"""Bytes of a file of statements, at most."""


def hand_over(ctx: Context, clone: Clone, files: RecoveryFiles, *, recovered: bool) -> Clone:
    """Make the files a server of their own, masked where the instance says so, and mark the clone as ready.

    `recovered`: see Adoption. Raise what Recovery.adopt raises, or MaskingFailed.
    """
    steps = () if clone.masked else ctx.cloning.mask
    adoption = Adoption(
        serving=serving(clone),
        login=_login(ctx, clone),
        prepare=(lambda server: _mask(ctx, clone, steps, server)) if steps else None,
        recovered=recovered,
        source=ctx.cloning.replica if clone.follows else None,
    )
    with reserved_ports(clone.port):  # masking may take long
        ctx.recovery.adopt(files, adoption, ctx.progress)
    return clone_datasets.mark_ready(ctx, replace(clone, masked=clone.masked or bool(steps)))


def serving(clone: Clone) -> Serving:
    """How its server is started, each time."""
    return Serving(
        port=clone.port,
        read_only=clone.read_only,
        replica_set=clone.replica_set,
        role=clone.role,
        host=clone.host,
        memory=clone.memory,
        limits=Limits(nice=clone.nice, memory=clone.memory_max, cpu=clone.cpu_quota),
        events_off=clone.kind == "dev",
        login=bool(clone.login),
        restricted=bool(clone.login) and not clone.own_root,
        follows=clone.follows,
    )


def password_file(ctx: Context, name: str) -> Path:
    """Where a dev clone's password is, readable by root alone."""
    return ctx.mountpoint / name / PASSWORD_FILE


def _login(ctx: Context, clone: Clone) -> Login | None:
    """A reset clone keeps the password that its users know."""
    if not clone.login:
        return None
    file = password_file(ctx, clone.name)
    if not (secure_files.exists(file) and secure_files.read_text(file).strip()):
        # Complex enough for the policies that servers have.
        secure_files.write_new(file, f"Zb-1{secrets.token_urlsafe(24)}\n", mode=0o600)
    return Login(clone.login, secure_files.read_text(file).strip(), full=clone.own_root)


def _mask(ctx: Context, clone: Clone, steps: tuple[Mask, ...], server: PrivateServer) -> None:
    facts = {
        "ZBACKUP_INSTANCE": clone.instance,
        "ZBACKUP_ENGINE": clone.engine,
        "ZBACKUP_CLONE": clone.name,
        **server.facts,
    }
    for number, step in enumerate(steps, 1):
        ctx.progress.note(f"masking, step {number} of {len(steps)}: {step}")
        try:
            _take(ctx, step, server, facts)
        except (ZbackupError, OSError, UnicodeError) as failure:
            raise MaskingFailed(f"{clone.name} could not be masked: {step}: {failure}") from failure


def _take(ctx: Context, step: Mask, server: PrivateServer, facts: Mapping[str, str]) -> None:
    if step.sql:
        server.execute(secure_files.read_linked(Path(step.sql), MASK_FILE))
    else:
        run_hook(step.run, facts, ctx.cloning.mask_limit)
