// The operators' console: every page at two widths, with and without scripts, and changes made in it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Payer, launch } from './payer.mjs';
import { createPayment, operate, reaches, ready, startPayment } from './server.mjs';

const root = new URL(ready.admin_url).origin;
// Maximum size of a page with everything that it loads except data, in bytes before compression.
const MOST_BYTES = 60_000;
// The same for the demo merchant, whose methods and 21 rates are data.
const MOST_BYTES_OF_MERCHANT = 66_000;
const SLOT = 'method.ideal';
const PAGES = [
  ['overview', '/console/?environment=test'],
  ['inbox', '/console/work?environment=test'],
  ['search', '/console/payments?q=nothing-like-this'],
  ['daybook', '/console/daybook?environment=test'],
  ['modules', '/console/modules?environment=test'],
  ['module', `/console/modules/${SLOT}?environment=test`],
  ['accounts', '/console/providers?environment=test'],
  ['merchants', '/console/merchants?environment=test'],
  ['merchant', '/console/merchants/1?environment=test'],
  ['deliveries', '/console/deliveries?status=failed&environment=test'],
  ['resellers', '/console/resellers?environment=test'],
  ['operators', '/console/operators?environment=test'],
  ['audit', '/console/audit?environment=test'],
  ['status', '/console/status?environment=test'],
];

let browser;
let payment;
before(async () => {
  browser = await launch();
  payment = await paid();
});
after(() => browser?.close());

// A payment that the payer has paid.
async function paid() {
  const made = await createPayment({ order_id: 'Console <b>7</b>', payment_method: 'ideal', checkout_mode: 'direct' });
  const { redirect_url: url } = await startPayment(made.payment_id, 'ideal');
  const [, page, session] = /^(.*)\/([^/]+)$/.exec(url);
  await fetch(page, { method: 'POST', body: new URLSearchParams({ session, outcome: 'approve' }) });
  return reaches(made.payment_id, 'completed');
}

async function visit(options) {
  const visitor = await Payer.arrive(browser, options);
  await visitor.open(`${root}/console/`);
  assert.match(visitor.page.url(), /\/console\/sign-in/);
  await visitor.page.getByLabel('Operator’s token').fill(ready.operator_token);
  await visitor.page.getByRole('button', { name: 'Sign in' }).click();
  await visitor.page.waitForURL(`${root}/console/**`);
  return visitor;
}

for (const size of ['phone', 'desktop']) {
  for (const how of [{ dark: false }, { dark: true }, { scripts: false }]) {
    test(`every page of the console is readable (${size}, ${JSON.stringify(how)})`, async () => {
      const visitor = await visit({ size, ...how });
      try {
        const own = `/console/payments/${payment.payment_id}?environment=test`;
        for (const [name, path] of [...PAGES, ['payment', own]]) {
          const answer = await visitor.open(`${root}${path}`);
          assert.equal(answer.status(), 200, path);
          const most = name === 'merchant' ? MOST_BYTES_OF_MERCHANT : MOST_BYTES;
          await visitor.inspect(`console-${name}`, most);
        }
        await visitor.page.context().clearCookies();
        await visitor.open(`${root}/console/work`);
        await visitor.inspect('console-sign-in', MOST_BYTES);
      } finally {
        await visitor.leave();
      }
    });
  }
}

test('an order leads straight to its payment', async () => {
  const visitor = await visit({ size: 'desktop' });
  try {
    const { page } = visitor;
    await page.getByRole('searchbox').first().fill(payment.payment_id);
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/console/payments/${payment.payment_id}?environment=test`);
  } finally {
    await visitor.leave();
  }
});

test('a part of a payment is refunded, without scripts', async () => {
  const visitor = await visit({ size: 'desktop', scripts: false });
  try {
    const { page } = visitor;
    const path = `/console/payments/${payment.payment_id}`;
    await visitor.open(`${root}${path}?environment=test`);
    await page.locator('button[popovertarget]', { hasText: 'Refund' }).first().click();
    const form = page.locator(`form[action^="${path}/refunds"]`);
    await form.locator('[name=amount]').fill('1.00');
    await form.locator('[name=reason]').fill('one bag was broken');
    await form.getByRole('button').first().click();
    await page.waitForURL(`**${path}?environment=test`);
    const { refunds } = await operate('GET', `/payments/${payment.payment_id}/refunds`);
    assert.deepEqual(refunds.map(({ amount }) => amount), ['1.00']);
  } finally {
    await visitor.leave();
  }
});

test('a live account is switched off after a second question', async () => {
  const visitor = await visit({ size: 'desktop', scripts: false });
  try {
    const { page } = visitor;
    const account = async () => {
      const { providers } = await operate('GET', '/providers');
      return providers.find(({ id }) => id === 'sandbox-live');
    };
    for (const enabled of [false, true]) {
      await visitor.open(`${root}/console/providers?environment=live`);
      const form = page.locator('form[action^="/console/providers/sandbox-live/change"]').first();
      const id = await form.evaluate((node) => node.closest('[popover]')?.id);
      if (id) {
        await page.locator(`[popovertarget="${id}"]`).first().click();
      }
      await form.locator('[name=reason]').fill('maintenance');
      await form.getByRole('button').first().click();
      await page.getByRole('heading', { name: /Switch sandbox-live/ }).waitFor();
      assert.equal((await account()).enabled, !enabled);
      await visitor.inspect('console-confirm', MOST_BYTES);
      await page.locator('main form').getByRole('button').click();
      await page.waitForURL('**/console/providers?environment=live');
      assert.equal((await account()).enabled, enabled);
    }
  } finally {
    await visitor.leave();
  }
});

test('sign-out ends the session', async () => {
  const visitor = await visit({ size: 'desktop' });
  try {
    const { page } = visitor;
    await page.locator('[popovertarget=me]').click();
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.waitForURL('**/console/sign-in');
    await visitor.open(`${root}/console/operators`);
    assert.match(page.url(), /\/console\/sign-in/);
  } finally {
    await visitor.leave();
  }
});
