"""Collectives, which sum the gradients of replicas."""
