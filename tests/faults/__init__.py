"""Every fault of the contract, injected: nothing is lost, nothing comes twice, nothing is left behind.

The oracle of all of them is in `oracle`: at each moment a reader sees none of a job's rows or all of them,
and running the same command again ends in the rows of an undisturbed load. What happens at random takes its
moments from a seed that is printed; TIPPLE_LONG=1 runs hundreds of rounds, TIPPLE_SEED=n takes another seed.
"""
