"""Many runs: the protocol (which), targets (what), the engine (where)."""
