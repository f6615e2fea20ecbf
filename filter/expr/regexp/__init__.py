"""Regular expressions that the engines of both families answer alike, as finite automata."""
