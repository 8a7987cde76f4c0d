// A running `kassette dev`, found by its ready file.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

import createClient, { type Client } from 'openapi-fetch';

import type { paths } from './api.js';

const file = process.env.KASSETTE_READY_FILE;
assert.ok(file, 'KASSETTE_READY_FILE must name the ready file of a running `kassette dev`');
export const ready = JSON.parse(await readFile(file, 'utf8'));
export const shopKey: string = ready.merchants[0].test_key;

export function client(token: string): Client<paths> {
  return createClient<paths>({ baseUrl: ready.base_url, headers: { authorization: `Bearer ${token}` } });
}

// Calls the admin API as an operator; the path is relative to `admin_url`.
export async function operate(method: string, path: string, body: object): Promise<Record<string, string>> {
  const answer = await fetch(ready.admin_url + path, {
    method,
    headers: { authorization: `Bearer ${ready.operator_token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  return (await answer.json()) as Record<string, string>;
}

// A test key of the demo shop with these scopes.
export async function key(scopes: string[]): Promise<string> {
  const merchant = ready.merchants[0].merchant_id;
  const issued = await operate('POST', `/merchants/${merchant}/keys`, { environment: 'test', scopes });
  assert.ok(issued.key);
  return issued.key;
}
