// @paypal/paypal-server-sdk, https://www.npmjs.com/package/@paypal/paypal-server-sdk

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  CheckoutPaymentIntent,
  Client,
  Environment,
  OrdersController,
  PaymentsController,
} from '@paypal/paypal-server-sdk';
import { Vendor } from './vendor.mjs';

async function paypal(t) {
  const vendor = await Vendor.start(t, 'paypal', 'api-m.sandbox.paypal.com');
  const client = (oAuthClientId, oAuthClientSecret) =>
    new Client({
      clientCredentialsAuthCredentials: { oAuthClientId, oAuthClientSecret },
      environment: Environment.Sandbox,
    });
  const own = client(vendor.secrets['client-id'], vendor.secrets['client-secret']);
  return {
    vendor,
    client,
    orders: new OrdersController(own),
    payments: new PaymentsController(own),
  };
}

// An order of a shop that was written for PayPal only.
const body = {
  intent: CheckoutPaymentIntent.Capture,
  purchaseUnits: [
    {
      referenceId: 'default',
      customId: 'basket-17',
      amount: {
        currencyCode: 'USD',
        value: '49.90',
        breakdown: { itemTotal: { currencyCode: 'USD', value: '49.90' } },
      },
      items: [
        { name: 'Tea', quantity: '2', unitAmount: { currencyCode: 'USD', value: '24.95' } },
      ],
    },
  ],
  paymentSource: {
    paypal: {
      experienceContext: {
        returnUrl: 'https://shop.example/thanks',
        cancelUrl: 'https://shop.example/basket',
      },
    },
  },
};

// ID of the capture of an approved order.
async function captured({ vendor, orders }) {
  const { result: order } = await orders.createOrder({ body, paypalRequestId: 'order-17' });
  await vendor.choose(approval(order), 'approve');
  const prefer = 'return=representation';
  const { result } = await orders.captureOrder({ id: order.id, prefer });
  return result.purchaseUnits[0].payments.captures[0].id;
}

function approval({ links }) {
  return links.find(({ rel }) => rel === 'payer-action').href;
}

test('an order is created, read, approved and captured', async (t) => {
  const { vendor, orders, payments } = await paypal(t);
  const asked = { body, paypalRequestId: 'order-17', prefer: 'return=minimal' };
  const { result: order, statusCode } = await orders.createOrder(asked);
  assert.equal(order.status, 'PAYER_ACTION_REQUIRED');
  assert.ok([200, 201].includes(statusCode));
  assert.equal((await orders.createOrder(asked)).result.id, order.id);
  await vendor.choose(approval(order), 'approve');
  assert.equal((await orders.getOrder({ id: order.id })).result.status, 'APPROVED');
  const { result } = await orders.captureOrder({
    id: order.id,
    paypalRequestId: 'capture-17',
    prefer: 'return=representation',
  });
  assert.equal(result.status, 'COMPLETED');
  const [capture] = result.purchaseUnits[0].payments.captures;
  const { result: read } = await payments.getCapturedPayment({ captureId: capture.id });
  assert.equal(read.status, 'COMPLETED');
  assert.deepEqual({ ...read.amount }, { currencyCode: 'USD', value: '49.90' });
});

test('a capture is given back in parts, read and never exceeded', async (t) => {
  const shop = await paypal(t);
  const captureId = await captured(shop);
  const part = {
    captureId,
    paypalRequestId: 'refund-1',
    prefer: 'return=representation',
    body: {
      amount: { currencyCode: 'USD', value: '10.00' },
      customId: 'ticket-7',
      noteToPayer: 'One box was broken',
    },
  };
  const { result: refund } = await shop.payments.refundCapturedPayment(part);
  assert.equal(refund.status, 'COMPLETED');
  assert.equal(refund.amount.value, '10.00');
  const { result: again } = await shop.payments.refundCapturedPayment(part);
  assert.equal(again.id, refund.id);
  const { result: read } = await shop.payments.getRefund({ refundId: refund.id });
  assert.equal(read.customId, 'ticket-7');
  const rest = { captureId, paypalRequestId: 'refund-2', prefer: 'return=representation' };
  const { result: last } = await shop.payments.refundCapturedPayment(rest);
  assert.equal(last.amount.value, '39.90');
  await assert.rejects(
    shop.payments.refundCapturedPayment({ ...part, paypalRequestId: 'refund-3' }),
    { statusCode: 422 },
  );
});

test('wrong credentials are refused', async (t) => {
  const { client } = await paypal(t);
  const stranger = new OrdersController(client('unknown', 'wrong'));
  await assert.rejects(stranger.createOrder({ body, paypalRequestId: 'order-17' }));
});

test('what a shop may send beside, or leave out, is taken', async (t) => {
  const { orders } = await paypal(t);
  const amount = { currencyCode: 'USD', value: '10.00' };
  const shipping = {
    name: { fullName: 'Ada Byron' },
    address: { addressLine1: '1 Main St', adminArea2: 'San Jose', postalCode: '95131', countryCode: 'US' },
  };
  const applicationContext = {
    brandName: 'Tea shop',
    returnUrl: 'https://shop.example/thanks',
    cancelUrl: 'https://shop.example/basket',
    userAction: 'PAY_NOW',
  };
  const { intent, paymentSource } = body;
  for (const more of [
    { purchaseUnits: [{ amount }] },
    { purchaseUnits: [{ amount }], applicationContext },
    {
      purchaseUnits: [{ amount, description: 'Tea', invoiceId: 'i-17', softDescriptor: 'TEA', shipping }],
      payer: { emailAddress: 'ada@shop.example' },
      paymentSource,
    },
  ]) {
    const asked = { body: { intent, ...more }, paypalRequestId: `order-${Object.keys(more)}` };
    const { result } = await orders.createOrder(asked);
    assert.ok(['CREATED', 'PAYER_ACTION_REQUIRED'].includes(result.status), JSON.stringify(more));
  }
});
