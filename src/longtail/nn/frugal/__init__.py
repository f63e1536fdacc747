"""Small nets over word vectors with a classifier a label: parts that astec, decaf, eclare and inceptionxml share."""
