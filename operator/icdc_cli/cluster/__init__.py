"""Commands about a pipeline in a cluster: what `kubectl icdc …` adds to `kubectl`.

They read and patch the pipeline and nothing else; the operator does the work. So a person needs no
permission but on pipelines (and on pods, for logs and answers), all that happens is in the resource
for others to see, and a command that is killed has changed one field or none.

    kubeconfig    which context and namespace     credentials   how to log in there
    thin_client   the requests                    session       from arguments to a pipeline
    status, logs, change, asking                  one command, or a few, each
"""
