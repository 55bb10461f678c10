"""The peers: each module starts its own processes, warms up, measures, and ends them. Called through launch.py only."""
