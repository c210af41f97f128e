"""A bucket as a destination: streams cut into segments, compressed, encrypted, and found again.

Only server speaks to the library; docs/reference/s3-layout.md tells what lies where. A stream goes in by
segments and comes out by fetching, where it is verified; chains tells which streams make a snapshot.

Read first: session; then segments, fetching, commit and garbage_collection.
"""
