"""A reseller that uses a client generated from /openapi.json and signs each request."""

import sys
import unittest
import uuid
from pathlib import Path

from kassette_client.api.resellers import (
    create_reseller_payment,
    list_merchants,
    read_reseller_payment,
    read_reseller_payment_details,
)
from kassette_client.models import ResellerPaymentCreateRequest

from gateway import READY, client, pay

sys.path.append(str(Path(__file__).parent.parent / "resellers"))
from client import sign  # noqa: E402


def signed(key):
    """A client that signs its requests."""

    def add(request):
        target = request.url.raw_path.decode()
        request.headers.update(sign(key, request.method, target, request.read()))

    api = client(key)
    api.get_httpx_client().event_hooks = {"request": [add]}
    return api


class ResellerTest(unittest.TestCase):
    def test_a_reseller_makes_a_payment_for_a_merchant_of_its_and_reads_it(self):
        reseller = READY["resellers"][0]
        api = signed(reseller["test_key"])
        ours = reseller["authorized_merchant_ids"]
        merchant = next(each for each in list_merchants.sync(client=api).merchants if each.merchant_id in ours)
        body = ResellerPaymentCreateRequest.from_dict({
            "merchant_id": merchant.merchant_id,
            "client_ref": f"ref-{uuid.uuid4()}",
            "order_id": "R-7",
            "amount": "20.00",
            "currency": "EUR",
            "customer_email": "ada@customer.example",
        })
        payment = create_reseller_payment.sync(client=api, body=body)
        pay(payment, "credit_card", "approve")
        read = read_reseller_payment.sync(payment.payment_id, client=api)
        self.assertEqual(read.client_ref, body.client_ref)
        details = read_reseller_payment_details.sync(payment.payment_id, client=api)
        self.assertEqual([attempt.payment_method for attempt in details.attempts], ["credit_card"])


if __name__ == "__main__":
    unittest.main()
