// Receivers that verify deliveries with the public libraries of Standard Webhooks, before and during a rotation.

import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import type { AddressInfo } from 'node:net';

import { Webhook as Standard } from 'standardwebhooks';
import { Webhook as Svix } from 'svix';

import { operate, ready } from './gateway.js';
import { until } from './payer.js';

interface Delivery {
  headers: IncomingHttpHeaders;
  body: string;
}

test('standardwebhooks and svix verify a delivery, with either secret during a rotation', async (t) => {
  const deliveries: Delivery[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    deliveries.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const merchant = ready.merchants[0].merchant_id;
  const hook = { environment: 'test', url: `http://127.0.0.1:${port}/webhooks` };
  const endpoint = await operate('POST', `/merchants/${merchant}/webhook-endpoints`, hook);
  const receive = async (): Promise<Delivery> => {
    await operate('POST', `/webhook-endpoints/${endpoint.id}/test`, {});
    return until(async () => deliveries.shift());
  };
  const verify = (secret: string, { headers, body }: Delivery): void => {
    const sent = headers as Record<string, string>;
    assert.equal(JSON.parse(body).id, sent['webhook-id']);
    for (const library of [new Standard(secret), new Svix(secret)]) {
      library.verify(body, sent);
      assert.throws(() => library.verify(body.replace('webhook.test', 'payment.completed'), sent));
    }
  };

  assert.ok(endpoint.secret);
  verify(endpoint.secret, await receive());
  const rotation = { overlap_hours: 1, actor: 'test', reason: 'rotation' };
  const { secret } = await operate('POST', `/webhook-endpoints/${endpoint.id}/rotate`, rotation);
  assert.ok(secret);
  const during = await receive();
  verify(endpoint.secret, during);
  verify(secret, during);
  assert.throws(() => verify(`whsec_${'A'.repeat(44)}`, during));
});
