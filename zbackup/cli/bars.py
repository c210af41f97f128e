"""Bars on a terminal that show how far a job is."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from zbackup.model.printable import printable


class Bars:
    """The running phase with its time; with bytes, rate and what remains once the amount is known."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: Progress | None = None
        self._task: TaskID | None = None
        self._name = ""
        self._measured = ""

    def phase(self, name: str, detail: str = "") -> None:
        if not name:
            self.close()
            return
        self._name = printable(f"{name} ({detail})" if detail else name)
        self._show((TextColumn("{task.description}", markup=False), TimeElapsedColumn()), total=None)
        self._measured = ""

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        if self._measured != unit:
            amount = (DownloadColumn(binary_units=True), TransferSpeedColumn()) if unit == "B" else (
                TextColumn(f"{{task.completed}}/{{task.total}} {unit}", markup=False),
            )  # fmt: skip
            columns = (
                TextColumn("{task.description}", markup=False), BarColumn(), *amount, TimeRemainingColumn(),
            )  # fmt: skip
            self._show(columns, total=total)
            self._measured = unit
        if self._shown is not None and self._task is not None:
            self._shown.update(self._task, completed=done, total=total)

    def note(self, text: str) -> None:
        self._console.print(f"zbackup: {printable(text)}", markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._shown is not None:
            self._shown.stop()
            self._shown = None

    def _show(self, columns: tuple[object, ...], *, total: int | None) -> None:
        self.close()
        self._shown = Progress(SpinnerColumn(), *columns, console=self._console, transient=True)  # type: ignore[arg-type]
        self._task = self._shown.add_task(self._name, total=total)
        self._shown.start()
