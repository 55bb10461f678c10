"""Who sums the gradients of replicas."""
