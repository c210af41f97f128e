"""A recovery window as geometry: what lies where on a strip of time, in a bounded number of shapes. Pure.

answer tells in words whether a moment can be restored.

Read first: picture; then axis.
"""
