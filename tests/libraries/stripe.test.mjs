// stripe, https://www.npmjs.com/package/stripe

import assert from 'node:assert/strict';
import test from 'node:test';
import Stripe from 'stripe';
import { Vendor } from './vendor.mjs';

async function stripe(t) {
  const vendor = await Vendor.start(t, 'stripe', 'api.stripe.com');
  const client = new Stripe(vendor.secrets['secret-key'], { maxNetworkRetries: 0 });
  return { vendor, client };
}

// A session of a shop that was written for Stripe only.
const cart = {
  mode: 'payment',
  line_items: [
    {
      quantity: 2,
      price_data: { currency: 'eur', unit_amount: 2495, product_data: { name: 'Tea' } },
    },
  ],
  metadata: { basket: 'b-17' },
  success_url: 'https://shop.example/thanks?session_id={CHECKOUT_SESSION_ID}',
  cancel_url: 'https://shop.example/basket',
};

// A paid session and its payment.
async function paid({ vendor, client }, more = {}) {
  const session = await client.checkout.sessions.create({ ...cart, ...more });
  await vendor.choose(session.url, 'approve');
  const { payment_intent: payment } = await client.checkout.sessions.retrieve(session.id, {
    expand: ['payment_intent'],
  });
  return { session, payment };
}

test('a session is created, read, listed and paid', async (t) => {
  const { vendor, client } = await stripe(t);
  const session = await client.checkout.sessions.create(cart, { idempotencyKey: 'basket-17' });
  assert.equal(session.status, 'open');
  assert.equal(session.amount_total, 4990);
  assert.deepEqual(session.metadata, cart.metadata);
  const again = await client.checkout.sessions.create(cart, { idempotencyKey: 'basket-17' });
  assert.equal(again.id, session.id);
  await vendor.choose(session.url, 'approve');
  const read = await client.checkout.sessions.retrieve(session.id);
  assert.equal(read.payment_status, 'paid');
  const payment = await client.paymentIntents.retrieve(read.payment_intent);
  assert.equal(payment.status, 'succeeded');
  assert.equal(payment.amount_received, 4990);
  const listed = [];
  for await (const one of client.checkout.sessions.list({ limit: 3 })) {
    listed.push(one.id);
  }
  assert.deepEqual(listed, [session.id]);
});

test('a session is expired, and an authorisation is captured or cancelled', async (t) => {
  const { vendor, client } = await stripe(t);
  const session = await client.checkout.sessions.create(cart);
  assert.equal((await client.checkout.sessions.expire(session.id)).status, 'expired');
  await assert.rejects(client.checkout.sessions.expire(session.id), Stripe.errors.StripeInvalidRequestError);
  const manual = { payment_intent_data: { capture_method: 'manual' } };
  const held = await paid({ vendor, client }, manual);
  assert.equal(held.payment.status, 'requires_capture');
  assert.equal((await client.paymentIntents.capture(held.payment.id)).status, 'succeeded');
  const other = await paid({ vendor, client }, manual);
  const cancelled = await client.paymentIntents.cancel(other.payment.id, {
    cancellation_reason: 'requested_by_customer',
  });
  assert.equal(cancelled.status, 'canceled');
});

test('a payment is given back in parts, read, listed and never exceeded', async (t) => {
  const { vendor, client } = await stripe(t);
  const { payment } = await paid({ vendor, client });
  const part = { payment_intent: payment.id, amount: 1000, reason: 'requested_by_customer' };
  const refund = await client.refunds.create(part, { idempotencyKey: 'refund-1' });
  assert.equal(refund.amount, 1000);
  assert.equal(refund.payment_intent, payment.id);
  const again = await client.refunds.create(part, { idempotencyKey: 'refund-1' });
  assert.equal(again.id, refund.id);
  await assert.rejects(
    client.refunds.create({ ...part, amount: 2000 }, { idempotencyKey: 'refund-1' }),
    Stripe.errors.StripeIdempotencyError,
  );
  const noted = await client.refunds.update(refund.id, { metadata: { ticket: '7' } });
  assert.deepEqual(noted.metadata, { ticket: '7' });
  assert.equal((await client.refunds.retrieve(refund.id)).status, 'succeeded');
  const rest = await client.refunds.create({ charge: payment.latest_charge });
  assert.equal(rest.amount, 3990);
  const all = await client.refunds.list({ payment_intent: payment.id });
  assert.deepEqual(all.data.map(({ id }) => id), [rest.id, refund.id]);
  await assert.rejects(client.refunds.create({ payment_intent: payment.id }), {
    code: 'charge_already_refunded',
  });
});

test('a wrong key is refused', async (t) => {
  await stripe(t);
  const stranger = new Stripe('sk_test_wrong', { maxNetworkRetries: 0 });
  await assert.rejects(
    stranger.checkout.sessions.create(cart),
    Stripe.errors.StripeAuthenticationError,
  );
});

test("the library's own check believes the events, and no changed one", async (t) => {
  const { vendor, client } = await stripe(t);
  const secret = vendor.secrets['webhook-secret'];
  const { session } = await paid({ vendor, client });
  const { headers, body } = await vendor.callback();
  const event = client.webhooks.constructEvent(body, headers['stripe-signature'], secret);
  assert.equal(event.object, 'event');
  assert.equal(event.data.object.id, session.id);
  assert.throws(
    () => client.webhooks.constructEvent(`${body} `, headers['stripe-signature'], secret),
    Stripe.errors.StripeSignatureVerificationError,
  );
});

test('what a shop may send beside, or leave out, is taken', async (t) => {
  const { vendor, client } = await stripe(t);
  const { mode, line_items, success_url } = cart;
  const [{ price_data }] = line_items;
  for (const more of [
    {},
    { payment_method_types: ['card', 'link'] },
    { payment_method_types: ['card', 'cashapp'], line_items: [{ quantity: 1, price_data: { ...price_data, currency: 'usd' } }] },
    { line_items: [{ quantity: 1, price_data: { ...price_data, tax_behavior: 'inclusive' } }] },
    { client_reference_id: 'basket-17', customer_email: 'ada@shop.example', locale: 'auto' },
    { submit_type: 'pay', billing_address_collection: 'required', allow_promotion_codes: true },
    { phone_number_collection: { enabled: true }, consent_collection: { terms_of_service: 'none' } },
    { automatic_tax: { enabled: false }, invoice_creation: { enabled: false } },
    { shipping_address_collection: { allowed_countries: ['NL', 'DE'] } },
    { custom_text: { submit: { message: 'We send it today.' } } },
    { payment_intent_data: { description: 'Tea', metadata: { a: 'b' }, setup_future_usage: 'off_session' } },
    { payment_method_options: { card: { request_three_d_secure: 'any' } } },
  ]) {
    const session = await client.checkout.sessions.create({ mode, line_items, success_url, ...more });
    assert.equal(session.status, 'open', JSON.stringify(more));
  }
  const { session, payment } = await paid({ vendor, client });
  const read = await client.checkout.sessions.retrieve(session.id, {
    expand: ['payment_intent.latest_charge', 'line_items'],
  });
  assert.equal(read.payment_intent.latest_charge.id, payment.latest_charge);
  assert.equal(read.line_items.data[0].amount_total, 4990);
  const done = await client.checkout.sessions.list({ status: 'complete', created: { gte: 1 } });
  assert.deepEqual(done.data.map(({ id }) => id), [session.id]);
});
