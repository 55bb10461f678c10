"""Workers, servers and replicas on the virtual clock."""
