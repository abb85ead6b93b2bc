"""Loads whose rows are merged into a table by key."""
