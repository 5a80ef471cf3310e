"""Solvers, one file each: a :class:`~monkeytree.program.Program` in, an ``Outcome`` out.

Each adapter has ``NAME``, ``refusal(program) -> str | None`` (why it cannot take the program, as far
as can be told beforehand) and ``solve(program, time_limit_s) -> Outcome``.
"""
