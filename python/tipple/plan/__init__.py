"""Pure planning: no I/O, no clock, no environment."""
