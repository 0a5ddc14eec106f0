"""Convolutions along time, each channel with a filter of its own."""
