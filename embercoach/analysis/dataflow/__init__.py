"""Where values come from, where they go, whether they are evaluated, and what functions do."""
