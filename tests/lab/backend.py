"""Choose what runs the commands: this machine itself, or a guest kernel."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tests.lab import build, linked, native, places
from tests.lab.guest import Guest, Sink
from tests.lab.progress import StepFailed
from tests.lab.recipe import BuiltGuest
from tests.lab.request import Disk, Keep, Outcome, Request

Kind = Literal["native", "guest"]
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TRIAL_TIME = 60.0


class Runner(Protocol):
    """One request being run."""

    def run(self, terminal: tuple[int, int] | None = None) -> Outcome: ...

    def signal(self, number: int) -> None: ...

    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The backend in use and the reason for it."""

    kind: Kind
    why: str

    def prepare(self) -> None:
        """Build what the backend needs; raises StepFailed or apt.AptFailed."""
        if self.kind == "guest":
            linked.ensure(build.ensure(try_out))
            _compile()

    def runner(self, request: Request, out: Sink, err: Sink) -> Runner:
        """What runs `request`; the backend must be prepared."""
        if self.kind == "native":
            return native.NativeRun(request, out, err)
        return Guest(request, build.ensure(try_out), out, err)


def _compile() -> None:
    """What a guest writes is gone with it, so each program in it would compile zbackup anew."""
    venv = places.REPOSITORY / ".venv" / "bin" / "python"
    if venv.exists():
        subprocess.run(
            [venv, "-m", "compileall", "-q", "zbackup", "tests"], cwd=places.REPOSITORY, check=False
        )


def choose() -> Choice:
    """The first backend that works here; $LAB_BACKEND names one outright. Raises StepFailed if none does."""
    wanted = os.environ.get("LAB_BACKEND", "")
    if wanted not in ("", "native", "guest"):
        raise StepFailed(f"LAB_BACKEND is native or guest, got {wanted!r}")
    why_not_native = native.unusable()
    if wanted == "native" and why_not_native:
        raise StepFailed(f"LAB_BACKEND=native, but {why_not_native}")
    if wanted == "native":
        return Choice(kind="native", why="LAB_BACKEND=native")
    if wanted == "" and why_not_native is None:
        return Choice(kind="native", why="this machine has the OpenZFS module and we are root")
    problems = build.refusals(places.this_recipe())
    if problems:
        reasons = [*problems, *([f"native: {why_not_native}"] if why_not_native else [])]
        raise StepFailed(f"no backend works here: {'; '.join(reasons)}")
    return Choice(kind="guest", why="LAB_BACKEND=guest" if wanted else f"not native: {why_not_native}")


def environment() -> dict[str, str]:
    """The environment of a command: ours, with the project's programs and the system's own in PATH.

    Without our choice of the backend: within a guest the lab is native.
    """
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("LAB_DISKS", "LAB_BACKEND")
    }
    venv = places.REPOSITORY / ".venv" / "bin"
    parts = [*([str(venv)] if venv.is_dir() else []), *inherited.get("PATH", "").split(":")]
    parts += [part for part in SYSTEM_PATH.split(":") if part not in parts]
    return {**inherited, "PATH": ":".join(part for part in parts if part)}


def request(
    command: Sequence[str],
    *,
    timeout: float | None,
    memory: int,
    disks: Sequence[Disk] = (),
    shares: Sequence[Path] = (),
    visible: Sequence[Path] = (),
    keep: Keep = "never",
) -> Request:
    """A request with this process's directory and environment."""
    return Request(
        command=tuple(command),
        directory=Path.cwd(),
        # For the fixtures: a pool is of no use without its disk, nor the other way round.
        environment={**environment(), **({"LAB_KEEP": "1"} if keep != "never" else {})},
        timeout=timeout,
        memory=memory,
        disks=tuple(disks),
        shares=tuple(shares),
        visible=tuple(visible),
        keep=keep,
    )


def try_out(built: BuiltGuest) -> None:
    """Start a guest that was just built and let it say its ZFS version; raises StepFailed if it cannot."""
    heard = bytearray()
    trial = request(["zfs", "version"], timeout=TRIAL_TIME, memory=1 << 30)
    outcome = Guest(trial, built, heard.extend, heard.extend).run()
    if outcome.status != 0:
        said = heard.decode(errors="replace").strip()
        raise StepFailed(f"the guest does not run zfs: {outcome.trouble or f'exit {outcome.status}'} {said}")
