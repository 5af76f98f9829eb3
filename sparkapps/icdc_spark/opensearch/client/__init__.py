"""The connection to OpenSearch: requests, retries, errors, tasks and scans."""
