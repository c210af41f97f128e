"""Give a recovered server the settings of the original that no option gives, and name those that differ."""

from collections.abc import Mapping
from dataclasses import dataclass

from zbackup.engines.mysql.recovery.packets import PacketSteps
from zbackup.engines.mysql.server import settings
from zbackup.engines.mysql.server.connection import Connection, StatementFailed
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.model.progress import Progress

MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """The settings a server was given for a replay: as recorded, its values then, and those built in."""

    recorded: Mapping[str, str]
    values: Mapping[str, str]
    built_in: Mapping[str, str]

    @classmethod
    def give(cls, connection: Connection, recorded: Mapping[str, str]) -> "GivenSettings":
        """Set what differs from the record, and no limits that stop statements. Later sessions have it,
        appliers too."""
        built_in = _values(connection)
        _set(connection, {n: most for n, most in settings.NO_LIMIT.items() if n in built_in})
        _set(connection, _differing(recorded, built_in, later=False))
        return cls(recorded, _values(connection), built_in)

    def give_later(self, connection: Connection) -> None:
        """Set what could have stopped a replay."""
        limits = {name: self.built_in[name] for name in settings.NO_LIMIT if name in self.built_in}
        _set(connection, limits | _differing(self.recorded, _values(connection), later=True))

    def doubt(self, behind: Mapping[str, str], steps: PacketSteps, progress: Progress) -> str:
        """Why statements that were replayed may have given something else; "" if not.

        `behind` is Record.server of the backup behind what was replayed.
        """
        failed = {n: f"{n} is {self.values[n]} instead of {v}" for n, v in self._not_given().items()}
        changed = {
            n: f"{n} changed from {before} to {after} after the base"
            for n, (before, after) in self._changed(behind).items()
        }
        for told in _some([*failed.values(), *changed.values()]):
            progress.note(told)
        why = _some(
            [told for name, told in (failed | changed).items() if steps.text and settings.depends(name)]
        )
        if steps.torn:
            why.append(f"transactions with statements and rows larger than max_allowed_packet: {steps.torn}")
        return (
            f"statements that were logged as text may have given other rows: {'; '.join(why)}" if why else ""
        )

    def _not_given(self) -> dict[str, str]:
        return _differing(self.recorded, self.values, later=False)

    def _changed(self, behind: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """Variables that had another value at the backup behind, as far as both records tell."""
        whole = settings.ALL in self.recorded and settings.ALL in behind
        names = (self.recorded.keys() | behind.keys() if whole else self.recorded.keys() & behind.keys()) - {
            settings.ALL
        }
        found = {}
        for name in sorted(names & self.values.keys()):
            before, after = (each.get(name, self.built_in[name]) for each in (self.recorded, behind))
            if before != after and settings.depends(name):
                found[name] = (before, after)
        return found


def _set(connection: Connection, wanted: Mapping[str, str]) -> None:
    for name, value in wanted.items():
        try:
            connection.execute(f"SET GLOBAL {identifier(name)} = {settings.given(name, value)}")
        except StatementFailed:
            continue


def _values(connection: Connection) -> dict[str, str]:
    rows = connection.rows("SHOW GLOBAL VARIABLES")
    return {str(row["Variable_name"]): str(row["Value"]) for row in rows}


def _differing(recorded: Mapping[str, str], values: Mapping[str, str], *, later: bool) -> dict[str, str]:
    """What is recorded of the variables that have another value, and are given by statements."""
    return {
        name: recorded[name]
        for name, value in values.items()
        if (name in settings.LATER) == later
        and name not in settings.AT_START - settings.WORDS
        and recorded.get(name, value) != value
        and settings.given(name, recorded[name])
    }


def _some(told: list[str]) -> list[str]:
    more = len(told) - MOST_NAMED
    return [*told[:MOST_NAMED], f"{more} more"] if more > 0 else told
