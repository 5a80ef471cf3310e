"""An independent oracle for the planner: random snapshots and exact optima by enumeration.

Works on plain documents (docs/contract.md, format 1) and imports nothing of the library, so that a
misreading of the contract there is not repeated here by shared code.
"""
