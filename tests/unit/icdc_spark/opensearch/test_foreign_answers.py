"""What OpenSearch answers is told apart from what gateways and frameworks answer in its place."""

import pytest

from icdc_spark.opensearch.client.foreign_answers import is_foreign

pytestmark = pytest.mark.unit

PAGE = "<html>"
TWO_ALIASES = '{"error":"alias [a] missing","status":404,"detail":{"aliases":{"b":{}}}}'
"""One is missing; the other one belongs to an index `detail`."""
SPRING = '{"timestamp":"2026-11-29T16:00:00Z","path":"/a","status":404,"error":"Not Found"}'
JSON, HTML = "application/json; charset=UTF-8", "text/html"


@pytest.mark.parametrize(
    ("method", "status", "content_type", "text", "foreign"),
    [
        ("GET", 200, JSON, ' {"hits":{}}', False),
        ("GET", 200, JSON, "[]", False),
        ("GET", 200, HTML, PAGE, True),
        ("GET", 200, None, "", True),
        # OpenSearch: what is missing, a path or method that it does not know, a refusal.
        ("GET", 404, JSON, '{"error":{"type":"x_exception","reason":"r"},"status":404}', False),
        ("GET", 404, JSON, '{"error":"alias [a] missing","status":404}', False),
        ("GET", 404, JSON, TWO_ALIASES, False),
        ("GET", 404, JSON, '{"_index":"icdc-state","_id":"a","found":false}', False),
        ("GET", 404, JSON, "{}", False),
        ("DELETE", 404, JSON, '{"_index":"i","_id":"a","result":"not_found"}', False),
        ("POST", 408, JSON, '{"cluster_name":"c","status":"red","timed_out":true}', False),
        ("PUT", 400, JSON, '{"acknowledged":false}', False),
        ("GET", 400, JSON, '{"error":"no handler found for uri [/x] and method [GET]"}', False),
        ("POST", 405, JSON, '{"error":"Incorrect HTTP method for uri [/x]","status":405}', False),
        ("GET", 400, JSON, '{"error":{"type":"x"},"message":"m"}', False),
        # Kong, APISIX, Spring, others, Amazon, FastAPI, RFC 9457, Google, Apigee, IBM, Rails.
        ("GET", 404, JSON, '{"message":"no Route matched with those values"}', True),
        ("GET", 404, JSON, '{"error_msg":"404 Route Not Found"}', True),
        ("GET", 404, JSON, SPRING, True),
        ("GET", 404, JSON, '{"error":"Not Found"}', True),
        ("GET", 404, JSON, '{"error":"Not Found","statusCode":404}', True),
        ("GET", 404, JSON, '{"code":404,"msg":"not found"}', True),
        ("GET", 404, JSON, '{"errors":[{"status":"404"}]}', True),
        ("POST", 400, JSON, '{"Message":"Your request is not allowed."}', True),
        ("GET", 404, JSON, '{"detail":"Not Found"}', True),
        ("GET", 404, JSON, '{"type":"about:blank","title":"Not Found","status":404}', True),
        ("GET", 404, JSON, '{"error":{"code":404,"status":"NOT_FOUND"}}', True),
        ("POST", 400, JSON, '{"fault":{"faultstring":"x","detail":{}}}', True),
        ("POST", 400, JSON, '{"httpCode":"400","httpMessage":"Bad Request"}', True),
        ("GET", 404, JSON, '{"status":404,"error":"Not Found"}', True),
        ("GET", 404, JSON, '{"error":["x"],"status":404}', True),
        ("GET", 404, JSON, '{"error":null,"status":404}', True),
        ("GET", 404, JSON, "[]", True),
        ("GET", 404, HTML, PAGE, True),
        ("POST", 400, HTML, PAGE, True),
        ("POST", 301, None, "", True),
        ("POST", 405, HTML, PAGE, True),
        ("POST", 408, HTML, PAGE, True),
        # Whoever says so, it is the same.
        ("POST", 401, "text/plain", "Unauthorized", False),
        ("POST", 403, HTML, PAGE, False),
        ("POST", 413, None, "", False),
        ("POST", 429, HTML, PAGE, False),
        ("POST", 502, HTML, PAGE, False),
        ("HEAD", 404, JSON, "", False),
        ("HEAD", 200, JSON, "", False),
        ("HEAD", 404, None, "", False),
        ("HEAD", 404, HTML, "", True),
    ],
)
def test_an_answer_that_cannot_be_from_opensearch_is_recognised(
    method: str, status: int, content_type: str | None, text: str, foreign: bool
) -> None:
    assert is_foreign(method, status, content_type, text) is foreign
