"""The binlog read from its files, without a server: where to stop, what came last, is it the same log."""
