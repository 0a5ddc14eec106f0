"""The facts of Metal texts as they are written, before the preprocessor runs."""
