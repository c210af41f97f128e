"""Judge who can read what lies in a bucket: whoever owns a host has every key that is on it. Pure."""

from collections.abc import Iterator

from zbackup.model.finding import Finding
from zbackup.model.shipping import Readers

KEY_COMMAND = "zbackup key --new FILE"


def of_keys(found: Readers, destination: str, *, reads: str = "") -> Iterator[Finding]:
    """List what there is to say of a destination. `reads` names what is on schedule here and has to read
    what lies there, "" for nothing."""
    subject = f"keys of {destination}"
    if not found.public_key:
        if found.encrypted:
            yield Finding(
                severity="ok",
                subject=subject,
                text="this host can read its old backups: the key that encrypts them is here "
                f"(write-only: {KEY_COMMAND})",
            )
        elif found.others or found.sealed:
            yield Finding(severity="ok", subject=subject, text="zbackup does not encrypt new backups")
        return
    if found.private_key_here:
        yield Finding(
            severity="warning",
            subject=subject,
            text="this host can read its old backups: public_key is set, and its private key is in the "
            "configuration of this host, too",
            why="an intruder on this host can read every backup that it ever shipped",
            fix="remove private_key from the configuration, and the file from this host; on the "
            "host that restores: --private-key FILE",
        )
    else:
        text = f"write-only: the private key of {found.public_key} is not on this host"
        yield Finding(severity="ok", subject=subject, text=text)
    if found.others:
        count = f"{found.others} backup{'s' * (found.others != 1)}"
        yield Finding(
            severity="advice",
            subject=subject,
            text=f"{count} from before public_key was set can be read with key, which is on this host",
            why="they stay readable until they are pruned",
        )
    if reads and not found.private_key_here:
        yield Finding(
            severity="warning",
            subject=subject,
            text=f"{reads} is on schedule here, and fails: it needs the private key",
            fix="schedule it on a host that has the private key",
        )
