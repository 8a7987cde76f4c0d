// From the checkout page to the return page, by keyboard alone, with and without scripts.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Payer, launch } from './payer.mjs';
import { createPayment, operate, reaches, readPayment, ready, shop, startPayment } from './server.mjs';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

async function visiting(how, visit) {
  const payer = await Payer.arrive(browser, how);
  try {
    await visit(payer);
  } finally {
    await payer.leave();
  }
}

const method = (payer, id) => payer.page.locator(`button[name=payment_method][value=${id}]`);
const back = (payer) => payer.page.getByRole('link', { name: 'Back to merchant' });

async function approve(payer, payment) {
  await payer.decide('approve');
  await payer.heading('Payment complete').waitFor();
  await payer.inspect('return-approve');
  assert.equal((await reaches(payment.payment_id, 'completed')).settlement_status, 'confirmed');
  await payer.page.waitForURL(`${shop}/**`);
  assert.deepEqual(payer.visits, [{ url: `${shop}/thanks?order=7`, referrer: undefined }]);
}

async function decline(payer, payment) {
  await payer.decide('decline');
  const again = payer.page.getByRole('link', { name: 'Choose how to pay' });
  await again.waitFor();
  await payer.inspect('return-decline');
  await reaches(payment.payment_id, 'created');
  await payer.press(again);
  await payer.heading('How would you like to pay?').waitFor();
}

async function review(payer, payment) {
  await payer.decide('review');
  await payer.heading('Your payment is being checked').waitFor();
  await payer.inspect('return-review');
  await reaches(payment.payment_id, 'review');
  assert.equal(await back(payer).getAttribute('href'), `${shop}/thanks?order=7`);
}

async function pending(payer, payment) {
  await payer.decide('pending');
  await payer.heading(/Waiting for/).waitFor();
  await payer.inspect('return-pending');
  assert.equal((await readPayment(payment.payment_id)).status, 'pending');
  await back(payer).waitFor();
  await payer.press(payer.page.getByRole('link', { name: /^Continue to/ }));
  await payer.page.locator('button[name=outcome]').first().waitFor();
}

const OUTCOMES = { approve, decline, review, pending };

for (const size of ['phone', 'desktop']) {
  for (const scripts of [true, false]) {
    for (const [outcome, finish] of Object.entries(OUTCOMES)) {
      const how = `${size}, ${scripts ? 'with' : 'without'} scripts`;
      test(`a payer can ${outcome} (${how})`, () =>
        visiting({ size, scripts }, async (payer) => {
          const payment = await createPayment();
          await payer.open(payment.checkout_url);
          await payer.inspect('checkout');
          await payer.press(method(payer, 'credit_card'));
          await payer.reachProvider('card');
          await finish(payer, payment);
        }));
    }
  }
}

for (const [id, currency] of [['klarna', 'EUR'], ['crypto', 'EUR'], ['upi_imps', 'INR']]) {
  for (const scripts of [true, false]) {
    test(`our own page stands before ${id} (scripts: ${scripts})`, () =>
      visiting({ scripts }, async (payer) => {
        const payment = await createPayment({ currency });
        await payer.open(payment.checkout_url);
        await payer.press(method(payer, id));
        await payer.reachProvider(id);
        await approve(payer, payment);
      }));
  }
}

for (const size of ['phone', 'desktop']) {
  test(`questions are answered by keyboard (${size})`, () =>
    visiting({ size }, async (payer) => {
      const fault = (name) =>
        operate('POST', '/dev/faults', { provider_id: 'sandbox-test', fault: name, times: 1 });
      const payment = await createPayment({ customer_email: undefined });
      await fault('ask');
      try {
        await payer.open(payment.checkout_url);
        await payer.press(method(payer, 'credit_card'));
        await payer.page.locator('form.questions').waitFor();
        await payer.reachProvider('asked');
        await approve(payer, payment);
      } finally {
        await fault('none');
      }
    }));
}

test('a payer who comes back can choose another way', () =>
  visiting({}, async (payer) => {
    const payment = await createPayment();
    await payer.open(payment.checkout_url);
    await payer.press(method(payer, 'credit_card'));
    await payer.reachProvider('left');
    await payer.open(payment.checkout_url);
    await payer.inspect('open');
    await payer.press(payer.page.getByRole('button', { name: 'Choose another way to pay' }));
    await payer.heading('How would you like to pay?').waitFor();
    await payer.press(method(payer, 'paypal'));
    await payer.reachProvider('second');
    await approve(payer, payment);
  }));

test('a direct payment shows its open attempt and no choice', () =>
  visiting({}, async (payer) => {
    const payment = await createPayment({ checkout_mode: 'direct', payment_method: 'credit_card' });
    await payer.open(payment.checkout_url);
    await payer.heading('Please continue in the shop').waitFor();
    await payer.inspect('direct');
    await startPayment(payment.payment_id, 'credit_card');
    await payer.open(payment.checkout_url);
    assert.equal(await payer.page.locator('[name=payment_method]').count(), 0);
    await payer.press(payer.page.getByRole('link', { name: /^Continue to/ }));
    await payer.reachProvider('direct');
    await approve(payer, payment);
  }));

for (const size of ['phone', 'desktop']) {
  for (const dark of [false, true]) {
    test(`pages at rest are faultless (${size}, ${dark ? 'dark' : 'light'})`, () =>
      visiting({ size, dark }, async (payer) => {
        const payment = await createPayment({ order_id: 'x'.repeat(150), amount: '9999.99' });
        await payer.open(payment.checkout_url);
        await payer.inspect('long');
        assert.equal((await payer.open(`${ready.base_url}/checkout/nobody`)).status(), 404);
        await payer.inspect('unknown');
        assert.equal((await payer.open(`${ready.base_url}/return/nobody`)).status(), 404);
      }));
  }
}

test('pages speak the payer’s language', async () => {
  const payment = await createPayment();
  for (const locale of ['de-DE', 'fr-FR', 'es-ES', 'nl-NL', 'pt-PT']) {
    await visiting({ locale }, async (payer) => {
      await payer.open(payment.checkout_url);
      assert.equal(await payer.page.locator('html').getAttribute('lang'), locale.slice(0, 2));
      await payer.inspect(`checkout-${locale.slice(0, 2)}`);
    });
  }
});

test('nothing of the payer or of the books stands on the page', () =>
  visiting({}, async (payer) => {
    const payment = await createPayment();
    await payer.open(payment.checkout_url);
    const html = await payer.page.content();
    for (const secret of [payment.payment_id, 'payer@shop-customer.example', payment.usd_amount]) {
      assert.ok(!html.includes(secret), secret);
    }
    assert.ok(html.includes('Browser test &lt;b&gt;7&lt;/b&gt;'), 'what others wrote is escaped');
    assert.ok(html.includes('TEST'), 'a test payment says so');
  }));

// Last, because it moves the clock of everything: payments that are open elsewhere expire too.
test('an expired payment says so', () =>
  visiting({}, async (payer) => {
    const payment = await createPayment();
    await operate('POST', '/dev/clock', { advance_seconds: 25 * 3600 });
    await reaches(payment.payment_id, 'expired');
    await payer.open(payment.checkout_url);
    await payer.heading('This payment has expired').waitFor();
    await payer.inspect('expired');
  }));
