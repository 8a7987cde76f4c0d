// A running `kassette dev`, found by its ready file.

import { readFile } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';

const path = process.env.KASSETTE_READY_FILE;
if (!path) {
  throw new Error('KASSETTE_READY_FILE must name the ready file of a running `kassette dev`');
}

export const ready = JSON.parse(await readFile(path, 'utf8'));
export const merchant = ready.merchants[0];
export const shop = `https://${merchant.verified_domain}`;

// Maximum wait in milliseconds. The simulator guarantees its approval within 30 s.
export const TEST_TIMEOUT = 45_000;

async function call(base, key, method, path, body) {
  const response = await fetch(`${base}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    },
    body: body ? JSON.stringify(body) : undefined,
    signal: AbortSignal.timeout(TEST_TIMEOUT),
  });
  const text = await response.text();
  if (!response.ok) {
    throw new Error(`${method} ${path}: ${response.status} ${text}`);
  }
  return text ? JSON.parse(text) : undefined;
}

// Creates a payment. Fields of `more` replace the defaults; `undefined` omits a field.
export function createPayment(more = {}) {
  return call(ready.base_url, merchant.test_key, 'POST', '/api/v1/payments', {
    order_id: 'Browser test <b>7</b>',
    idempotency_key: `browser-${randomUUID()}`,
    amount: '49.90',
    currency: 'EUR',
    customer_email: 'payer@shop-customer.example',
    return_url: `${shop}/thanks?order=7`,
    ...more,
  });
}

export function readPayment(id) {
  return call(ready.base_url, merchant.test_key, 'GET', `/api/v1/payments/${id}`);
}

export function startPayment(id, method) {
  return call(ready.base_url, merchant.test_key, 'POST', '/api/v1/payments/start', {
    payment_id: id,
    payment_method: method,
  });
}

// Calls the admin API as an operator; paths are relative to `admin_url`.
export function operate(method, path, body) {
  return call(ready.admin_url, ready.operator_token, method, path, body);
}

// Invites a merchant as the demo reseller.
export function invite() {
  return call(ready.base_url, ready.resellers[0].test_key, 'POST', '/api/v1/reseller/invitations', {
    email: 'owner@invited-shop.example',
    business_name: 'Bäckerei <b>Müller</b>',
    client_ref: `browser-${randomUUID()}`,
  });
}

// The demo reseller's merchants, with the status of each delegation.
export async function resellerMerchants() {
  const { test_key: key } = ready.resellers[0];
  return (await call(ready.base_url, key, 'GET', '/api/v1/reseller/merchants')).merchants;
}

// Creates a merchant and returns its ID.
export async function createMerchant() {
  const body = { name: 'Invited shop', live_approved: false, fx_rates: {} };
  return (await operate('POST', '/merchants', body)).merchant_id;
}

// Issues a code with which a merchant accepts an invitation.
export async function issueConsentCode(merchant) {
  return (await operate('POST', `/merchants/${merchant}/consent-codes`, {})).code;
}

// Waits until a payment has a status.
export async function reaches(id, status) {
  const deadline = Date.now() + TEST_TIMEOUT;
  for (;;) {
    const payment = await readPayment(id);
    if (payment.status === status) {
      return payment;
    }
    if (Date.now() > deadline) {
      throw new Error(`the payment is ${payment.status}, not ${status}`);
    }
    await new Promise((done) => setTimeout(done, 250));
  }
}
