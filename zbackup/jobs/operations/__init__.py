"""Operations: what somebody at the web page may ask one with root's rights to do with clones.

Begin with `order.py`, which says what is never asked; `act.py` does it, `record.py` keeps how it went.
"""
