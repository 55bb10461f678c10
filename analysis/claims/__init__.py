"""The claims of the papers, the answers of our runs, and a verdict for each: facts, answers and rules kept separate."""
