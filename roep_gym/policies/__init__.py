"""Policies and their protocol.

`base` is the boundary between an evaluation and a policy, `registry` makes policies by name, `contract_suite` tests any
policy against the protocol. The policies themselves (`random`, `expert`, `sb3`, `openpi`, `function`) are imported
only when they are asked for.
"""
