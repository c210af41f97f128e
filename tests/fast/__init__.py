"""The lane that breaks every job in seconds, in `make check`.

Here zbackup's own jobs run, unchanged, in a world in memory: pools behind a fake `zfs` (pool.py, zfs.py,
runner.py), a database server whose transactions are numbers (server.py), clones with servers, files, and a
clock that commands move on (world.py). Everything that changes anything passes one door, and there it breaks
(breaking.py): each change of a job fails without effect, fails although it took effect, is interrupted, or is
where the process is killed. What is left must be right (right.py): nothing foreign is touched, what is listed
is true, no lock, hold, clone, server or draft stays. Then the job is run again, and the end must be that of
never having been broken.

The fake zfs is held true: script.py is a row of commands, recorded.json what a real zfs said to them, and
both must say so today (test_fake_zfs.py here, and the one in tests/platform on a real pool). tests/faults is
the same with real servers, for fewer jobs.
"""
