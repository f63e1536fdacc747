"""One classifier a label over all labels, trained chunk by chunk of the labels in place."""
