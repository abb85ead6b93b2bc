"""Loads of partitioned tables, partition by partition."""
