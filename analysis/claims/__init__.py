"""What the papers report, what runs here say to it, and a verdict for each: facts, answers and rules apart."""
