// A shop that uses types generated from /openapi.json: it sells, reads the payment's status, and refunds.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { client, key, shopKey } from './gateway.js';
import { pay } from './payer.js';

test('a shop sells, learns that it was paid, and gives a part back', async () => {
  const api = client(await key(['payments:create', 'payments:read', 'payments:refund']));
  const { data: offered } = await api.GET('/api/v1/methods', { params: { query: { currency: 'EUR', amount: '49.90' } } });
  assert.ok(offered?.methods.some((method) => method.id === 'credit_card'));

  const body = {
    order_id: 'A-7',
    idempotency_key: `order-A-7-${crypto.randomUUID()}`,
    amount: '49.90',
    currency: 'EUR' as const,
    customer_email: 'ada@customer.example',
  };
  const created = await api.POST('/api/v1/payments', { body });
  assert.equal(created.response.status, 201);
  const payment = created.data;
  assert.ok(payment?.checkout_url);
  const again = await api.POST('/api/v1/payments', { body });
  assert.deepEqual([again.response.status, again.data?.payment_id], [200, payment.payment_id]);
  const other = await api.POST('/api/v1/payments', { body: { ...body, amount: '50.00' } });
  assert.deepEqual([other.response.status, other.error?.code], [409, 'idempotency_conflict']);

  await pay(payment.checkout_url, 'credit_card', 'approve');
  const path = { payment_id: payment.payment_id };
  const paid = await until(async () => {
    const { data } = await api.GET('/api/v1/payments/{payment_id}', { params: { path } });
    return data?.status === 'completed' && data.settlement_status === 'confirmed' ? data : undefined;
  });
  assert.equal(paid.test_mode, true);

  const refund = { idempotency_key: `parcel-${crypto.randomUUID()}`, amount: '10.00' };
  const given = await api.POST('/api/v1/payments/{payment_id}/refunds', { params: { path }, body: refund });
  assert.deepEqual([given.response.status, given.data?.status], [201, 'succeeded']);
  const details = await api.GET('/api/v1/payments/{payment_id}/details', { params: { path } });
  assert.equal(details.data?.attempts[0]?.payment_method, 'credit_card');
  assert.deepEqual([details.data?.refunded_amount, details.data?.refunds[0]?.refund_id], ['10.00', given.data?.refund_id]);

  const { data: listed } = await api.GET('/api/v1/events', { params: { query: { type: 'payment.completed' } } });
  const told = listed?.events.find((event) => event.data?.payment_id === payment.payment_id);
  assert.equal(told?.data?.order_id, 'A-7');
});

test('a refused request names its field and its code, and a key without the scope is told so', async () => {
  const api = client(shopKey);
  const body = { order_id: 'A-8', idempotency_key: crypto.randomUUID(), amount: '0', customer_email: 'ada@customer.example' };
  const wrong = await api.POST('/api/v1/payments', { body });
  assert.deepEqual([wrong.response.status, wrong.error?.field, wrong.error?.code], [422, 'amount', 'invalid_field']);
  const path = { payment_id: '0'.repeat(32) };
  const refund = await api.POST('/api/v1/payments/{payment_id}/refunds', { params: { path }, body: { idempotency_key: 'x' } });
  assert.equal(refund.response.status, 403);
});

// Polls once a second, like a shop without webhooks.
async function until<T>(ask: () => Promise<T | undefined>): Promise<T> {
  const patience = Date.now() + 45_000;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    assert.ok(Date.now() < patience, 'the payment was not confirmed in 45 s');
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}
