"""Numbers as the unevaluated sum of two float32 (double-float): twice the digits."""
