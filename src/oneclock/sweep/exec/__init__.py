"""Where runs execute: this machine, its processes, a worker that shares a study, Slurm, Dask, torchrun."""
