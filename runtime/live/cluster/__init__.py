"""Many jobs on shared emulated hosts, as processes: who carries out what the automaton of the cluster decides."""
