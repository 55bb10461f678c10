"""Many jobs on shared hosts on the virtual clock: who carries out what the automaton of the cluster decides."""
