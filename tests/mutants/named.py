# ruff: noqa: E501 (what is changed stands there as it is in the product)
"""The defects that matter most: each was once not found by any quick test."""

from dataclasses import dataclass

FAST = ("tests/fast",)


@dataclass(frozen=True, slots=True)
class Mutant:
    """In `file` the text `old`, which is there once, becomes `new`. One of `tests` must fail then."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = FAST


NAMED = (
    Mutant(
        "a shard keeps what was committed at the target or later",
        "zbackup/engines/mongodb/oplog/prepared.py",
        "step.at >= stop and step.commit and step.commit < stop:",
        "step.at >= stop and step.commit:",
        ("tests/unit/engines/mongodb/test_prepared.py",),
    ),
    Mutant(
        "a log is told by its name alone where nothing was committed in the file yet",
        "zbackup/engines/mysql/binlog/same_log.py",
        "head = head_to_compare(base_file, upto)",
        "head = min(HEAD, upto)",
        ("tests/unit/engines/mysql/test_covered_log.py",),
    ),
    Mutant(
        "a cluster counts as whole before all of its members are ready",
        "zbackup/jobs/cluster/restore.py",
        "for member, ctx, r in reversed(done))",
        "for member, ctx, r in done)",
        ("tests/fast/test_cluster.py",),
    ),
    Mutant(
        "the nonce does not depend on the content",
        "zbackup/destinations/s3/encryption.py",
        'b"nonce"), position + digest, "sha256")',
        'b"nonce"), position, "sha256")',
        ("tests/unit/destinations/test_s3_nonce.py",),
    ),
    Mutant(
        "GTIDs that are missing from the recovered base are accepted",
        "zbackup/engines/mysql/recovery/verify_replay.py",
        "    if missing or (exact and extra):\n",
        "    if exact and extra:\n",
        ("tests/unit/engines/mysql/test_proof.py",),
    ),
    Mutant(
        "a log that moved under the lock is ignored",
        "zbackup/engines/mysql/lock/lock.py",
        "if now != self.status and not self._only_noted(now):",
        "if False:",
        ("tests/unit/engines/mysql/test_lock_confirmed.py",),
    ),
    Mutant(
        "the lock is not confirmed",
        "zbackup/jobs/backup/snapshot.py",
        "                lock.confirm()\n",
        "",
        ("tests/fast/test_snapshot.py",),
    ),
    Mutant(
        "the lock has no ceiling",
        "zbackup/engines/mysql/lock/lock.py",
        "    _end_when_silent(session, limits.hold)\n",
        "",
        ("tests/unit/engines/mysql/test_ceiling.py",),
    ),
    Mutant(
        "the ceiling is stretched by a statement",
        "zbackup/engines/mysql/lock/lock.py",
        "                _end_when_silent(self.session, left)\n",
        "                pass\n",
        ("tests/unit/engines/mysql/test_ceiling.py",),
    ),
    Mutant(
        "the session that has the lock is asked where the log ends",
        "zbackup/engines/mysql/lock/lock.py",
        "status=_settled(control, limits, kind, granted),",
        "status=_settled(session, limits, kind, granted),",
        ("tests/unit/engines/mysql/test_every_statement_hangs.py",),
    ),
    Mutant(
        "the watchdog of a lock ends no session",
        "zbackup/engines/mysql/lock/lock_watchdog.py",
        "            _end(connection, asked.session)\n",
        "",
        ("tests/unit/engines/mysql/test_every_statement_hangs.py",),
    ),
    Mutant(
        "an undo forgets that rows follow a key that is changed",
        "zbackup/features/undo/mysql/foreign_keys.py",
        'if step.kind == "insert":',
        'if step.kind != "delete":',
        ("tests/unit/engines/mysql/test_undo_foreign_keys.py",),
    ),
    Mutant(
        "an undo takes any row of its own for one that leaves nothing of a foreign key",
        "zbackup/features/undo/mysql/foreign_keys.py",
        "return any(column in changed for column, _ in reference.columns)",
        "return True",
        ("tests/unit/engines/mysql/test_undo_foreign_keys.py",),
    ),
    Mutant(
        "a snapshot is destroyed without a look at its guid",
        "zbackup/zfs/datasets.py",
        '        self._require_guid(str(snapshot), snapshot.guid)\n        try:\n            self._zfs("destroy",',
        '        try:\n            self._zfs("destroy",',
        ("tests/fast/test_prune.py",),
    ),
    Mutant(
        "a file system is destroyed without a look at its guid",
        "zbackup/zfs/datasets.py",
        "        self._require_guid(dataset.name, dataset.guid)\n        if dataset.name in self._mounts():",
        "        if dataset.name in self._mounts():",
        ("tests/fast/test_identities.py",),
    ),
    Mutant(
        "a restore's target is the moment, and not the end of it",
        "zbackup/model/target.py",
        "            end = target.exclusive_end\n",
        "            end = target.at\n",
        ("tests/fast/test_restore.py",),
    ),
    Mutant(
        "the clone of a failed restore is left",
        "zbackup/jobs/clones/temporary.py",
        "        take_away(ctx, clone, keep=keep)\n        raise",
        "        raise",
        ("tests/fast/test_restore.py",),
    ),
    Mutant(
        "the draft of a failed snapshot is left",
        "zbackup/jobs/backup/snapshot.py",
        "        _discard_draft(ctx, draft, names)\n        raise",
        "        raise",
        ("tests/fast/test_snapshot.py",),
    ),
    Mutant(
        "a backup that is begun to be destroyed is not marked",
        "zbackup/jobs/backup/prune.py",
        "            ctx.zfs.mark_snapshot(marked, CONDEMNED, ctx.clock.now().isoformat())\n",
        "            pass\n",
        ("tests/fast/test_prune.py",),
    ),
    Mutant(
        "the snapshot with the mark is destroyed first",
        "zbackup/jobs/backup/prune.py",
        "for snapshot in (*reversed(others), marked):",
        "for snapshot in (marked, *others):",
        ("tests/fast/test_prune.py",),
    ),
    Mutant(
        "the same at a destination",
        "zbackup/destinations/zfs_destination.py",
        "for snapshot in (*reversed(others), first):",
        "for snapshot in (first, *others):",
        ("tests/fast/test_shipping.py",),
    ),
    Mutant(
        "nothing is held while it is sent",
        "zbackup/jobs/ship/ship.py",
        "        ctx.zfs.hold(destination.tag, snapshot)\n",
        "        pass\n",
        ("tests/fast/test_shipping.py",),
    ),
    Mutant(
        "what a killed promote has in the old one's place is destroyed",
        "zbackup/jobs/dev_clones/promote.py",
        '        if clone.state == "promoting":\n            settle(ctx, clone)\n',
        "",
        ("tests/fast/test_clones.py",),
    ),
)
