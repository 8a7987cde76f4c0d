"""A shop that receives Kassette's webhooks. Python 3.9 or newer, standard library alone.

    KASSETTE_WEBHOOK_SECRETS=whsec_... python3 receiver.py FOLDER PORT

FOLDER holds orders.json, the shop's own orders, and gets events.log: one line an event, its id, its
type, and whether it paid an order. The log stands for a database in which all three are one
transaction. While a secret is rotated, both stand in the variable with a blank between them.
"""

import hashlib
import hmac
import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# -- verify
TOLERANCE = 300  # seconds


def verify(secrets, headers, body, now):
    """The event in a body, which is given as the bytes that arrived; else ValueError."""
    event_id = headers.get("X-Service-Event-ID", "")
    timestamp = headers.get("X-Service-Timestamp", "")
    signature = headers.get("X-Service-Signature", "")
    if not re.fullmatch(r"[0-9a-f]{32}", event_id):
        raise ValueError("malformed event id")
    if not re.fullmatch(r"[0-9]{10}", timestamp) or abs(now - int(timestamp)) > TOLERANCE:
        raise ValueError("malformed or old timestamp")
    if not re.fullmatch(r"v1=[0-9a-f]{64}", signature):
        raise ValueError("malformed signature")
    signed = f"{timestamp}.{event_id}.".encode() + body
    right = False
    for secret in secrets:
        digest = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        right |= hmac.compare_digest(f"v1={digest}", signature)
    if not right:
        raise ValueError("wrong signature")
    event = json.loads(body)
    if event["id"] != event_id:
        raise ValueError("the body is of another event")
    return event
# -- end


def pays(event, orders):
    """Whether an event says that one of our own orders is paid."""
    if event["type"] != "payment.completed":
        return False
    data = event["data"]
    final = data["status"] == "completed" and data["settlement_status"] == "confirmed"
    ours = ("payment_id", "order_id", "amount", "currency")
    return final and data["test_mode"] is False and any(
        all(data[name] == order[name] for name in ours) for order in orders
    )


class Shop:
    def __init__(self, folder):
        self.orders = json.loads((folder / "orders.json").read_text())
        self.log = folder / "events.log"
        self.lock = threading.Lock()

    def take(self, event):
        """Does what an event asks for, once; comes back when that is on disk."""
        with self.lock, open(self.log, "a+") as log:
            log.seek(0)
            if any(line.split()[0] == event["id"] for line in log):
                return
            outcome = "paid" if pays(event, self.orders) else "seen"
            log.write(f"{event['id']} {event['type']} {outcome}\n")
            log.flush()
            os.fsync(log.fileno())


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            event = verify(self.server.secrets, self.headers, body, time.time())
        except (ValueError, KeyError, TypeError) as error:
            return self.answer(400, str(error))
        self.server.shop.take(event)
        # An event that was taken before is answered alike: otherwise it would come again.
        self.answer(200, "ok")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    server.secrets = os.environ["KASSETTE_WEBHOOK_SECRETS"].split()
    server.shop = Shop(Path(sys.argv[1]))
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever()
