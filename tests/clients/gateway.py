"""A running `kassette dev`, found by its ready file; its payers; and waiting for a condition."""

import json
import os
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import httpx
from kassette_client import AuthenticatedClient, Client

READY = json.loads(Path(os.environ["KASSETTE_READY_FILE"]).read_text())
MERCHANT = READY["merchants"][0]


def client(token):
    return AuthenticatedClient(base_url=READY["base_url"], token=token, timeout=httpx.Timeout(30))


def stranger():
    return Client(base_url=READY["base_url"])


def operate(method, path, body):
    """Calls the admin API as an operator; the path is relative to `admin_url`."""
    headers = {"Authorization": f"Bearer {READY['operator_token']}"}
    answer = httpx.request(method, READY["admin_url"] + path, json=body, headers=headers)
    answer.raise_for_status()
    return answer.json()


def key(*scopes):
    """A test key of the demo shop with these scopes."""
    body = {"environment": "test", "scopes": scopes}
    return operate("POST", f"/merchants/{MERCHANT['merchant_id']}/keys", body)["key"]


def until(what, ask):
    """Repeats `ask` until its result is true and returns it. Fails after 45 s."""
    patience = time.monotonic() + 45
    while time.monotonic() < patience:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.5)
    raise AssertionError(f"{what} did not come in 45 s")


class Page(HTMLParser):
    """The first form of a page and its main link."""

    def __init__(self, text):
        super().__init__()
        self.action, self.fields, self.primary = None, {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        if tag == "form" and self.action is None:
            self.action = of["action"]
        elif tag == "input" and of.get("type") == "hidden":
            self.fields[of["name"]] = of["value"]
        elif tag == "a" and of.get("class") == "primary":
            self.primary = of["href"]


def pay(payment, method, outcome):
    """Chooses a method on the hosted page and presses a button on the provider's."""

    def read(url):
        answer = httpx.get(url)
        answer.raise_for_status()
        return Page(answer.text)

    def send(url, fields):
        address = httpx.URL(url)
        origin = f"{address.scheme}://{address.netloc.decode()}"
        answer = httpx.post(url, data=fields, headers={"Origin": origin})
        assert answer.status_code == 303, f"{url}: {answer.status_code} {answer.text}"
        return urljoin(url, answer.headers["Location"])

    seen = read(payment.checkout_url).fields
    way = send(f"{payment.checkout_url}/choose", seen | {"payment_method": method})
    provider = read(way).primary
    page = read(provider)
    send(urljoin(provider, page.action), page.fields | {"outcome": outcome})
