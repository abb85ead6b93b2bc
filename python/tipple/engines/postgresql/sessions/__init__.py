"""A load's sessions with the server: what they wait for, and for whom."""
