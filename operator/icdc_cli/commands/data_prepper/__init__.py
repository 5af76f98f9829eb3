"""`icdc convert data-prepper`: a pipeline from one of Data Prepper with an Iceberg source.

    command       reads the file, prints the pipeline with its remarks as comments
    pipelines     finds the pipeline, converts source and tables
    catalogs      converts a catalog, and hides what may be a credential
    sinks         converts the OpenSearch sink
    sections      one mapping of the file: what was read, what was passed over
    manifest      writes the result for kubectl
    remarks       options that have no counterpart, and what to do instead

Pure but for `command`: nothing is asked, and no value that may be a credential is repeated.
"""
