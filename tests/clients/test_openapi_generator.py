"""A shop whose client openapi-generator (python) creates from /openapi.json: a paid payment."""

import unittest
import uuid

import httpx
import kassette_openapi as api

from gateway import APPROVED, MERCHANT, READY, until


class OpenapiGeneratorTest(unittest.TestCase):
    def test_openapi_generator_for_python_makes_a_paid_payment(self):
        configuration = api.Configuration(host=READY["base_url"], access_token=MERCHANT["test_key"])
        client = self.enterContext(api.ApiClient(configuration))
        payments = api.PaymentsApi(client)
        created = payments.create_payment(
            api.PaymentCreateRequest(
                order_id="G-7",
                idempotency_key=f"python-{uuid.uuid4()}",
                amount=APPROVED,
                currency="EUR",
                checkout_mode="direct",
                payment_method="credit_card",
            )
        )
        started = payments.start_payment(
            api.StartRequest(payment_id=created.payment_id, payment_method="credit_card")
        )
        httpx.get(started.redirect_url, follow_redirects=True).raise_for_status()
        until(
            "the settlement",
            lambda: payments.read_payment(created.payment_id).settlement_status == "confirmed",
        )
        listed = api.EventsApi(client).list_events(
            payment_id=created.payment_id, type="payment.completed"
        )
        self.assertEqual([event.data.order_id for event in listed.events], ["G-7"])


if __name__ == "__main__":
    unittest.main()
