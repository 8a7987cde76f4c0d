// From the checkout page to the return page, with the keyboard only, with and without scripts.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Payer, launch, loads } from './payer.mjs';
import { createPayment, operate, reaches, readPayment, ready, shop, startPayment } from './server.mjs';

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser?.close();
  loads.sort((a, b) => a - b);
  const at = (share) => Math.round(loads[Math.floor(share * (loads.length - 1))]);
  console.log(`# ${loads.length} pages loaded, ms: median ${at(0.5)}, nine of ten ${at(0.9)}, most ${at(1)}`);
});

async function visiting(how, visit) {
  const payer = await Payer.arrive(browser, how);
  try {
    await visit(payer);
  } finally {
    await payer.leave();
  }
}

// Picks a method by keyboard and continues with it.
async function choose(payer, id) {
  await payer.pick('payment_method', id);
  await payer.press(payer.page.locator('.methods li:has(:checked) button.primary'));
}
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
  await payer.heading('How would you like to pay now?').waitFor();
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
          await choose(payer, 'credit_card');
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
        await choose(payer, id);
        await payer.reachProvider(id);
        await approve(payer, payment);
      }));
  }
}

for (const scripts of [true, false]) {
  test(`who pays with another device is led on from the page that waits (scripts: ${scripts})`, () =>
    visiting({ size: 'desktop', scripts }, async (payer) => {
      const payment = await createPayment();
      await payer.open(payment.checkout_url);
      await choose(payer, 'crypto');
      await payer.heading(/^Pay with .?Bitcoin/).waitFor();
      await visiting({ size: 'phone' }, async (phone) => {
        await phone.open(payment.checkout_url);
        await phone.reachProvider('scanned');
        await phone.decide('approve');
      });
      await payer.heading('Payment complete').waitFor();
      await payer.page.waitForURL(`${shop}/**`);
    }));
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
        await choose(payer, 'credit_card');
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
    await choose(payer, 'credit_card');
    await payer.reachProvider('left');
    await payer.open(payment.checkout_url);
    await payer.inspect('open');
    await payer.press(payer.page.getByRole('button', { name: 'Choose another way to pay' }));
    await payer.heading('How would you like to pay now?').waitFor();
    await choose(payer, 'paypal');
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
  for (const locale of [
    'cs-CZ', 'da-DK', 'de-DE', 'es-ES', 'fr-FR', 'hu-HU', 'nb-NO', 'nl-NL', 'pl-PL', 'pt-PT', 'ro-RO', 'sv-SE',
  ]) {
    await visiting({ locale }, async (payer) => {
      await payer.open(payment.checkout_url);
      assert.equal(await payer.page.locator('html').getAttribute('lang'), locale.slice(0, 2));
      await payer.inspect(`checkout-${locale.slice(0, 2)}`);
    });
  }
});

for (const scripts of [true, false]) {
  test(`a language is chosen from the menu and kept to the end (scripts: ${scripts})`, () =>
    visiting({ scripts }, async (payer) => {
      const { page } = payer;
      const language = () => page.locator('html').getAttribute('lang');
      const payment = await createPayment();
      await payer.open(payment.checkout_url);
      await payer.tabTo(page.locator('.languages summary'));
      await page.keyboard.press('Enter');
      await payer.inspect('languages');
      await payer.press(page.getByRole('link', { name: 'Polski' }));
      assert.equal(page.url(), payment.checkout_url);
      assert.equal(await language(), 'pl');
      await choose(payer, 'credit_card');
      await payer.reachProvider('card-pl');
      await payer.decide('pending');
      assert.equal(await language(), 'pl', 'also after the provider');
    }));
}

const LANGUAGES = ['en-GB', 'de-DE', 'fr-FR', 'pl-PL'];

// All pages in the order of a payer's visit, for a review of target/screenshots. The long form (`KASSETTE_LONG`)
// shows each language at both sizes, in light and dark mode.
for (const [s, size] of ['phone', 'desktop'].entries()) {
  for (const [d, dark] of [false, true].entries()) {
    for (const locale of process.env.KASSETTE_LONG ? LANGUAGES : [LANGUAGES[2 * s + d]]) {
      test(`every page in ${locale} (${size}, ${dark ? 'dark' : 'light'})`, () =>
        visiting({ size, dark, locale }, async (payer) => {
          const see = (name) => payer.inspect(`${locale.slice(0, 2)}-${name}`);
          const chosen = await createPayment({ currency: 'USD', amount: '1234.50' });
          await payer.open(chosen.checkout_url);
          await see('choose');
          await choose(payer, 'crypto');
          await see('instructions');
          await payer.press(payer.page.locator('form.another button'));
          await choose(payer, 'klarna');
          await see('form');
          const card = await createPayment();
          await payer.open(card.checkout_url);
          await choose(payer, 'credit_card');
          await payer.reachProvider('look');
          await payer.open(card.checkout_url);
          await see('open');
          await payer.press(payer.page.locator('a.primary'));
          await payer.reachProvider('look');
          await payer.decide('decline');
          await payer.page.locator('.state.bad').waitFor();
          await see('declined');
          await payer.press(payer.page.locator('a.primary'));
          await choose(payer, 'paypal');
          await payer.reachProvider('look');
          await payer.decide('approve');
          await payer.page.locator('.state.good').waitFor();
          await see('paid');
          const direct = await createPayment({ checkout_mode: 'direct', payment_method: 'ideal' });
          await payer.open(direct.checkout_url);
          await see('direct');
        }));
    }
  }
}

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

// Must be the last test, because it moves the server's clock: all other open payments expire too.
test('an expired payment says so', () =>
  visiting({}, async (payer) => {
    const payment = await createPayment();
    await operate('POST', '/dev/clock', { advance_seconds: 25 * 3600 });
    await reaches(payment.payment_id, 'expired');
    await payer.open(payment.checkout_url);
    await payer.heading('This payment has expired').waitFor();
    await payer.inspect('expired');
    await visiting({ size: 'desktop', locale: 'pl-PL', dark: true }, async (other) => {
      await other.open(payment.checkout_url);
      await other.inspect('expired-pl');
    });
  }));
