// A shop that receives Kassette's webhooks. Node 18 or newer, no packages.
//
//     KASSETTE_WEBHOOK_SECRETS=whsec_... node receiver.mjs FOLDER PORT
//
// FOLDER holds orders.json, the shop's own orders, and gets events.log: one line an event, its id, its
// type, and whether it paid an order. The log stands for a database in which all three are one
// transaction. While a secret is rotated, both stand in the variable with a blank between them.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

// -- verify
const TOLERANCE = 300; // seconds

/** The event in a body, which is given as the Buffer that arrived; else an Error. */
export function verify(secrets, headers, body, now) {
  const eventId = headers['x-service-event-id'] ?? '';
  const timestamp = headers['x-service-timestamp'] ?? '';
  const signature = headers['x-service-signature'] ?? '';
  if (!/^[0-9a-f]{32}$/.test(eventId)) throw new Error('malformed event id');
  if (!/^[0-9]{10}$/.test(timestamp) || Math.abs(now - Number(timestamp)) > TOLERANCE) {
    throw new Error('malformed or old timestamp');
  }
  if (!/^v1=[0-9a-f]{64}$/.test(signature)) throw new Error('malformed signature');
  let right = false;
  for (const secret of secrets) {
    const digest = createHmac('sha256', secret).update(`${timestamp}.${eventId}.`).update(body).digest();
    right = timingSafeEqual(digest, Buffer.from(signature.slice(3), 'hex')) || right;
  }
  if (!right) throw new Error('wrong signature');
  const event = JSON.parse(body.toString('utf8'));
  if (event.id !== eventId) throw new Error('the body is of another event');
  return event;
}
// -- end

/** Whether an event says that one of our own orders is paid. */
function pays(event, orders) {
  if (event.type !== 'payment.completed') return false;
  const { data } = event;
  const final = data.status === 'completed' && data.settlement_status === 'confirmed';
  const ours = ['payment_id', 'order_id', 'amount', 'currency'];
  return final && data.test_mode === false
    && orders.some((order) => ours.every((name) => data[name] === order[name]));
}

/** Does what an event asks for, once; comes back when that is on disk. */
function take(event, orders, log) {
  const taken = existsSync(log) ? readFileSync(log, 'utf8').split('\n') : [];
  if (taken.some((line) => line.split(' ')[0] === event.id)) return;
  const outcome = pays(event, orders) ? 'paid' : 'seen';
  const file = openSync(log, 'a');
  writeSync(file, `${event.id} ${event.type} ${outcome}\n`);
  fsyncSync(file);
  closeSync(file);
}

const [folder, port] = process.argv.slice(2);
const secrets = process.env.KASSETTE_WEBHOOK_SECRETS.split(' ');
const orders = JSON.parse(readFileSync(join(folder, 'orders.json'), 'utf8'));

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  let event;
  try {
    event = verify(secrets, request.headers, Buffer.concat(chunks), Date.now() / 1000);
  } catch (error) {
    response.writeHead(400).end(error.message);
    return;
  }
  take(event, orders, join(folder, 'events.log'));
  // An event that was taken before is answered alike: otherwise it would come again.
  response.writeHead(200).end('ok');
});
server.listen(Number(port), '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
