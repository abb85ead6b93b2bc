"""Keys that judge records when all are stored, and the records that they refuse."""
