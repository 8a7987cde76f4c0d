// The documentation: readable at every width, in light and dark mode, with and without scripts. Its links lead
// somewhere, and its command lines run.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import { Payer, launch } from './payer.mjs';
import { createPayment, merchant, operate, reaches, ready, startPayment } from './server.mjs';

// Maximum bytes of a page with its stylesheet.
const MOST_BYTES = 60_000;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const open = async (path) => {
  const answer = await fetch(`${ready.base_url}${path}`);
  assert.equal(answer.status, 200, path);
  return answer.text();
};

// Paths of all pages, as the navigation lists them.
const paths = async () => {
  const links = (await open('/docs')).matchAll(/href="(\/docs[^"#]*)"/g);
  return [...new Set([...links].map(([, path]) => path))];
};

for (const size of ['phone', 'desktop']) {
  for (const how of [{ dark: false }, { dark: true }, { scripts: false }]) {
    test(`a developer reads the documentation (${size}, ${JSON.stringify(how)})`, async () => {
      const reader = await Payer.arrive(browser, { size, ...how });
      const { page } = reader;
      try {
        await reader.open(`${ready.base_url}/docs`);
        await reader.heading('Take a payment, and know that you were paid').waitFor();
        await reader.inspect('docs', MOST_BYTES);
        await reader.press(page.locator('.acts a.primary'));
        await reader.heading('Make a first payment').waitFor();
        assert.match(await page.locator('pre').first().innerText(), new RegExp(ready.base_url));
        await reader.inspect('docs-guide', MOST_BYTES);
        if (size === 'phone') {
          await reader.tabTo(page.locator('body > .opener summary'));
          await page.keyboard.press('Enter');
        }
        const places = page.getByRole('navigation', { name: 'All pages' });
        await reader.tabTo(places.locator('summary', { hasText: 'Payments' }));
        await page.keyboard.press('Enter');
        await reader.press(places.getByRole('link', { name: 'Create payment', exact: true }));
        await reader.heading('Create payment').waitFor();
        await reader.inspect('docs-call', MOST_BYTES);
        for (const place of ['errors', 'test-amounts', 'reference/read-payment-details']) {
          await reader.open(`${ready.base_url}/docs/${place}`);
          await reader.inspect(`docs-${place.replace('/', '-')}`, MOST_BYTES);
        }
      } finally {
        await reader.leave();
      }
    });
  }
}

test('every page is accessible and no wider than a phone', async () => {
  const reader = await Payer.arrive(browser, { size: 'phone' });
  try {
    for (const path of await paths()) {
      await reader.open(`${ready.base_url}${path}`);
      await reader.inspect(`docs-all`, MOST_BYTES);
    }
  } finally {
    await reader.leave();
  }
});

test('every link of the documentation leads somewhere', async () => {
  const pages = new Map();
  for (const path of await paths()) {
    pages.set(path, await open(path));
  }
  for (const [from, html] of pages) {
    for (const [, link] of html.matchAll(/href="([^"]+)"/g)) {
      if (link.startsWith('https://') || link.startsWith('/assets/') || link === '/openapi.json') continue;
      const [path, id] = link.split('#');
      const target = pages.get(path || from);
      assert.ok(target, `${from}: ${link}`);
      assert.ok(!id || target.includes(` id="${id}"`), `${from}: ${link}`);
    }
  }
});

// Objects that the command lines name. Each call has its own, because calls change them.
const everything = ['payments:create', 'payments:read', 'payments:refund', 'account:manage'];
const forReseller = [
  'reseller:invite',
  'reseller:payments:create',
  'reseller:payments:read',
  'reseller:refund',
  'account:manage',
];

const api = async (key, method, path, body) => {
  const answer = await fetch(`${ready.base_url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
};

async function paid(create, start) {
  const more = { amount: '7001.01', checkout_mode: 'direct', payment_method: 'ideal' };
  const { payment_id: id } = await create(more);
  assert.ok((await fetch((await start(id)).redirect_url)).ok);
  return id;
}

test('every command line of the reference runs, and its answer has the fields of the example', async () => {
  const reseller = ready.resellers[0];
  const owners = [
    { owner: `/merchants/${merchant.merchant_id}`, scopes: everything },
    { owner: `/resellers/${reseller.reseller_id}`, scopes: forReseller },
  ];
  const [key, resellerKey] = await Promise.all(
    owners.map(async ({ owner, scopes }) => {
      const issued = await operate('POST', `${owner}/keys`, { environment: 'test', scopes });
      return issued.key;
    }),
  );
  await operate('PUT', `/resellers/${reseller.reseller_id}/delegations/1`, {
    status: 'authorized',
    refunds: true,
    actor: 'test',
    reason: 'refunds',
  });
  const resellersCreate = (more) =>
    api(resellerKey, 'POST', '/reseller/payments', {
      merchant_id: 1,
      client_ref: randomUUID(),
      order_id: 'docs',
      amount: '49.90',
      currency: 'EUR',
      ...more,
    });
  const resellersStart = (payment_id) =>
    api(resellerKey, 'POST', '/reseller/payments/start', { payment_id, payment_method: 'ideal' });
  const direct = { checkout_mode: 'direct', payment_method: 'ideal' };

  const objects = async (id, path) => {
    const ours = path.includes('/reseller/');
    const token = ours ? resellerKey : key;
    const prefix = ours ? '/reseller' : '/account';
    const create = ours ? resellersCreate : createPayment;
    if (/endpoints|deliver/i.test(path)) {
      const url = `https://docs-${randomUUID()}.example/hook`;
      const endpoint = await api(token, 'POST', `${prefix}/webhook-endpoints`, { url });
      const { delivery_id } = await api(token, 'POST', `${prefix}/webhook-endpoints/${endpoint.id}/test`);
      if (/redeliver/i.test(id)) {
        // Only a delivery that has ended can be repeated.
        await api(token, 'PATCH', `${prefix}/webhook-endpoints/${endpoint.id}`, { enabled: false });
      }
      return { ENDPOINT_ID: endpoint.id, DELIVERY_ID: delivery_id };
    }
    if (/start/i.test(id)) {
      return { PAYMENT_ID: (await create(direct)).payment_id };
    }
    if (/refund/i.test(id)) {
      const payment = await paid(create, ours ? resellersStart : (at) => startPayment(at, 'ideal'));
      await reaches(payment, 'completed');
      if (id !== 'readRefund') return { PAYMENT_ID: payment };
      const body = { idempotency_key: randomUUID(), amount: '1.00' };
      const refund = await api(key, 'POST', `/payments/${payment}/refunds`, body);
      return { REFUND_ID: refund.refund_id };
    }
    return { PAYMENT_ID: (await create()).payment_id };
  };

  const document = JSON.parse(await open('/openapi.json'));
  let ran = 0;
  for (const [path, item] of Object.entries(document.paths)) {
    for (const { operationId: id } of Object.values(item)) {
      // Needs a shop that proves its site: tests/clients connects one.
      if (id === 'exchangeConnectCode') continue;
      const slug = id.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      const html = await open(`/docs/reference/${slug}`);
      const [line, shown] = [...html.matchAll(/<pre tabindex="0"><code>([^]*?)<\/code>/g)].map(([, code]) =>
        code.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'),
      );
      const status = Number(/<span class="state good">(\d+)</.exec(html)?.[1]);
      const env = {
        ...process.env,
        KASSETTE_URL: ready.base_url,
        KASSETTE_API_KEY: key,
        RESELLER_KEY: resellerKey,
        ...(await objects(id, path)),
      };
      // Keys and addresses of the examples can be used once on a gateway; the test can run again.
      const fresh = line
        .replace(/"(idempotency_key|client_ref)": "[^"]*"/, `"$1": "${randomUUID()}"`)
        .replace('https://shop.example/webhooks', `https://docs-${randomUUID()}.example/webhooks`);
      const { stdout } = await promisify(execFile)('bash', ['-c', `${fresh} -w '\\n%{http_code}'`], { env });
      const [, body, got] = /^([^]*)\n(\d+)$/.exec(stdout);
      assert.equal(Number(got), status, `${line}\n${stdout}`);
      if (body) {
        assert.deepEqual(Object.keys(JSON.parse(shown)).filter((name) => !(name in JSON.parse(body))), [], `${id}: ${body}`);
      }
      // A merchant can have only so many endpoints.
      const made = body && /endpoints$/.test(path) ? JSON.parse(body).id : undefined;
      for (const endpoint of [env.ENDPOINT_ID, made].filter(Boolean)) {
        const [token, prefix] = path.includes('/reseller/') ? [resellerKey, '/reseller'] : [key, '/account'];
        const headers = { authorization: `Bearer ${token}` };
        await fetch(`${ready.base_url}/api/v1${prefix}/webhook-endpoints/${endpoint}`, { method: 'DELETE', headers });
      }
      ran += 1;
    }
  }
  assert.ok(ran > 30, String(ran));
});
