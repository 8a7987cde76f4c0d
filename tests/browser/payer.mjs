// A payer who uses the browser only with the keyboard.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { mkdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { TEST_TIMEOUT, ready, shop } from './server.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const screenshots = fileURLToPath(new URL('../../target/screenshots/', import.meta.url));

export const SIZES = {
  phone: { width: 390, height: 844 },
  desktop: { width: 1280, height: 800 },
};

// Maximum size of a payer page with everything that it loads, in bytes before compression.
const MOST_BYTES = 60_000;
// Milliseconds from the request to the end of the load, for every measured page.
export const loads = [];

// Maximum number of Tab presses, more than any page has stops: prevents an endless loop.
const MOST_TABS = 80;

// Repeats `look` if the page was replaced in the middle: gateway pages refresh themselves.
async function steady(look) {
  for (let left = 3; ; left -= 1) {
    try {
      return await look();
    } catch (error) {
      const replaced = /context was destroyed|navigat|detached|closed/i.test(error.message);
      if (!replaced || left === 0) {
        throw error;
      }
    }
  }
}

export function launch() {
  return chromium.launch({
    executablePath: process.env.KASSETTE_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-dev-shm-usage'],
  });
}

export class Payer {
  static async arrive(browser, { size = 'phone', scripts = true, locale = 'en-GB', dark = false } = {}) {
    await mkdir(screenshots, { recursive: true });
    const context = await browser.newContext({
      viewport: SIZES[size],
      javaScriptEnabled: scripts,
      locale,
      colorScheme: dark ? 'dark' : 'light',
      reducedMotion: 'reduce',
    });
    context.setDefaultTimeout(TEST_TIMEOUT);
    // The shop does not exist: its page is simulated, and the URL and referrer of each visit are recorded.
    const visits = [];
    await context.route(`${shop}/**`, (route) => {
      visits.push({ url: route.request().url(), referrer: route.request().headers().referer });
      return route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>Shop</title>' });
    });
    const page = await context.newPage();
    const payer = new Payer(context, page, { size, scripts, dark, visits });
    page.on('console', (message) => {
      if (message.type() === 'error' && message.text().includes('Content Security Policy')) {
        payer.complaints.push(message.text());
      }
    });
    return payer;
  }

  constructor(context, page, { size, scripts, dark, visits }) {
    Object.assign(this, { context, page, size, scripts, dark, visits });
    this.complaints = [];
  }

  async leave() {
    await this.context.close();
    assert.deepEqual(this.complaints, [], 'a page wanted more than its policy allows');
  }

  open(url) {
    return this.page.goto(url);
  }

  // Checks the requirements on a gateway page (one heading, a language, accessibility, width, size) and takes a
  // screenshot.
  async inspect(name, mostBytes = MOST_BYTES) {
    await steady(() => this.look(name, mostBytes));
  }

  async look(name, mostBytes) {
    const { page } = this;
    await page.locator('h1').first().waitFor();
    const suffix = `${this.size}${this.scripts ? '' : '-noscript'}${this.dark ? '-dark' : ''}`;
    await page.screenshot({ path: `${screenshots}${name}-${suffix}.png`, fullPage: true });
    assert.equal(await page.locator('h1').count(), 1, `${name}: one main heading`);
    assert.match(await page.locator('html').getAttribute('lang'), /^[a-z]{2}$/);
    if (this.scripts) {
      assert.deepEqual(await this.faults(), [], `${name}: accessibility`);
      const overflow = await page
        .locator('html')
        .evaluate((html) => html.scrollWidth - html.clientWidth);
      assert.ok(overflow <= 0, `${name}: the page is ${overflow}px too wide`);
      const { bytes, ms } = await page.evaluate(() => {
        const [navigation] = performance.getEntriesByType('navigation');
        const parts = [navigation, ...performance.getEntriesByType('resource')];
        return {
          bytes: parts.reduce((sum, part) => sum + part.decodedBodySize, 0),
          ms: navigation.loadEventEnd,
        };
      });
      assert.ok(bytes > 0 && bytes <= mostBytes, `${name}: the page weighs ${bytes} bytes`);
      loads.push(ms);
    }
  }

  // Violations that axe-core finds. It runs in a copy of the page, because the page's policy would block it and a
  // refresh would interrupt it.
  async faults() {
    const html = await this.page.content();
    const style = await this.stylesheet();
    const copy = await this.context.newPage();
    try {
      await copy.setContent(
        html.replace(/<link rel="stylesheet"[^>]*>/g, '')
          .replace('</head>', () => `<style>${style}</style></head>`)
          .replace(/<meta http-equiv="refresh"[^>]*>/g, ''),
      );
      await copy.evaluate(axe);
      const { violations } = await copy.evaluate(() => globalThis.axe.run(document));
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`);
    } finally {
      await copy.close();
    }
  }

  // Text of the page's stylesheets.
  async stylesheet() {
    const texts = [];
    for (const link of await this.page.locator('link[rel=stylesheet]').all()) {
      const href = await link.getAttribute('href');
      const answer = await this.context.request.get(new URL(href, ready.base_url).href);
      assert.equal(answer.status(), 200);
      texts.push(await answer.text());
    }
    return texts.join('\n');
  }

  // Moves the focus to an element with the Tab key only, and checks that the focus is visible.
  async tabTo(locator) {
    await locator.waitFor();
    for (let tabs = 0; tabs < MOST_TABS; tabs += 1) {
      const outline = await steady(() =>
        locator.evaluate((element) => {
          // The ring of a radio button goes around its row.
          const around = [element, element.closest('.methods li')].filter(Boolean);
          const rings = around.map((ringed) => getComputedStyle(ringed).outlineStyle);
          const outline = rings.find((ring) => ring !== 'none') ?? 'none';
          return element === document.activeElement ? outline : undefined;
        }),
      );
      if (outline) {
        const ours = this.page.url().startsWith(ready.base_url);
        assert.ok(!ours || outline !== 'none', 'what has the focus shows it');
        return;
      }
      await this.page.keyboard.press('Tab');
    }
    assert.fail(`the keyboard does not reach ${locator}`);
  }

  // Checks a radio button by Tab to its group, and arrows.
  async pick(name, value) {
    const { page } = this;
    const group = page.locator(`input[name=${name}]:enabled`);
    await group.first().waitFor();
    const checked = page.locator(`input[name=${name}]:checked`);
    await this.tabTo((await checked.count()) ? checked : group.first());
    await page.keyboard.press('Space');
    for (let left = await group.count(); left > 0; left -= 1) {
      if ((await checked.getAttribute('value')) === value) {
        return;
      }
      await page.keyboard.press('ArrowDown');
    }
    assert.fail(`no arrow leads to ${value}`);
  }

  // Presses what leads to another page, and waits for that page.
  async press(locator) {
    await this.tabTo(locator);
    const arrived = this.page.waitForEvent('domcontentloaded');
    await this.page.keyboard.press('Enter');
    await arrived;
  }

  // Follows the gateway's pages to the simulator's payer page.
  async reachProvider(name) {
    const { page } = this;
    const outcome = page.locator('button[name=outcome]').first();
    const questions = page.locator('form.questions');
    const posted = page.locator('form:has(input[type=hidden]) button.primary');
    const opener = page.locator('a.primary[href^="http"]');
    // Questions, then a form or instructions: at most three gateway pages.
    for (let step = 0; step < 4; step += 1) {
      await outcome.or(questions).or(posted).or(opener).first().waitFor();
      const at = page.url();
      if (!at.startsWith(ready.base_url) || at.endsWith('/go')) {
        // Already there, or on a page that redirects there.
        break;
      }
      if (await questions.count()) {
        await this.inspect(`${name}-questions`);
        await this.answerQuestions();
      } else if (await posted.count()) {
        await this.inspect(`${name}-form`);
        await this.press(posted.first());
      } else {
        await this.inspect(`${name}-instructions`);
        await this.press(opener.first());
      }
    }
    await outcome.waitFor();
  }

  async answerQuestions() {
    const { page } = this;
    const fields = page.locator('form.questions input, form.questions select');
    for (const field of await fields.all()) {
      await this.tabTo(field);
      const type = await field.evaluate((element) => element.type);
      if (type === 'select-one') {
        await page.keyboard.press('ArrowDown');
      } else {
        const text = { email: 'payer@shop-customer.example', tel: '+31201234567' }[type];
        await page.keyboard.type(text ?? 'Ada');
      }
    }
    await this.press(page.locator('form.questions button[type=submit]'));
  }

  // Decides on the simulator's page and returns to the gateway's return page.
  async decide(outcome) {
    await this.press(this.page.locator(`button[name=outcome][value=${outcome}]`));
    await this.page.waitForURL(`${ready.base_url}/return/**`, { waitUntil: 'domcontentloaded' });
  }

  heading(text) {
    return this.page.getByRole('heading', { level: 1, name: text });
  }
}
