"""Pick some labels: a pool of labels that the rows of a batch share, losses over it, and what learns from them."""
