// razorpay, https://www.npmjs.com/package/razorpay

import assert from 'node:assert/strict';
import test from 'node:test';
import Razorpay from 'razorpay';
import { Vendor } from './vendor.mjs';

async function razorpay(t) {
  const vendor = await Vendor.start(t, 'razorpay', 'api.razorpay.com');
  const client = new Razorpay({
    key_id: vendor.secrets['key-id'],
    key_secret: vendor.secrets['key-secret'],
  });
  return { vendor, client };
}

// A link of a shop that was written for Razorpay only.
const order = {
  amount: 49900,
  currency: 'INR',
  description: 'Tea',
  customer: { name: 'Gaurav Kumar', email: 'gaurav@shop.example', contact: '+919000090000' },
  notify: { sms: false, email: false },
  notes: { basket: 'b-17' },
  callback_url: 'https://shop.example/thanks',
  callback_method: 'get',
};

async function paid({ vendor, client }, more = {}) {
  const link = await client.paymentLink.create({ ...order, ...more });
  await vendor.choose(link.short_url, 'approve');
  const { payments } = await client.paymentLink.fetch(link.id);
  return { link, payment: payments[0].payment_id };
}

test('a link is created, read, listed and paid', async (t) => {
  const { vendor, client } = await razorpay(t);
  const link = await client.paymentLink.create({ ...order, reference_id: 'order-17' });
  assert.equal(link.status, 'created');
  assert.deepEqual(link.notes, order.notes);
  await vendor.choose(link.short_url, 'approve');
  const read = await client.paymentLink.fetch(link.id);
  assert.equal(read.status, 'paid');
  const payment = await client.payments.fetch(read.payments[0].payment_id);
  assert.equal(payment.status, 'captured');
  assert.equal(payment.amount, 49900);
  const { payment_links: links } = await client.paymentLink.all();
  assert.deepEqual(links.map(({ id }) => id), [link.id]);
  const { items } = await client.payments.all({ count: 10 });
  assert.deepEqual(items.map(({ id }) => id), [payment.id]);
});

test('a link is cancelled once', async (t) => {
  const { client } = await razorpay(t);
  const link = await client.paymentLink.create(order);
  assert.equal((await client.paymentLink.cancel(link.id)).status, 'cancelled');
  await assert.rejects(client.paymentLink.cancel(link.id), { statusCode: 400 });
});

test('a payment is given back in parts, read, listed and never exceeded', async (t) => {
  const shop = await razorpay(t);
  const { client } = shop;
  const { payment } = await paid(shop);
  const part = { amount: 10000, speed: 'normal', receipt: 'refund-1', notes: { ticket: '7' } };
  const refund = await client.payments.refund(payment, part);
  assert.equal(refund.amount, 10000);
  assert.equal(refund.payment_id, payment);
  assert.deepEqual(refund.notes, part.notes);
  assert.equal((await client.refunds.fetch(refund.id)).receipt, 'refund-1');
  assert.equal((await client.payments.fetchRefund(payment, refund.id)).id, refund.id);
  const edited = await client.refunds.edit(refund.id, { notes: { ticket: '8' } });
  assert.deepEqual(edited.notes, { ticket: '8' });
  const rest = await client.payments.refund(payment, {});
  assert.equal(rest.amount, 39900);
  const { items } = await client.payments.fetchMultipleRefund(payment);
  assert.deepEqual(items.map(({ id }) => id), [rest.id, refund.id]);
  const all = await client.refunds.all();
  assert.equal(all.count, 2);
  await assert.rejects(client.payments.refund(payment, { amount: 100 }), { statusCode: 400 });
});

test('a wrong key is refused', async (t) => {
  await razorpay(t);
  const stranger = new Razorpay({ key_id: 'rzp_test_wrong', key_secret: 'wrong' });
  await assert.rejects(stranger.paymentLink.create(order), { statusCode: 401 });
});

test("the library's own check believes the webhooks, and no changed one", async (t) => {
  const shop = await razorpay(t);
  const secret = shop.vendor.secrets['webhook-secret'];
  await paid(shop);
  const { headers, body } = await shop.vendor.callback();
  const signature = headers['x-razorpay-signature'];
  assert.equal(Razorpay.validateWebhookSignature(body, signature, secret), true);
  assert.equal(Razorpay.validateWebhookSignature(`${body} `, signature, secret), false);
});

test('what a shop may send beside, or leave out, is taken', async (t) => {
  const { client } = await razorpay(t);
  const least = { amount: 1000, currency: 'INR' };
  for (const more of [
    {},
    { expire_by: Math.floor(Date.now() / 1000) + 3600, reminder_enable: true },
    { options: { checkout: { name: 'Tea shop' } } },
  ]) {
    const link = await client.paymentLink.create({ ...least, ...more });
    assert.equal(link.status, 'created', JSON.stringify(more));
  }
  const page = await client.payments.all({ from: '2026-01-01', to: '2100-01-01', count: 3, skip: 0 });
  assert.equal(page.count, 0);
});
