"""`icdc ui`: a page that shows pipelines, for this person alone. Reads, and changes nothing."""
