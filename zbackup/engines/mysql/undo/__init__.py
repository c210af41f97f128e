"""Take back one transaction by its row images. Read session; values, for what a log's bytes mean."""
