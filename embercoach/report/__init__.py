"""Reports: what a run found, for people and for programs. One module a format."""
