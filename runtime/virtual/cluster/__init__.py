"""Many jobs on shared hosts on the virtual clock: carries out the decisions of the cluster's automaton."""
