"""`make bench`: ours beside its peers, alternated in one run, as ratios. Start with README.md."""
