"""Descriptions of the machines of a cluster, independent of the runtime that uses them."""
