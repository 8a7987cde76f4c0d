"""Runs schemathesis over the gateway's own OpenAPI document, with keys, and says how many calls got past them.

Usage: run.py READY_FILE [MAX_EXAMPLES]

Fails on a status or body that the document does not describe, on a server error, and where most
calls never got past authentication: a fuzzer that stops at 401 tests nothing.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile

# Whose key goes with which path.
CONFIG = """
[headers]
Authorization = "Bearer {merchant}"

[checks.negative_data_rejection]
# What is wrong may be too large before it is read.
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429]

[[operations]]
include-path-regex = "^/api/v1/reseller/"
headers = {{ Authorization = "Bearer {reseller}" }}
"""

# Most calls must be judged by more than their credential.
LEAST_SHARE = 0.5


def main():
    ready = json.loads(pathlib.Path(sys.argv[1]).read_text())
    examples = sys.argv[2] if len(sys.argv) > 2 else "150"
    folder = pathlib.Path(tempfile.mkdtemp())
    har = folder / "calls.har"
    config = folder / "schemathesis.toml"
    # Test requests need no signature; tests/e2e signs live ones.
    config.write_text(CONFIG.format(
        merchant=ready["merchants"][0]["test_key"], reseller=ready["resellers"][0]["test_key"],
    ))
    command = [
        str(pathlib.Path(sys.executable).parent / "schemathesis"),
        "--config-file", str(config),
        "run",
        ready["base_url"] + "/openapi.json",
        "--max-examples", examples,
        "--seed", "1",
        "--phases", "examples,coverage,fuzzing",
        "--checks", "all",
        # A payment id of the right form that no payment has is 404, and so the document says; the
        # two checks below presume that every valid request succeeds.
        "--exclude-checks", "positive_data_acceptance,unsupported_method",
        "--report", "har",
        "--report-har-path", str(har),
        "--no-color",
    ]
    done = subprocess.run(command, check=False)
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
