"""SQL as text: the lexer of both dialects, and the one place that quotes."""
