"""Studies of many small trainings, which run at once in one process as a stacked ensemble."""
