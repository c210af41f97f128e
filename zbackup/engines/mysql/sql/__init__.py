"""SQL as text: the lexer of both dialects, and the one place that quotes names and texts. Pure.

Statements that a server printed are taken apart by tokens, never by lines or regular expressions.

Read first: quoting; then lexer.
"""
