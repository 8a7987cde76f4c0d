"""A shop plugin that uses a client generated from /openapi.json: it connects with a code and sells."""

import hashlib
import hmac
import secrets
import threading
import unittest
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kassette_client.api.payments import create_payment
from kassette_client.api.shop_plugin import exchange_connect_code
from kassette_client.models import ConnectExchangeRequest, PaymentCreateRequest

from gateway import MERCHANT, client, operate, stranger


class Site(BaseHTTPRequestHandler):
    """Serves the published proofs."""

    proofs = {}

    def do_GET(self):
        proof = self.proofs.get(self.path)
        self.send_response(200 if proof else 404)
        self.end_headers()
        self.wfile.write((proof or "").encode())

    def log_message(self, *_):
        pass


class PluginTest(unittest.TestCase):
    def test_a_plugin_exchanges_its_code_for_a_key_an_endpoint_and_a_domain(self):
        site = ThreadingHTTPServer(("127.0.0.1", 0), Site)
        self.addCleanup(site.server_close)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.addCleanup(site.shutdown)
        origin = f"http://127.0.0.1:{site.server_port}"
        terms = {"environment": "test", "site_url": origin}
        code = operate("POST", f"/merchants/{MERCHANT['merchant_id']}/connect-codes", terms)["code"]
        challenge = secrets.token_hex(32)
        proof = hmac.new(code.encode(), f"{challenge}\n{origin}".encode(), hashlib.sha256).hexdigest()
        Site.proofs[f"/.well-known/kassette-connect/{challenge}"] = proof

        fields = {"code": code, "site_url": origin, "challenge": challenge, "proof": proof}
        body = ConnectExchangeRequest.from_dict(fields)
        connected = exchange_connect_code.sync(client=stranger(), body=body)
        self.assertEqual(connected.webhook_endpoint.url, f"{origin}/wp-json/kassette/v1/webhook")
        spent = exchange_connect_code.sync_detailed(client=stranger(), body=body)
        self.assertEqual(spent.status_code, 401)

        sale = PaymentCreateRequest.from_dict({
            "order_id": "P-7",
            "idempotency_key": str(uuid.uuid4()),
            "amount": "5.00",
            "customer_email": "ada@customer.example",
        })
        payment = create_payment.sync(client=client(connected.api_key), body=sale)
        # USD is the default currency.
        self.assertEqual(payment.currency, "USD")


if __name__ == "__main__":
    unittest.main()
