"""A receiver that verifies deliveries with the public libraries of Standard Webhooks, before and during a rotation."""

import json
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import standardwebhooks
import svix.webhooks

from gateway import MERCHANT, operate, until


class Receiver(BaseHTTPRequestHandler):
    deliveries = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.deliveries.append((dict(self.headers), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class StandardTest(unittest.TestCase):
    def test_standardwebhooks_and_svix_verify_a_delivery_with_either_secret_during_a_rotation(self):
        site = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.addCleanup(site.server_close)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.addCleanup(site.shutdown)
        hook = {"environment": "test", "url": f"http://127.0.0.1:{site.server_port}/webhooks"}
        endpoint = operate("POST", f"/merchants/{MERCHANT['merchant_id']}/webhook-endpoints", hook)
        own = f"/webhook-endpoints/{endpoint['id']}"

        def receive():
            operate("POST", f"{own}/test", {})
            return until("the delivery", lambda: Receiver.deliveries and Receiver.deliveries.pop())

        self.verify(endpoint["secret"], *receive())
        rotation = {"overlap_hours": 1, "actor": "test", "reason": "rotation"}
        rotated = operate("POST", f"{own}/rotate", rotation)
        headers, body = receive()
        self.verify(endpoint["secret"], headers, body)
        self.verify(rotated["secret"], headers, body)

    def verify(self, secret, headers, body):
        headers = {name.lower(): value for name, value in headers.items()}
        wrong = body.replace(b"webhook.test", b"payment.completed")
        for library in (standardwebhooks, svix.webhooks):
            webhook = library.Webhook(secret)
            webhook.verify(body.decode(), headers)
            self.assertEqual(json.loads(body)["id"], headers["webhook-id"])
            with self.assertRaises(library.WebhookVerificationError):
                webhook.verify(wrong.decode(), headers)


if __name__ == "__main__":
    unittest.main()
