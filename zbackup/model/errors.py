"""Every failure zbackup can name. The exit status is part of the name.

The table in docs/reference/exit-status.md is made from this module: a class, its number, its docstring.
"""

from typing import ClassVar


class ZbackupError(Exception):
    """Something failed that has no better name."""

    exit_status = 1


class UsageError(ZbackupError):
    """The command line asks for something that does not make sense, such as an unreadable time."""

    exit_status = 2


class Declined(ZbackupError):
    """You answered no when you were asked; nothing was changed."""


class ConfigError(ZbackupError):
    """The configuration is missing, unreadable or wrong. All problems are listed at once."""

    exit_status = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class CommandFailed(ZbackupError):
    """An external program (zfs, mount, a server) ended with an error or did not answer in time."""

    exit_status = 3
    remedy: ClassVar[str] = ""
    """Advice on what to do, where what the program said is not enough."""
    ended: ClassVar[str] = " exited with {}"

    def __init__(self, argv: tuple[str, ...], returncode: int, stderr: str, where: str = "") -> None:
        """`where` names the host it ran on, if not this one."""
        lines = stderr.strip().splitlines() or ["no message"]
        # zfs says first what it cannot do, and then gives advice; most others come to the point last.
        why = next((line for line in lines if line.startswith("cannot ")), lines[-1])
        on = f" on {where}" if where else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        super().__init__(f"{' '.join(argv[:2])}{on}{self.ended.format(returncode)}: {why}{remedy}")
        self.argv, self.returncode, self.stderr, self.where = argv, returncode, stderr, where


class CommandTimedOut(CommandFailed):
    """An external program did not end within its time limit."""

    ended = ""


class NotInstalled(CommandFailed):
    """An external program cannot be started: it is not installed, or not in PATH."""

    def __init__(self, argv: tuple[str, ...], returncode: int, stderr: str, where: str = "") -> None:
        super().__init__(argv, returncode, stderr, where)
        self.args = (f"cannot run {argv[0]}: {stderr}; is it installed and in PATH?",)


class ConnectionFailed(CommandFailed):
    """Another host cannot be reached, is not the one it was, or the connection to it broke."""

    exit_status = 12

    def __init__(self, argv: tuple[str, ...], returncode: int, stderr: str, where: str = "") -> None:
        super().__init__(argv, returncode, stderr, where)
        said = "; ".join(line.strip() for line in stderr.strip().splitlines()[-3:])
        told = f"no connection to {where}: {said}"
        if not said:
            told = (
                f"the connection to {where} was cut: ssh ended with {returncode} and said nothing; "
                f"try again when the host and the network are up"
            )
        self.args = (told,)


class BucketRefused(ZbackupError):
    """An S3 server answered, and said no: permission, bucket, quota, credentials, clock."""

    exit_status = 3

    def __init__(self, message: str, code: str) -> None:
        """`code` is the server's own word for it."""
        super().__init__(message)
        self.code = code


class DatasetNotFound(CommandFailed):
    """A dataset, snapshot or bookmark does not exist."""

    exit_status = 4


class DatasetExists(CommandFailed):
    """A dataset or snapshot of that name is already there."""

    exit_status = 10


class DatasetBusy(CommandFailed):
    """A dataset is held, cloned from, or mounted and in use."""

    exit_status = 10


class Stopped(CommandFailed):
    """Work was cut short because zbackup was told to end; the next run continues it."""

    ended = ""


class NotReceivable(CommandFailed):
    """A dataset was changed since the last stream and cannot take the next one. Nothing was overwritten."""

    exit_status = 13


class StreamRefused(CommandFailed):
    """zfs receive can make nothing of a stream: it is damaged, of a newer ZFS, or not the rest it awaits."""


class NotDelivered(ZbackupError):
    """Somebody who is to be told could not be reached, or did not take the message."""

    exit_status = 12


class NotResumable(ZbackupError):
    """A stream that was cut off cannot be continued where it was; it has to start again."""


class PoolSuspended(CommandFailed):
    """The pool has lost its disks and answers nothing until they are back (zpool clear)."""

    exit_status = 3


class PoolReadOnly(CommandFailed):
    """The pool is imported read-only: nothing on it can be made, marked or destroyed."""

    exit_status = 3

    def __init__(self, argv: tuple[str, ...], returncode: int, stderr: str, where: str = "") -> None:
        super().__init__(argv, returncode, stderr, where)
        on = f" on {where}" if where else ""
        what = next((line for line in stderr.splitlines() if line.startswith("cannot ")), " ".join(argv[:2]))
        told = what.strip().removesuffix(": pool is read-only")
        self.args = (
            f"the pool{on} is read-only: {told}; export it and import it without readonly=on before "
            "anything on it is to change",
        )


class KeyNotLoaded(CommandFailed):
    """A dataset is encrypted and its key is not loaded: it cannot be mounted, read or received into."""

    exit_status = 3
    remedy = "load its key with zfs load-key (zfs get encryptionroot names the dataset), and try again"


class PoolFull(CommandFailed):
    """The pool or a quota has no room left."""

    exit_status = 3
    remedy = "zfs list -o space shows what takes the room, zbackup prune gives back what no rule keeps"


class NoRoomForSnapshot(ZbackupError):
    """A dataset's refreservation leaves no room for a snapshot. None was taken."""

    exit_status = 3


class NotFound(ZbackupError):
    """The instance, snapshot or clone named does not exist."""

    exit_status = 4


class NotRecoverable(ZbackupError):
    """No backup and log coverage reaches the wanted moment; the message holds the recovery window."""

    exit_status = 5


class ClockDisputed(ZbackupError):
    """Times in the log contradict its order at the target, and leave two positions for it (named)."""

    exit_status = 15


class ClockAccepted(ZbackupError):
    """The restore was made, and went by times in the log that are disputed (--accept-clock)."""

    exit_status = 16


class DatabaseError(ZbackupError):
    """The database cannot be reached, refused the login, or lacks a privilege (named)."""

    exit_status = 7


class NotInService(DatabaseError):
    """The server runs, but nobody can work with it until its operator has done something (named)."""


class LockNotTaken(ZbackupError):
    """The database's lock was not obtained, or could not be held to the end; nothing was kept."""

    exit_status = 8


class Refused(ZbackupError):
    """The request would not be safe, for example data on two pools. Nothing was changed."""

    exit_status = 9


class KeyElsewhere(Refused):
    """A copy's encryption root was changed at the destination: the source's key does not open it."""


class PrivateKeyElsewhere(Refused):
    """The backup is encrypted for a private key that is not on this host. Nothing was made."""


class NoArchive(Refused):
    """No log can be archived at a destination of this kind, so that none was."""


class Taken(ZbackupError):
    """A name or port is in use, or another zbackup works on the same instance."""

    exit_status = 10


class Diverged(ZbackupError):
    """Source and destination have nothing in common to go on from. Nothing was changed or overwritten."""

    exit_status = 13


class Postponed(ZbackupError):
    """A drill on schedule gave way to other work, or there was nothing to try yet. It proves nothing."""

    exit_status = 10


class VerificationFailed(ZbackupError):
    """A backup or a recovered server is not what was recorded, or nothing could be compared."""

    exit_status = 11


class ReplayFailed(VerificationFailed):
    """A recovered server could not apply a transaction of the log."""


class Disproved(VerificationFailed):
    """The recovered server shows that the search of the log found the wrong transaction."""

    def __init__(self, message: str, found: str, *, goes_on: bool) -> None:
        """`found` is the position of the wrong transaction; `goes_on`: an earlier one may be right."""
        super().__init__(message)
        self.found, self.goes_on = found, goes_on


class CopyIncomplete(ZbackupError):
    """A copy or undo is done, but production's other rows or rules kept out some (named)."""

    exit_status = 17


class OtherZone(ZbackupError):
    """Restored, but in another time zone than the original's: its local times may differ."""

    exit_status = 18


class OtherSettings(ZbackupError):
    """Restored, but with other settings or tables than the original's: its rows may differ."""

    exit_status = 19


class NotRemoved(ZbackupError):
    """Done, but temporary datasets are in use and will be removed later."""

    exit_status = 20


class MaskingFailed(ZbackupError):
    """A dev clone could not be masked: it was destroyed, or is kept where nobody reaches it."""

    exit_status = 14
