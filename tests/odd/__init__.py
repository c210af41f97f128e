"""Odd servers: combinations of names, links, settings and properties, each restored and compared."""
