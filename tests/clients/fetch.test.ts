// A shop whose client openapi-generator (typescript-fetch) creates from /openapi.json?webhooks=none: a paid payment.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Configuration, EventsApi, PaymentsApi } from './generated/fetch/index.js';
import { ready, shopKey } from './gateway.js';
import { APPROVED, until } from './payer.js';

test('openapi-generator for TypeScript makes a paid payment', async () => {
  const configuration = new Configuration({ basePath: ready.base_url, accessToken: shopKey });
  const payments = new PaymentsApi(configuration);
  const created = await payments.createPayment({
    paymentCreateRequest: {
      orderId: 'F-7',
      idempotencyKey: `fetch-${crypto.randomUUID()}`,
      amount: APPROVED,
      currency: 'EUR',
      checkoutMode: 'direct',
      paymentMethod: 'credit_card',
    },
  });
  const { paymentId } = created;
  const started = await payments.startPayment({ startRequest: { paymentId, paymentMethod: 'credit_card' } });
  assert.ok((await fetch(started.redirectUrl)).ok);
  await until(async () => (await payments.readPayment({ paymentId })).settlementStatus === 'confirmed' || undefined);
  const { events } = await new EventsApi(configuration).listEvents({ paymentId, type: 'payment.completed' });
  assert.deepEqual([events.length, events[0]?.data.orderId], [1, 'F-7']);
});
