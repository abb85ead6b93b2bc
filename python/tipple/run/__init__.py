"""The verbs: what the command line and the library both call."""
