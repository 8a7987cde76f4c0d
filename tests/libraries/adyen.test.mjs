// @adyen/api-library, https://www.npmjs.com/package/@adyen/api-library

import assert from 'node:assert/strict';
import test from 'node:test';
import library from '@adyen/api-library';
import { Vendor } from './vendor.mjs';

const { CheckoutAPI, Client, EnvironmentEnum, hmacValidator } = library;

async function adyen(t) {
  const vendor = await Vendor.start(t, 'adyen', 'checkout-test.adyen.com');
  const api = (apiKey) => new CheckoutAPI(new Client({ apiKey, environment: EnvironmentEnum.TEST }));
  const merchantAccount = vendor.settings['merchant-account'];
  // The next notification item with this event code.
  const told = async (eventCode) => {
    for (;;) {
      const { body } = await vendor.callback();
      const { NotificationRequestItem: item } = JSON.parse(body).notificationItems[0];
      if (item.eventCode === eventCode) {
        return item;
      }
    }
  };
  return { vendor, api, checkout: api(vendor.secrets['api-key']), merchantAccount, told };
}

const amount = { value: 4990, currency: 'EUR' };

// A link of a shop that was written for Adyen only.
function link(merchantAccount) {
  return {
    merchantAccount,
    amount,
    reference: 'order-17',
    description: 'Tea',
    countryCode: 'NL',
    shopperReference: 'shopper-3',
    metadata: { basket: 'b-17' },
  };
}

// Pays with a method that captures immediately.
async function paid(shop) {
  const made = await shop.checkout.PaymentLinksApi.paymentLinks({
    ...link(shop.merchantAccount),
    allowedPaymentMethods: ['ideal'],
  });
  await shop.vendor.choose(made.url, 'approve');
  return shop.told('AUTHORISATION');
}

test('a link is created, read and paid', async (t) => {
  const shop = await adyen(t);
  const links = shop.checkout.PaymentLinksApi;
  const made = await links.paymentLinks(link(shop.merchantAccount), { idempotencyKey: 'order-17' });
  assert.equal(made.status, 'active');
  const again = await links.paymentLinks(link(shop.merchantAccount), { idempotencyKey: 'order-17' });
  assert.equal(again.id, made.id);
  await shop.vendor.choose(made.url, 'approve');
  const read = await links.getPaymentLink(made.id);
  assert.equal(read.status, 'completed');
  assert.deepEqual({ ...read.amount }, amount);
});

test('a link is expired', async (t) => {
  const shop = await adyen(t);
  const links = shop.checkout.PaymentLinksApi;
  const made = await links.paymentLinks(link(shop.merchantAccount));
  const expired = await links.updatePaymentLink(made.id, { status: 'expired' });
  assert.equal(expired.status, 'expired');
});

test('a session is created and asked for its result', async (t) => {
  const shop = await adyen(t);
  const payments = shop.checkout.PaymentsApi;
  const made = await payments.sessions({
    merchantAccount: shop.merchantAccount,
    amount,
    reference: 'order-18',
    returnUrl: 'https://shop.example/thanks',
    countryCode: 'NL',
    mode: 'hosted',
    themeId: 'theme-1',
  });
  const back = new URL(await shop.vendor.choose(made.url, 'approve'));
  const read = await payments.getResultOfPaymentSession(made.id, back.searchParams.get('sessionResult'));
  assert.equal(read.status, 'completed');
});

test('an authorisation is captured, and another cancelled', async (t) => {
  const shop = await adyen(t);
  const { ModificationsApi: modifications, PaymentLinksApi: links } = shop.checkout;
  const { merchantAccount } = shop;
  const authorised = async () => {
    const manual = { ...link(merchantAccount), manualCapture: true };
    const made = await links.paymentLinks(manual);
    await shop.vendor.choose(made.url, 'approve');
    return (await shop.told('AUTHORISATION')).pspReference;
  };
  const psp = await authorised();
  const capture = await modifications.captureAuthorisedPayment(psp, {
    merchantAccount,
    amount,
    reference: 'capture-17',
  });
  assert.equal(capture.status, 'received');
  assert.equal((await shop.told('CAPTURE')).success, 'true');
  const cancel = await modifications.cancelAuthorisedPaymentByPspReference(await authorised(), {
    merchantAccount,
    reference: 'cancel-17',
  });
  assert.equal(cancel.status, 'received');
  assert.equal((await shop.told('CANCELLATION')).success, 'true');
});

test('a payment is given back in parts', async (t) => {
  const shop = await adyen(t);
  const { merchantAccount } = shop;
  const { pspReference } = await paid(shop);
  const part = {
    merchantAccount,
    amount: { value: 1000, currency: 'EUR' },
    merchantRefundReason: 'CUSTOMER REQUEST',
    reference: 'refund-1',
  };
  const refund = (key) =>
    shop.checkout.ModificationsApi.refundCapturedPayment(pspReference, part, { idempotencyKey: key });
  const first = await refund('refund-1');
  assert.equal(first.status, 'received');
  assert.equal(first.paymentPspReference, pspReference);
  assert.equal((await refund('refund-1')).pspReference, first.pspReference);
  const told = await shop.told('REFUND');
  assert.equal(told.pspReference, first.pspReference);
  assert.equal(told.originalReference, pspReference);
  assert.equal(told.success, 'true');
  assert.notEqual((await refund('refund-2')).pspReference, first.pspReference);
});

test('a wrong key is refused', async (t) => {
  const shop = await adyen(t);
  const links = shop.api('wrong').PaymentLinksApi;
  await assert.rejects(links.paymentLinks(link(shop.merchantAccount)), { statusCode: 401 });
});

test("the library's own check believes the notifications, and no changed one", async (t) => {
  const shop = await adyen(t);
  const key = shop.vendor.secrets['hmac-key'];
  const validator = new hmacValidator();
  const item = await paid(shop);
  assert.equal(validator.validateHMAC(item, key), true);
  const changed = { ...item, amount: { ...item.amount, value: 1 } };
  assert.equal(validator.validateHMAC(changed, key), false);
});

test('what a shop may send beside, or leave out, is taken', async (t) => {
  const { checkout, merchantAccount } = await adyen(t);
  const least = { merchantAccount, amount, reference: 'order-17' };
  const shopper = {
    shopperReference: 'shopper-3',
    shopperLocale: 'nl-NL',
    shopperEmail: 'ada@shop.example',
    shopperName: { firstName: 'Ada', lastName: 'Byron' },
    telephoneNumber: '+31208202070',
    lineItems: [
      { id: '1', description: 'Tea', quantity: 1, amountIncludingTax: 4990, taxPercentage: 2100 },
    ],
  };
  const expiresAt = new Date(Date.now() + 3_600_000);
  for (const more of [{}, { ...shopper, expiresAt }, { blockedPaymentMethods: ['klarna'] }]) {
    const made = await checkout.PaymentLinksApi.paymentLinks({ ...least, ...more });
    assert.equal(made.status, 'active', JSON.stringify(more));
  }
  const returnUrl = 'https://shop.example/thanks';
  for (const more of [
    {},
    { ...shopper, channel: 'Web', countryCode: 'NL', metadata: { basket: 'b-17' } },
    { storePaymentMethodMode: 'askForConsent', recurringProcessingModel: 'CardOnFile' },
  ]) {
    const made = await checkout.PaymentsApi.sessions({ ...least, returnUrl, ...more });
    assert.ok(made.id.startsWith('CS'), JSON.stringify(more));
  }
  const methods = await checkout.PaymentsApi.paymentMethods({
    merchantAccount,
    amount,
    countryCode: 'NL',
    channel: 'Web',
  });
  assert.ok(methods.paymentMethods.length > 0);
});
