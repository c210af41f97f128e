"""A bucket as a destination: streams cut into segments, compressed, encrypted, and found again.

Only destinations.s3.server speaks to the library. session is the front door; docs/reference/s3-layout.md
tells what lies where. Read first: session; then segments (in), fetching (out), chains (which streams make a
snapshot), commit, verify and garbage_collection.
"""
