"""Operations: what somebody at the web page may ask one with root's rights to do with clones.

order says what may be asked, and parses it; act does it; record keeps how it went.

Read first: order; then act.
"""
