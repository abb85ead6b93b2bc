"""What a user sees of a job: progress while it runs, tables at its end, and the summary for programs."""
