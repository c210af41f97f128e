"""Take back one transaction in production. Read undo."""
