"""Tables and collections out of a clone, back into production. Read copy."""
