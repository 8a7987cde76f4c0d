// A shop whose client hey-api creates from /openapi.json: a paid payment.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createClient } from './generated/heyapi/client/index.js';
import { createPayment, listEvents, readPayment, startPayment } from './generated/heyapi/index.js';
import { ready, shopKey } from './gateway.js';
import { APPROVED, until } from './payer.js';

test('hey-api makes a paid payment', async () => {
  const client = createClient({ baseUrl: ready.base_url, auth: shopKey });
  const created = await createPayment({
    client,
    body: {
      order_id: 'H-7',
      idempotency_key: `heyapi-${crypto.randomUUID()}`,
      amount: APPROVED,
      currency: 'EUR',
      checkout_mode: 'direct',
      payment_method: 'credit_card',
    },
  });
  assert.ok(created.data, JSON.stringify(created.error));
  const { payment_id } = created.data;
  const started = await startPayment({ client, body: { payment_id, payment_method: 'credit_card' } });
  assert.ok(started.data, JSON.stringify(started.error));
  assert.ok((await fetch(started.data.redirect_url)).ok);
  await until(async () => {
    const { data } = await readPayment({ client, path: { payment_id } });
    return data?.settlement_status === 'confirmed' || undefined;
  });
  const listed = await listEvents({ client, query: { payment_id, type: 'payment.completed' } });
  assert.deepEqual(listed.data?.events.map((event) => event.data.order_id), ['H-7']);
});
