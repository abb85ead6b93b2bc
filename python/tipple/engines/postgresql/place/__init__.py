"""What it takes for a staged table to take another one's place unnoticed, and what is done where it cannot."""
