// The API page: readable at every width, in light and dark mode, with and without scripts.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Payer, launch } from './payer.mjs';
import { ready } from './server.mjs';

// Maximum bytes of the page and its style per operation, because the page grows with the API.
const BYTES_PER_OPERATION = 3_250;

let browser;
let mostBytes;
before(async () => {
  const { paths, webhooks } = await (await fetch(`${ready.base_url}/openapi.json`)).json();
  const operations = [paths, webhooks].flatMap(Object.values).flatMap(Object.keys).length;
  mostBytes = BYTES_PER_OPERATION * operations;
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
        await reader.inspect('docs', mostBytes);
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
