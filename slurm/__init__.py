"""The bridge to Slurm: collector, adviser, mover.

The way of a snapshot: ``client`` or ``rest`` ask Slurm; ``jobs``, ``nodes``, ``steps`` and ``topology`` read
the answers; ``sources`` puts them together as a reading; ``build`` makes a snapshot of it, as ``site`` says;
``watch`` sends it through ``posting``. ``advise`` proposes nodes for pending jobs, ``execution`` carries
plans out.
"""
