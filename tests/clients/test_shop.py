"""A shop that uses a client generated from /openapi.json: it sells, receives events, and refunds."""

import sys
import threading
import time
import unittest
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kassette_client.api.events import list_events
from kassette_client.api.methods import list_methods
from kassette_client.api.payments import create_payment, list_payments, read_payment, read_payment_details
from kassette_client.api.refunds import create_refund
from kassette_client.models import Error, Event, PaymentCreateRequest, RefundCreateRequest

from gateway import MERCHANT, client, key, operate, pay, until

sys.path.append(str(Path(__file__).parent.parent / "receivers"))
from receiver import verify  # noqa: E402


class Receiver(BaseHTTPRequestHandler):
    """Accepts events with a valid signature."""

    secrets, events = [], []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.events.append(Event.from_dict(verify(self.secrets, self.headers, body, time.time())))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def order(**more):
    fields = {
        "order_id": "A-7",
        "idempotency_key": f"order-{uuid.uuid4()}",
        "amount": "49.90",
        "currency": "EUR",
        "customer_email": "ada@customer.example",
    }
    return PaymentCreateRequest.from_dict(fields | more)


class ShopTest(unittest.TestCase):
    def test_a_shop_sells_hears_that_it_was_paid_and_gives_a_part_back(self):
        site = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.addCleanup(site.server_close)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.addCleanup(site.shutdown)
        merchant = MERCHANT["merchant_id"]
        hook = {"environment": "test", "url": f"http://127.0.0.1:{site.server_port}/webhooks"}
        endpoint = operate("POST", f"/merchants/{merchant}/webhook-endpoints", hook)
        Receiver.secrets.append(endpoint["secret"])

        shop = client(key("payments:create", "payments:read", "payments:refund"))
        offered = list_methods.sync(client=shop)
        self.assertIn("credit_card", [method.id for method in offered.methods])
        wanted = order()
        payment = create_payment.sync(client=shop, body=wanted)
        self.assertEqual(create_payment.sync(client=shop, body=wanted).payment_id, payment.payment_id)
        other = order(idempotency_key=wanted.idempotency_key, amount="50.00")
        conflict = create_payment.sync_detailed(client=shop, body=other)
        self.assertEqual((conflict.status_code, conflict.parsed.code), (409, "idempotency_conflict"))

        pay(payment, "credit_card", "decline")
        status = lambda: read_payment.sync(payment.payment_id, client=shop).status
        until("the decline", lambda: status() == "created")
        pay(payment, "credit_card", "approve")
        mine = lambda kind: [e for e in Receiver.events if e.type_ == kind and e.data.payment_id == payment.payment_id]
        completed = until("payment.completed", lambda: mine("payment.completed"))[0]
        self.assertEqual((completed.data.order_id, completed.data.test_mode), ("A-7", True))
        read = read_payment.sync(payment.payment_id, client=shop)
        self.assertEqual((read.status, read.settlement_status), ("completed", "confirmed"))

        parcel = RefundCreateRequest.from_dict({"idempotency_key": str(uuid.uuid4()), "amount": "10.00"})
        refund = create_refund.sync(payment.payment_id, client=shop, body=parcel)
        self.assertEqual((refund.status, refund.amount), ("succeeded", "10.00"))
        given = until("payment.refunded", lambda: mine("payment.refunded"))[0]
        self.assertEqual(given.data.refund_id, refund.refund_id)
        details = read_payment_details.sync(payment.payment_id, client=shop)
        self.assertEqual([attempt.state for attempt in details.attempts], ["declined", "captured"])
        self.assertEqual(details.refunded_amount, "10.00")

        page = list_events.sync(client=shop, type_="payment.completed")
        self.assertIn(completed.id, [event.id for event in page.events])
        page = list_payments.sync(client=shop, order_id="A-7", status="completed")
        self.assertIn(payment.payment_id, [each.payment_id for each in page.payments])

    def test_a_refused_request_names_its_field_and_its_code(self):
        shop = client(MERCHANT["test_key"])
        wrong = create_payment.sync_detailed(client=shop, body=order(amount="0"))
        self.assertIsInstance(wrong.parsed, Error)
        self.assertEqual((wrong.status_code, wrong.parsed.field, wrong.parsed.code), (422, "amount", "invalid_field"))

    def test_words_that_are_not_known_yet_are_read(self):
        data = {
            "payment_id": "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c",
            "order_id": "A-7",
            "status": "completed",
            "settlement_status": "invented",
            "amount": "49.90",
            "currency": "EUR",
            "usd_amount": "53.89",
            "test_mode": False,
        }
        told = {"id": "4c6d1f0e8a2b4c3d9e5f7a6b8c0d1e2f", "type": "payment.invented", "data": data}
        event = Event.from_dict(told | {"created_at": "2026-03-01T09:30:00.000Z"})
        self.assertEqual((event.type_, event.data.settlement_status), ("payment.invented", "invented"))



if __name__ == "__main__":
    unittest.main()
