// A merchant answers a reseller's invitation, with the keyboard only, with and without scripts.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Payer, launch } from './payer.mjs';
import { createMerchant, invite, issueConsentCode, ready, resellerMerchants } from './server.mjs';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

async function visiting(how, visit) {
  const merchant = await Payer.arrive(browser, how);
  try {
    await visit(merchant);
  } finally {
    await merchant.leave();
  }
}

const decision = (visitor, value) =>
  visitor.page.locator(`button[name=decision][value=${value}]`);

async function enter(visitor, code) {
  await visitor.tabTo(visitor.page.locator('input[name=consent_code]'));
  await visitor.page.keyboard.type(code);
}

async function standing(invitation) {
  const merchants = await resellerMerchants();
  return merchants.find(({ client_ref }) => client_ref === invitation.client_ref);
}

for (const size of ['phone', 'desktop']) {
  for (const scripts of [true, false]) {
    test(`a merchant accepts with its code (${size}, ${scripts ? 'with' : 'without'} scripts)`, () =>
      visiting({ size, scripts }, async (visitor) => {
        const invitation = await invite();
        const merchant = await createMerchant();
        const code = await issueConsentCode(merchant);
        await visitor.open(invitation.invitation_url);
        await visitor.heading(/would like to take payments for you/).waitFor();
        await visitor.inspect('invitation');
        await enter(visitor, `${code.slice(0, -1)}${code.endsWith('x') ? 'y' : 'x'}`);
        await visitor.press(decision(visitor, 'accept'));
        await visitor.page.getByText('This code is wrong').waitFor();
        await visitor.inspect('invitation-wrong');
        assert.equal((await standing(invitation)).status, 'invited');
        await enter(visitor, code);
        await visitor.press(decision(visitor, 'accept'));
        await visitor.heading('You have accepted').waitFor();
        await visitor.inspect('invitation-accepted');
        const { status, merchant_id: id } = await standing(invitation);
        assert.deepEqual({ status, id }, { status: 'authorized', id: merchant });
      }));
  }
}

test('declining needs no code', () =>
  visiting({}, async (visitor) => {
    const invitation = await invite();
    await visitor.open(invitation.invitation_url);
    await visitor.press(decision(visitor, 'decline'));
    await visitor.heading('This invitation was declined').waitFor();
    await visitor.inspect('invitation-declined');
    assert.equal((await standing(invitation)).status, 'declined');
  }));

test('the page shows nothing that only the invited know', () =>
  visiting({}, async (visitor) => {
    const invitation = await invite();
    await visitor.open(invitation.invitation_url);
    const html = await visitor.page.content();
    for (const secret of [invitation.email, invitation.invitation_id, invitation.client_ref]) {
      assert.ok(!html.includes(secret), secret);
    }
    assert.ok(html.includes('Bäckerei &lt;b&gt;Müller&lt;/b&gt;'), 'what others wrote is escaped');
  }));

test('invitations speak the merchant’s language, at night too', async () => {
  const invitation = await invite();
  for (const locale of ['de-DE', 'fr-FR', 'es-ES', 'nl-NL', 'pt-PT']) {
    await visiting({ locale, dark: locale === 'de-DE' }, async (visitor) => {
      await visitor.open(invitation.invitation_url);
      assert.equal(await visitor.page.locator('html').getAttribute('lang'), locale.slice(0, 2));
      await visitor.inspect(`invitation-${locale.slice(0, 2)}`);
    });
  }
});

test('an unknown invitation says so', () =>
  visiting({}, async (visitor) => {
    assert.equal((await visitor.open(`${ready.base_url}/invitation/nobody`)).status(), 404);
    await visitor.inspect('invitation-unknown');
  }));
