"""What a spec's data names -> batches: text and images, local copies first."""
