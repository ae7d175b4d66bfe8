"""From records to verdicts: pairing, metrics, noise floor, admission, checks and gate; nothing here runs a policy."""
