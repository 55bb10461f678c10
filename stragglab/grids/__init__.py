"""Many jobs for one result: which, in forks or one after another, and the records that they leave."""
