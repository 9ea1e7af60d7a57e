"""Names, pages of other sites, and routes that are switched off."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from luce.cli.serve import Access
from luce.serve import create_app
from luce.serve.access import LOCAL
from tests.serve.test_service import Client, refusal


@pytest.fixture(scope="module")
def local(models) -> Client:
    return Client(create_app({"linear": models["linear"]}, hosts=[*LOCAL, "ranker.example"]))


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "10.0.0.7", "[::1]:8000", "ranker.example."],
)
def test_names_of_its_own(local, host):
    assert local.request("GET", "/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "", "[x"])
@pytest.mark.parametrize("path", ["/health", "/models", "/metrics", "/docs"])
def test_other_names_are_refused(local, host, path):
    assert refusal(local.request("GET", path, headers={"Host": host})) == (421, "unknown_host")


def test_two_names_are_refused(local):
    headers = [("Host", "localhost"), ("Host", "localhost")]
    assert refusal(local.request("GET", "/health", headers=headers)) == (421, "unknown_host")


def test_names_that_are_given_are_all(models):
    client = Client(create_app({"linear": models["linear"]}, hosts=["ranker.example"]))
    assert client.request("GET", "/health", headers={"Host": "ranker.example:443"}).status_code == 200
    assert refusal(client.request("GET", "/health", headers={"Host": "127.0.0.1"})) == (421, "unknown_host")


def test_the_command_checks_names_unless_there_is_a_token(tmp_path):
    assert Access().hosts("0.0.0.0") == [*LOCAL, "0.0.0.0"]
    assert Access(token_file=tmp_path).hosts("0.0.0.0") is None
    assert Access(token_file=tmp_path, allow_host=["a.example"]).hosts("0.0.0.0") == ["a.example"]
    assert Access(allow_host=["a.example", "*"]).hosts("0.0.0.0") is None


@pytest.mark.parametrize("path", ["/rank", "/models/linear/rank", "/reload"])
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Origin": "https://evil.example"}, (403, "cross_site")),
        ({"Origin": "null"}, (403, "cross_site")),
        ({"Origin": "http://localhost:9999"}, (403, "cross_site")),
        ({"Origin": "https://evil.example", "Content-Type": "text/plain"}, (403, "cross_site")),
        ({"Content-Type": "text/plain"}, (415, "form_body")),
        ({"Content-Type": "application/x-www-form-urlencoded"}, (415, "form_body")),
        ({"Content-Type": "Multipart/Form-Data; boundary=x"}, (415, "form_body")),
    ],
)
def test_forms_and_pages_of_other_sites_are_refused(models, path, headers, expected):
    client = Client(create_app({"linear": models["linear"]}))
    body = b'{"features": [[1, 2, 3, 4, 5]]}'
    assert refusal(client.request("POST", path, content=body, headers=headers)) == expected


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "application/json; charset=utf-8"},
        {"Origin": "http://test"},  # the page /docs of this service
        {"Origin": "https://ranker.example", "Host": "localhost:8000"},  # the same behind a proxy
    ],
)
def test_own_pages_and_other_programs_may_ask(local, models, headers):
    client = local if "Host" in headers else Client(create_app({"linear": models["linear"]}))
    body = b'{"features": [[1, 2, 3, 4, 5]]}'
    assert client.request("POST", "/rank", content=body, headers=headers).status_code == 200
    assert client.request("POST", "/reload", headers=headers).status_code == 200


def test_pages_can_be_switched_off(models):
    on = Client(create_app({"linear": models["linear"]}))
    off = Client(create_app({"linear": models["linear"]}, docs=False, metrics=False))
    for path in ("/docs", "/openapi.json", "/metrics", "/assets/swagger-ui.css"):
        assert on.request("GET", path).status_code == 200
        assert refusal(off.request("GET", path)) == (404, "not_found")
    assert "/docs" not in off.request("GET", "/metrics").text
    assert off.request("GET", "/health").status_code == 200


def test_the_command_has_the_options():
    from luce.cli.app import app

    said = CliRunner().invoke(app, ["serve", "--help"]).output
    assert all(option in said for option in ("--allow-host", "--no-docs", "--no-metrics"))
