"""`make bench`: ours next to its peers, alternated in one run, as ratios. Start with README.md."""
