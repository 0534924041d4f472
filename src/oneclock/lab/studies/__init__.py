"""The new studies: many small trainings at once in one process, as one stacked ensemble."""
