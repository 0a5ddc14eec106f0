"""Tokens of Python and of MLX programs, which junk and mutated programs are made of."""

from __future__ import annotations

import keyword

KEYWORDS = (*keyword.kwlist, *keyword.softkwlist)
PUNCTUATION = (
    *("(", ")", "[", "]", "{", "}", ",", ":", ".", ";", "@", "=", "->", ":=", "..."),
    *("+", "-", "*", "/", "//", "%", "**", "~", "&", "|", "^", "<<", ">>", "+=", "**="),
    *("==", "!=", "<", ">", "<=", ">="),
)
LITERALS = ("1", "0.5", "1j", "'a'", "f'{x}'", "f'{x=}'", "'''", '"', "\\", "#", "$", "?", "`", "é")
SPACES = ("\n", "\n    ", "\n\t", "  ", "\x0c", "\r", "\r\n")
MLX = (
    *("mx", "nn", "np", "x", "self", "float", "print", "x.item()", "x.shape", "x.tolist()"),
    *("mx.array", "mx.float16", "mx.compile", "mx.eval(x)", "mx.grad(f)", "mx.vmap(f)"),
    *("float(x)", "np.array(x)", "print(x)", "*args", "**kwargs", "lambda a: a", "@mx.compile"),
    *("mx.fast.metal_kernel(", "source=", "source='", "header=", "input_names=", "grid="),
    *("threadgroup=", "template=", "output_shapes=", "output_dtypes="),
)
TOKENS = (*KEYWORDS, *PUNCTUATION, *LITERALS, *SPACES, *MLX)
