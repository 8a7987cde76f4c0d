// A payer without a script: reads pages, sends their forms, follows their links.

import assert from 'node:assert/strict';

// Chooses a method on the hosted page and presses a button on the provider's.
export async function pay(checkoutUrl: string, method: string, outcome: string): Promise<void> {
  const seen = hidden(await open(checkoutUrl));
  const chosen = await send(`${checkoutUrl}/choose`, { ...seen, payment_method: method });
  const go = new URL(chosen, checkoutUrl).href;
  const way = await open(go);
  const provider = /<a class="primary" href="([^"]+)"/.exec(way)?.[1];
  assert.ok(provider, way);
  const url = provider.replaceAll('&#38;', '&').replaceAll('&amp;', '&');
  const page = await open(url);
  const action = /<form[^>]*action="([^"]+)"/.exec(page)?.[1];
  assert.ok(action, page);
  await send(new URL(action, url).href, { ...hidden(page), outcome });
}

function hidden(page: string): Record<string, string> {
  const inputs = page.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g);
  return Object.fromEntries([...inputs].map(([, name = '', value = '']) => [name, value]));
}

async function open(url: string): Promise<string> {
  const page = await fetch(url);
  assert.equal(page.status, 200, url);
  return page.text();
}

// Sends a form of the gateway's or the provider's page. Returns the address of the redirect.
async function send(url: string, fields: Record<string, string>): Promise<string> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { origin: new URL(url).origin },
    body: new URLSearchParams(fields),
    redirect: 'manual',
  });
  assert.equal(answer.status, 303, `${url}: ${await answer.text()}`);
  return answer.headers.get('location') ?? '';
}
