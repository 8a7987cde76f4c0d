"""Runs schemathesis over one of the gateway's own OpenAPI documents, with keys or an operator's token.

Usage: run.py READY_FILE public|admin [MAX_EXAMPLES]

Fails on a status or body that the document does not describe, on a server error, and where most
calls never got past authentication: a fuzzer that stops at 401 tests nothing.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

# A payment id of the right form that no payment has is 404, and so the documents say; the two checks
# presume that every valid request succeeds.
PRESUMING = "positive_data_acceptance,unsupported_method"

# What is wrong may be too large before it is read.
CHECKS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 428, 429]
"""

# Whose key goes with which path.
PUBLIC = """
[headers]
Authorization = "Bearer {merchant}"

[[operations]]
include-path-regex = "^/api/v1/reseller/"
headers = {{ Authorization = "Bearer {reseller}" }}
"""

ADMIN = """
[headers]
Authorization = "Bearer {token}"
"""

# Things that there are, so that calls get beyond 404. Deletions draw ids of their own.
EXISTING = """
[[operations]]
include-path-regex = '{path}'
exclude-method = "DELETE"
parameters = {{ {name} = {value} }}
"""

# The clock stands still for all others, callbacks go where they went, and the operator whose token this
# is stays; a module is what was compiled, which no drawn bytes are (tests/e2e uploads them).
LEFT_OUT = ["moveClock", "redirectCallbacks", "removeOperator", "uploadPlugin"]

# Most calls must be judged by more than their credential.
LEAST_SHARE = 0.5


def call(base, token, path, body=None, method=None):
    """What a JSON API answers."""
    request = urllib.request.Request(
        base + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or "null")


def paid(base, key):
    """The id of a payment that was paid at the sandbox."""
    payment = call(
        base, key, "/payments",
        {"order_id": "tried", "idempotency_key": "tried-refunds", "amount": "9999.99", "currency": "EUR",
         "checkout_mode": "direct", "payment_method": "ideal"},
    )["payment_id"]
    started = call(base, key, "/payments/start", {"payment_id": payment, "payment_method": "ideal"})
    page, _, session = started["redirect_url"].rpartition("/")
    form = urllib.parse.urlencode({"session": session, "outcome": "approve"}).encode()
    urllib.request.urlopen(page, data=form, timeout=30).close()
    for _ in range(300):
        if call(base, key, f"/payments/{payment}")["status"] == "completed":
            return payment
        time.sleep(0.1)
    sys.exit("the payment to be given back was never completed")


def endpoints(path, key):
    """The ids of the endpoints that a key's owner has in its environment."""
    ids, cursor = set(), ""
    while cursor is not None:
        page = call(path, key, "?limit=100" + (cursor and "&cursor=" + cursor))
        ids |= {each["id"] for each in page["webhook_endpoints"]}
        cursor = page["next_cursor"]
    return ids


def public(ready):
    """The document's address, the settings, further arguments, and what to do at the end."""
    base = ready["base_url"] + "/api/v1"
    merchant = ready["merchants"][0]["merchant_id"]
    scopes = ["payments:create", "payments:read", "payments:refund", "account:manage"]
    key = call(
        ready["admin_url"], ready["operator_token"], f"/merchants/{merchant}/keys",
        {"environment": "test", "scopes": scopes},
    )["key"]
    reseller = ready["resellers"][0]["reseller_id"]
    scopes = ["reseller:invite", "reseller:payments:create", "reseller:payments:read", "reseller:refund", "account:manage"]
    reseller = call(
        ready["admin_url"], ready["operator_token"], f"/resellers/{reseller}/keys",
        {"environment": "test", "scopes": scopes},
    )["key"]
    payment = paid(base, key)
    refund = call(
        base, key, f"/payments/{payment}/refunds",
        {"idempotency_key": "tried-refunds", "amount": "1.00"},
    )["refund_id"]
    things = [(r"/payments/\{payment_id\}/refunds$", "payment_id", payment), ("/refunds/", "refund_id", refund)]
    # Test requests need no signature; tests/e2e signs live ones.
    config = PUBLIC.format(merchant=key, reseller=reseller)
    config += "".join(
        EXISTING.format(path=path, name=name, value=json.dumps(value)) for path, name, value in things
    )
    owners = [(base + "/account/webhook-endpoints", key), (base + "/reseller/webhook-endpoints", reseller)]
    before = [endpoints(*owner) for owner in owners]

    # Drawn addresses never answer: a later move of this gateway's clock would wait for them.
    def tidy():
        for (path, key), were in zip(owners, before):
            for each in endpoints(path, key) - were:
                call(path, key, f"/{each}", method="DELETE")

    return ready["base_url"] + "/openapi.json", config, [], tidy


def admin(ready):
    """The same of the operators' API, with one of everything that its paths name."""
    base, token = ready["admin_url"], ready["operator_token"]

    def made(path, body):
        return call(base, token, path, body)

    # Of its own: what is tried with it harms none that others use.
    merchant = made("/merchants", {"name": "Tried"})["merchant_id"]
    reseller = made("/resellers", {"name": "Tried"})["reseller_id"]
    endpoint = made(
        f"/merchants/{merchant}/webhook-endpoints",
        {"url": "https://shop.example/hook", "environment": "test"},
    )["id"]
    payment = call(
        ready["base_url"] + "/api/v1", ready["merchants"][0]["test_key"], "/payments",
        {"order_id": "tried", "idempotency_key": "tried-" + endpoint, "amount": "1.00"},
    )["payment_id"]
    things = [
        ("^/merchants/", "id", merchant),
        (r"^/resellers/\{id\}(/(keys|live-rollout|delegations))?$", "id", reseller),
        ("^/keys/", "id", made(f"/merchants/{merchant}/keys", {"environment": "test"})["key_id"]),
        ("^/webhook-endpoints/", "id", endpoint),
        ("^/deliveries/", "id", made(f"/webhook-endpoints/{endpoint}/test", {})["delivery_id"]),
        ("^/payments/", "id", payment),
        ("^/plugins/", "slot", "method.ideal"),
        ("^/providers/", "id", call(base, token, "/providers")["providers"][0]["id"]),
    ]
    config = ADMIN.format(token=token) + "".join(
        EXISTING.format(path=path, name=name, value=json.dumps(value)) for path, name, value in things
    )
    root = base.removesuffix("/admin/v1")
    left_out = [part for each in LEFT_OUT for part in ("--exclude-operation-id", each)]
    return root + "/openapi.json", config, left_out, lambda: None


def main():
    ready = json.loads(pathlib.Path(sys.argv[1]).read_text())
    document, config, arguments, tidy = {"public": public, "admin": admin}[sys.argv[2]](ready)
    # Of the admin API's many operations each needs fewer.
    examples = sys.argv[3] if len(sys.argv) > 3 else {"public": "100", "admin": "10"}[sys.argv[2]]
    folder = pathlib.Path(tempfile.mkdtemp())
    har = folder / "calls.har"
    file = folder / "schemathesis.toml"
    file.write_text(config + CHECKS)
    command = [
        str(pathlib.Path(sys.executable).parent / "schemathesis"),
        "--config-file", str(file),
        "run",
        document,
        "--max-examples", examples,
        "--seed", "1",
        "--phases", "examples,coverage,fuzzing",
        "--checks", "all",
        "--exclude-checks", PRESUMING,
        "--report", "har",
        "--report-har-path", str(har),
        "--no-color",
        *arguments,
    ]
    done = subprocess.run(command, check=False)
    tidy()
    calls = json.loads(har.read_text())["log"]["entries"]
    statuses = collections.Counter(entry["response"]["status"] for entry in calls)
    past = sum(count for status, count in statuses.items() if status != 401)
    share = past / max(1, len(calls))
    print(f"{len(calls)} calls, by status {dict(sorted(statuses.items()))}: {share:.0%} got past 401")
    if share < LEAST_SHARE:
        sys.exit(f"fewer than {LEAST_SHARE:.0%} of the calls got past 401")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
