"""Scaling: how a job gets other nodes while it trains, for all strategies that decide how many (pure)."""
