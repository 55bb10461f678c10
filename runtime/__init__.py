"""Runtimes execute: the pure coordinator (ledger, membership, data service) and what carries its orders out."""
