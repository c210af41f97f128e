"""Spread test modules over guests: one guest a module, several side by side."""

import re
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import backend, places
from tests.lab.request import DIED, BadRequest, Disk, Keep, Outcome, parse_size
from tests.lab.results import ModuleResult, exit_status, read_result, summary

SELECTING = ("-k", "-m", "--lf", "--last-failed", "--deselect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The modules to test and how."""

    modules: tuple[str, ...]
    options: tuple[str, ...]
    side_by_side: int
    timeout: float
    memory: int
    disks: tuple[Disk, ...]
    results: Path
    keep: Keep


@dataclass(slots=True)
class Shards:
    """Runs a plan; `signal` stops everything."""

    choice: backend.Choice
    plan: Plan
    _running: list[backend.Runner] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def run(self) -> int:
        """Test every module, say how each ended as it ends, close with the sum; returns the exit status."""
        results: list[ModuleResult] = []
        with ThreadPoolExecutor(self.plan.side_by_side) as pool:
            waiting = [pool.submit(self._module, module) for module in self.plan.modules]
            for done in as_completed(waiting):
                result = done.result()
                results.append(result)
                self._report(result)
        print(f"\nreports and whole output: {self.plan.results}")
        for result in results:
            if not result.ok:
                print(result.line())
        print(summary(results), flush=True)
        return exit_status(results)

    def signal(self, number: int) -> None:
        """Stop the guests that run and start no more."""
        self._stopped = True
        with self._lock:
            for runner in self._running:
                runner.signal(number)

    def _module(self, module: str) -> ModuleResult:
        if self._stopped:
            return ModuleResult(module=module, failed=1, trouble="not run: stopped on request")
        name = result_name(module)
        report = self.plan.results / f"{name}.xml"
        report.unlink(missing_ok=True)
        command = pytest_command(module, self.plan.options, report)
        request = backend.request(
            command,
            timeout=self.plan.timeout,
            memory=self.plan.memory,
            disks=self.plan.disks,
            shares=[self.plan.results],
            visible=[Path(module.partition("::")[0]).resolve().parent],
            keep=self.plan.keep,
        )
        began = time.monotonic()
        with (self.plan.results / f"{name}.log").open("wb", buffering=0) as log:
            runner = self.choice.runner(request, log.write, log.write)
            with self._lock:
                self._running.append(runner)
            try:
                outcome = runner.run()
            except (OSError, BadRequest) as error:
                # One guest that cannot be started must not take the results of the others with it.
                outcome = Outcome(status=DIED, trouble=f"the guest was not started: {error}")
            finally:
                with self._lock:
                    self._running.remove(runner)
            log.write("".join(f"kept until lab down: {path}\n" for path in outcome.kept).encode())
        return read_result(
            module,
            outcome.status,
            outcome.trouble,
            report,
            selected="::" in module or selects(self.plan.options),
            seconds=time.monotonic() - began,
        )

    def _report(self, result: ModuleResult) -> None:
        print(result.line(), flush=True)
        if result.ok:
            return
        log = self.plan.results / f"{result_name(result.module)}.log"
        if log.exists():
            print(log.read_text(errors="replace"))
        if result.trouble:
            print(result.trouble)
        sys.stdout.flush()


def pytest_command(module: str, options: Sequence[str], report: Path) -> list[str]:
    """How one module is tested: by the project's own environment if there is one."""
    venv = places.REPOSITORY / ".venv" / "bin" / "python"
    python = str(venv) if venv.exists() else "python3"
    # The cache of pytest would be written to a root that is thrown away.
    fixed = ["-p", "no:cacheprovider", "-q", "--color=no", f"--junitxml={report}"]
    return [python, "-m", "pytest", *fixed, *options, module]


def find_modules(words: Sequence[str], start: Path) -> list[str]:
    """Test modules named by files, directories or test ids, each once, in order.

    Raises FileNotFoundError for a word that names nothing: a mistyped module must not pass unseen.
    """
    found: dict[str, None] = {}
    for word in words:
        path = start / word.partition("::")[0]
        if path.is_dir():
            inside = sorted(path.rglob("test_*.py"))
            if not inside:
                raise FileNotFoundError(f"no test_*.py in {word}")
            found.update({_shortest(module, start): None for module in inside})
        elif path.is_file():
            found[word] = None
        else:
            raise FileNotFoundError(f"no such test module: {word}")
    return list(found)


def _shortest(path: Path, start: Path) -> str:
    return str(path.relative_to(start) if path.is_relative_to(start) else path)


def result_name(module: str) -> str:
    """A file name for the results of a module."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", module.removesuffix(".py")).strip("-")


def selects(options: Sequence[str]) -> bool:
    """Whether pytest's options choose among the tests, so that a module may rightly have none."""
    return any(option.split("=")[0] in SELECTING for option in options)


def default_disks() -> tuple[Disk, ...]:
    """The disk that every tested module gets."""
    return (Disk(size=parse_size("8G")),)
