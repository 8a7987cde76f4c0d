// @mollie/api-client, https://www.npmjs.com/package/@mollie/api-client

import assert from 'node:assert/strict';
import test from 'node:test';
import { createMollieClient } from '@mollie/api-client';
import { Vendor } from './vendor.mjs';

async function mollie(t) {
  const vendor = await Vendor.start(t, 'mollie', 'api.mollie.com');
  return { vendor, client: createMollieClient({ apiKey: vendor.secrets['api-key'] }) };
}

// A payment of a shop that was written for Mollie only.
const order = {
  amount: { currency: 'EUR', value: '49.90' },
  description: 'Order 17',
  redirectUrl: 'https://shop.example/thanks',
  method: 'ideal',
  metadata: { order: 17, tags: ['tea', 'green'] },
};

async function paid({ vendor, client }, more = {}) {
  const payment = await client.payments.create({ ...order, ...more });
  await vendor.choose(payment.getCheckoutUrl(), 'approve');
  return client.payments.get(payment.id);
}

test('a payment is created, read, listed and paid', async (t) => {
  const { vendor, client } = await mollie(t);
  const payment = await client.payments.create({ ...order, idempotencyKey: 'order-17' });
  assert.equal(payment.status, 'open');
  assert.deepEqual(payment.metadata, order.metadata);
  const again = await client.payments.create({ ...order, idempotencyKey: 'order-17' });
  assert.equal(again.id, payment.id);
  await vendor.choose(payment.getCheckoutUrl(), 'approve');
  assert.equal((await client.payments.get(payment.id)).status, 'paid');
  const page = await client.payments.page({ limit: 10 });
  assert.deepEqual(page.map(({ id }) => id), [payment.id]);
});

test('an authorisation is captured, or cancelled', async (t) => {
  const { vendor, client } = await mollie(t);
  const manual = { method: 'creditcard', captureMode: 'manual' };
  const held = await paid({ vendor, client }, manual);
  assert.equal(held.status, 'authorized');
  const amount = { currency: 'EUR', value: '49.90' };
  const capture = await client.paymentCaptures.create({ paymentId: held.id, amount });
  assert.deepEqual(capture.amount, amount);
  const captures = await client.paymentCaptures.page({ paymentId: held.id });
  assert.deepEqual(captures.map(({ id }) => id), [capture.id]);
  const other = await paid({ vendor, client }, manual);
  assert.equal((await client.payments.cancel(other.id)).id, other.id);
});

test('a payment is given back in parts, read, listed, called off and never exceeded', async (t) => {
  const { vendor, client } = await mollie(t);
  const { id: paymentId } = await paid({ vendor, client });
  const part = {
    paymentId,
    amount: { currency: 'EUR', value: '10.00' },
    description: 'One box was broken',
    metadata: { ticket: 7 },
  };
  const refund = await client.paymentRefunds.create({ ...part, idempotencyKey: 'refund-1' });
  assert.deepEqual(refund.amount, part.amount);
  assert.deepEqual(refund.metadata, part.metadata);
  const again = await client.paymentRefunds.create({ ...part, idempotencyKey: 'refund-1' });
  assert.equal(again.id, refund.id);
  const read = await client.paymentRefunds.get(refund.id, { paymentId });
  assert.equal(read.paymentId, paymentId);
  const all = await client.paymentRefunds.page({ paymentId });
  assert.deepEqual(all.map(({ id }) => id), [refund.id]);
  await client.paymentRefunds.cancel(refund.id, { paymentId });
  const whole = { paymentId, amount: order.amount };
  assert.equal((await client.paymentRefunds.create(whole)).amount.value, '49.90');
  await assert.rejects(client.paymentRefunds.create(part), { statusCode: 422 });
});

test('a wrong key and an unknown payment are refused', async (t) => {
  const { client } = await mollie(t);
  await assert.rejects(client.payments.get('tr_unknown1'), { statusCode: 404 });
  const stranger = createMollieClient({ apiKey: 'test_0123456789012345678901234567890' });
  await assert.rejects(stranger.payments.create(order), { statusCode: 401 });
});

test('what a shop may send beside, or leave out, is taken', async (t) => {
  const { client } = await mollie(t);
  const { amount, description, redirectUrl } = order;
  const address = {
    givenName: 'Ada',
    familyName: 'Byron',
    email: 'ada@shop.example',
    streetAndNumber: 'Keizersgracht 126',
    postalCode: '1015 CW',
    city: 'Amsterdam',
    country: 'NL',
  };
  const line = {
    type: 'physical',
    sku: 'tea-1',
    description: 'Tea',
    quantity: 1,
    unitPrice: amount,
    totalAmount: amount,
    vatRate: '21.00',
    vatAmount: { currency: 'EUR', value: '8.66' },
  };
  for (const more of [
    {},
    { metadata: 'b-17' },
    { method: ['ideal', 'creditcard'], locale: 'nl_NL' },
    { method: 'ideal', webhookUrl: 'https://shop.example/hook', cancelUrl: 'https://shop.example/' },
    { sequenceType: 'oneoff', restrictPaymentMethodsToCountry: 'NL' },
    { billingAddress: address, shippingAddress: address, lines: [line] },
  ]) {
    const payment = await client.payments.create({ amount, description, redirectUrl, ...more });
    assert.equal(payment.status, 'open', JSON.stringify(more));
  }
  const seen = [];
  for await (const { id } of client.payments.iterate()) {
    seen.push(id);
  }
  assert.equal(new Set(seen).size, 6);
});
