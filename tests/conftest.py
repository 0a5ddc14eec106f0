"""What the whole suite shares."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no fault of an example: no test here is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
