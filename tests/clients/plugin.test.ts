// A shop plugin that uses types generated from /openapi.json: it connects with a code and sells.

import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';

import { client, operate, ready } from './gateway.js';

test('a plugin exchanges its code for a key, an endpoint and a domain', async () => {
  const proofs = new Map<string, string>();
  const site = createServer((request, response) => {
    const proof = proofs.get(request.url ?? '');
    response.statusCode = proof === undefined ? 404 : 200;
    response.end(proof);
  });
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  try {
    const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
    const merchant = ready.merchants[0].merchant_id;
    const terms = { environment: 'test', site_url: origin };
    const { code } = await operate('POST', `/merchants/${merchant}/connect-codes`, terms);
    assert.ok(code);
    const challenge = randomBytes(32).toString('hex');
    const proof = createHmac('sha256', code).update(`${challenge}\n${origin}`).digest('hex');
    proofs.set(`/.well-known/kassette-connect/${challenge}`, proof);

    const body = { code, site_url: origin, challenge, proof };
    const connected = await client('none').POST('/api/v1/connect/exchange', { body });
    assert.equal(connected.response.status, 200);
    assert.ok(connected.data);
    assert.equal(connected.data.webhook_endpoint.url, `${origin}/wp-json/kassette/v1/webhook`);
    const spent = await client('none').POST('/api/v1/connect/exchange', { body });
    assert.equal(spent.response.status, 401);

    const sale = {
      order_id: 'P-7',
      idempotency_key: crypto.randomUUID(),
      amount: '5.00',
      customer_email: 'ada@customer.example',
    };
    const created = await client(connected.data.api_key).POST('/api/v1/payments', { body: sale });
    // USD is the default currency.
    assert.deepEqual([created.response.status, created.data?.currency], [201, 'USD']);
  } finally {
    site.close();
  }
});
