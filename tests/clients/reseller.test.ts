// A reseller that uses types generated from /openapi.json and signs each request.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { client, ready } from './gateway.js';
import { pay } from './payer.js';
import { sign } from '../resellers/client.mjs';

test('a reseller makes a payment for a merchant of its, starts it and reads it', async () => {
  const reseller = ready.resellers[0];
  const api = client(reseller.test_key);
  api.use({
    async onRequest({ request }) {
      const body = await request.clone().text();
      const headers = sign(reseller.test_key, request.method, new URL(request.url), body);
      for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
      return request;
    },
  });
  const { data: mine } = await api.GET('/api/v1/reseller/merchants');
  const merchant = mine?.merchants.find((each) => reseller.authorized_merchant_ids.includes(each.merchant_id));
  assert.ok(merchant?.merchant_id);

  const ref = `ref-${crypto.randomUUID()}`;
  const body = {
    merchant_id: merchant.merchant_id,
    client_ref: ref,
    order_id: 'R-7',
    amount: '20.00',
    currency: 'EUR' as const,
    customer_email: 'ada@customer.example',
  };
  const created = await api.POST('/api/v1/reseller/payments', { body });
  assert.equal(created.response.status, 200);
  assert.ok(created.data?.checkout_url);
  await pay(created.data.checkout_url, 'credit_card', 'approve');
  const path = { payment_id: created.data.payment_id };
  const read = await api.GET('/api/v1/reseller/payments/{payment_id}', { params: { path } });
  assert.deepEqual([read.response.status, read.data?.client_ref], [200, ref]);
  const details = await api.GET('/api/v1/reseller/payments/{payment_id}/details', { params: { path } });
  assert.equal(details.data?.attempts[0]?.payment_method, 'credit_card');
});
