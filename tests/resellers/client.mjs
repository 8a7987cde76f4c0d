// A reseller's client of Kassette. Node 18 or newer, no packages.
//
//     KASSETTE_RESELLER_KEY=kr_live_... node client.mjs BASE_URL METHOD TARGET [BODY]
//
// TARGET is path and query, as in /api/v1/reseller/payments?merchant_id=1. Prints the status and, on
// the lines after it, the answer's body.

import { createHash, createHmac, randomBytes } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

// -- sign
/** The headers of one request. Sign again for each try: a nonce is good for one. */
export function sign(key, method, url, body) {
  const timestamp = Math.floor(Date.now() / 1000).toString();
  const nonce = randomBytes(16).toString('hex');
  const digest = createHash('sha256').update(body).digest('hex');
  // As `fetch` sends it: an URL may be written in another way than it was given.
  const target = url.pathname + url.search;
  const lines = [method, target, timestamp, nonce, digest].join('\n');
  return {
    Authorization: `Bearer ${key}`,
    'X-Service-Timestamp': timestamp,
    'X-Service-Nonce': nonce,
    'X-Service-Signature': createHmac('sha256', key).update(lines).digest('hex'),
  };
}
// -- end

const TRIES = 4;

/**
 * Status and body of the answer. Tries again where it is not known what became of a try, or where the
 * server asks for it: the body is the same, and so its client_ref, so nothing is done twice.
 */
async function call(base, key, method, target, body) {
  const url = new URL(base + target);
  let failure;
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    if (attempt > 0) await setTimeout(250 * 2 ** attempt);
    const headers = sign(key, method, url, body);
    if (body !== '') headers['Content-Type'] = 'application/json';
    try {
      const options = { method, headers, body: body || undefined, signal: AbortSignal.timeout(30000) };
      const response = await fetch(url, options);
      const answer = await response.text();
      if (response.status < 500 && response.status !== 429) return [response.status, answer];
      failure = new Error(`the server answered ${response.status}: ${answer}`);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

// Run as a program, not imported.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [base, method, target, body = ''] = process.argv.slice(2);
  const [status, answer] = await call(base, process.env.KASSETTE_RESELLER_KEY, method, target, body);
  console.log(status);
  console.log(answer);
}
