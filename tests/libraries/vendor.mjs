// A simulated provider for the provider's own client library: its address, its callbacks and its payer.

import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, watch } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'smol-toml';

const KASSETTE =
  process.env.KASSETTE_BINARY ??
  fileURLToPath(new URL('../../target/release/kassette', import.meta.url));

// Maximum wait for a callback, in milliseconds.
const TEST_TIMEOUT = 30_000;

// Ignore configured proxies: all connections must remain on this machine.
for (const name of ['http_proxy', 'https_proxy', 'all_proxy']) {
  delete process.env[name];
  delete process.env[name.toUpperCase()];
}

// The libraries contain the providers' addresses. Each https connection goes to the provider's simulator
// instead, without encryption. Connections to any other host fail.
const simulators = new Map();
https.Agent.prototype.createConnection = ({ host }) => {
  const simulator = simulators.get(host);
  if (simulator === undefined) {
    throw new Error(`the library wants to reach ${host}`);
  }
  const socket = net.connect(simulator.address);
  simulator.sockets.push(socket);
  return socket;
};

// Closes the connections in the libraries' pools, which must not outlive the simulator.
async function disconnect(host) {
  const { sockets } = simulators.get(host);
  simulators.delete(host);
  for (const socket of sockets.filter(({ destroyed }) => !destroyed)) {
    await once(socket.destroy(), 'close');
  }
}

export class Vendor {
  // Starts the simulator of a provider module and sends all connections to `host` there.
  static async start(t, module, host) {
    const vendor = new Vendor();
    const folder = await mkdtemp(path.join(tmpdir(), 'kassette-library-'));
    t.after(() => rm(folder, { recursive: true }));
    vendor.receiver = http.createServer((request, response) => vendor.#receive(request, response));
    await once(vendor.receiver.listen(0, '127.0.0.1'), 'listening');
    t.after(() => vendor.receiver.close());
    const account = await accountOf(t, module, folder, vendor.receiver.address().port);
    const [address, port] = account.hosts[0].split(':');
    simulators.set(host, { address: { host: address, port: Number(port) }, sockets: [] });
    t.after(() => disconnect(host));
    vendor.settings = account.settings;
    vendor.secrets = Object.fromEntries(
      Object.entries(account.secrets).map(([name, { value }]) => [name, value]),
    );
    return vendor;
  }

  #news = [];
  #waiting = null;

  async #receive(request, response) {
    const body = Buffer.concat(await request.toArray()).toString();
    this.#news.push({ headers: request.headers, url: request.url, body });
    response.end('[accepted]');
    this.#waiting?.();
  }

  // Waits for the next callback that matches `wanted` and drops the ones before it.
  async callback(wanted = () => true) {
    const late = AbortSignal.timeout(TEST_TIMEOUT);
    for (;;) {
      while (this.#news.length > 0) {
        const news = this.#news.shift();
        if (wanted(news)) {
          return news;
        }
      }
      await new Promise((resolve, reject) => {
        this.#waiting = resolve;
        late.onabort = () => reject(new Error('no callback arrives'));
      });
    }
  }

  // Chooses an outcome on the payment's page, as the payer or the provider's staff. Returns the redirect's address.
  async choose(page, outcome) {
    const { origin, pathname } = new URL(page);
    const at = pathname.lastIndexOf('/');
    const answer = await fetch(origin + pathname.slice(0, at), {
      method: 'POST',
      body: new URLSearchParams({ session: pathname.slice(at + 1), outcome }),
      redirect: 'manual',
    });
    if (answer.status >= 400) {
      throw new Error(`the payer cannot ${outcome}: ${answer.status}`);
    }
    return answer.headers.get('location');
  }
}

// Starts a simulator that runs until the end of the test. Returns its parsed account file.
async function accountOf(t, module, folder, port) {
  const name = 'account.toml';
  const file = path.join(folder, name);
  const over = new AbortController();
  const found = written(folder, name, over.signal);
  const options = {
    '--module': module,
    '--listen': '127.0.0.1:0',
    '--gateway': `http://127.0.0.1:${port}`,
    '--data-dir': path.join(folder, 'data'),
    '--account-file': file,
  };
  const simulator = spawn(KASSETTE, ['sim', ...Object.entries(options).flat()], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  t.after(() => simulator.kill());
  const gone = once(simulator, 'exit').then(([code]) => {
    throw new Error(`the simulator ended with ${code}`);
  });
  try {
    await Promise.race([found, gone]);
  } finally {
    over.abort();
    gone.catch(() => {});
    found.catch(() => {});
  }
  return parse(await readFile(file, 'utf8'));
}

async function written(folder, name, signal) {
  for await (const { filename } of watch(folder, { signal })) {
    if (filename === name) {
      return;
    }
  }
}
