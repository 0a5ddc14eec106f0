"""The language server: findings, rule pages and fixes in an editor, while it is typed."""
