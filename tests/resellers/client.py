"""A reseller's client of Kassette. Python 3.9 or newer, standard library alone.

    KASSETTE_RESELLER_KEY=kr_live_... python3 client.py BASE_URL METHOD TARGET [BODY]

TARGET is path and query, as in /api/v1/reseller/payments?merchant_id=1. Prints the status and, on the
lines after it, the answer's body.
"""

import hashlib
import hmac
import os
import secrets
import sys
import time
import urllib.error
import urllib.request

# -- sign
def sign(key, method, target, body):
    """The headers of one request. Sign again for each try: a nonce is good for one."""
    timestamp = str(int(time.time()))
    nonce = secrets.token_hex(16)
    lines = [method, target, timestamp, nonce, hashlib.sha256(body).hexdigest()]
    signature = hmac.new(key.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()
    return {
        "Authorization": f"Bearer {key}",
        "X-Service-Timestamp": timestamp,
        "X-Service-Nonce": nonce,
        "X-Service-Signature": signature,
    }
# -- end


TRIES = 4


def call(base, key, method, target, body):
    """Status and body of the answer. Tries again where it is not known what became of a try, or where
    the server asks for it: the body is the same, and so its client_ref, so nothing is done twice."""
    failure = None
    for attempt in range(TRIES):
        if attempt > 0:
            time.sleep(2 ** attempt / 4)
        headers = sign(key, method, target, body)
        if body:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(base + target, body or None, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                return error.code, error.read()
            failure = error
        except OSError as error:
            failure = error
    raise failure


def main():
    base, method, target = sys.argv[1:4]
    body = sys.argv[4].encode() if len(sys.argv) > 4 else b""
    status, answer = call(base, os.environ["KASSETTE_RESELLER_KEY"], method, target, body)
    print(status)
    print(answer.decode())


if __name__ == "__main__":
    main()
