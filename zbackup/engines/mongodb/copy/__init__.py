"""Collections out of a clone and back into production. Read session, then plan_collection and fill."""
