"""Tables, figures and the page: they draw values, and compute none."""
