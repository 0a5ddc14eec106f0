"""Checks of functions that ``mx.compile`` traces: COMPILE rules."""
