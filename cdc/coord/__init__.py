"""The coordination store: contract, implementations, keys, leases, election, messages."""
