"""Plans the files of a snapshot: manifests, data files, their delete files and bounds."""
