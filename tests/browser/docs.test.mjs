// The page about the API: readable at every width, by day and night, with and without scripts.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Payer, launch } from './payer.mjs';
import { ready } from './server.mjs';

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

for (const size of ['phone', 'desktop']) {
  for (const how of [{ dark: false }, { dark: true }, { scripts: false }]) {
    test(`a developer reads about the API (${size}, ${JSON.stringify(how)})`, async () => {
      const reader = await Payer.arrive(browser, { size, ...how });
      try {
        await reader.open(`${ready.base_url}/docs`);
        await reader.heading('Payment Checkout Service API').waitFor();
        await reader.inspect('docs', 100_000);
        const link = reader.page.getByRole('link', { name: 'createPayment', exact: true });
        await reader.tabTo(link);
        await reader.page.keyboard.press('Enter');
        await reader.page.waitForURL('**/docs#createPayment');
        assert.ok(await reader.page.locator('#createPayment').isVisible());
      } finally {
        await reader.leave();
      }
    });
  }
}
