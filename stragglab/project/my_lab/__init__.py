"""Code that the configurations of this project name."""
