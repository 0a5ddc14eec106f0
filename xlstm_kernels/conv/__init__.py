"""Convolutions along time, with a separate filter for each channel."""
