"""Many jobs on shared emulated hosts, as processes: carries out the decisions of the cluster's automaton."""
