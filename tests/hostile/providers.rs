//! Hostile provider modules. Their vendor echoes the credentials that it receives, only the vendor may receive the
//! secret, and there are two other hosts that no module may reach.
//!
//! `describe.txt`, `start.txt` and `callback.txt` list the module's actions in order. In them `{vendor}`,
//! `{elsewhere}` (a host of the account, but not of the secret) and `{foreign}` (not a host of the account) are
//! replaced by URLs:
//!
//! | line | action |
//! |---|---|
//! | `send POST <url> [key]` | sends a request, with the secret as its bearer credential |
//! | `again` | repeats everything so far in an endless loop |
//! | `redirect <url>` | returns a redirect of the payer |
//! | `told <url>` | the same, with the body of the last response as the reference |
//! | `show <text>`, `show-link <url>` | returns instructions for the payer |
//! | `ask <count>` | returns questions for the payer |
//! | `news <count>` | acknowledges a callback with this number of notices |
//! | `acknowledge <media type>` | acknowledges a callback with a text of this type |
//!
//! Expected results: `refused: …` and `fault: …` as for a method; `page: <part of the failure>` if the redirect is
//! rejected without blaming the version, because it depends on the account; `open: <part of the response>` if the
//! response is accepted and does no harm.
//!
//! The calls alternate between two accounts, because faults at a single account do not quarantine a version.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use kassette_domain::id::{AccountId, Digest};
use kassette_domain::provider::{CallbackRequest, Encoding, Verb};
use kassette_domain::secret::Secret;
use kassette_runtime::{AccountAccess, CallError, Runtime, SecretEntry, SlotState};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::cooked::text;
use crate::neighbour::Felt;
use crate::support::{Data, HEAP, NOW, Provider, access, attempt, pair, redirect, request, slot};
use crate::{QUARANTINED_AFTER, cases, expected, name, offers, rounds, runtime, unharmed};

const VENDOR: &str = "provider.vendor";
/// Secret of the account, which only the vendor may receive.
const SECRET: &str = "sk_live_9f8e7d6c5b4a";
/// The secret in Base64, as a vendor may return it.
const ENCODED: &str = "c2tfbGl2ZV85ZjhlN2Q2YzViNGE";
/// Maximum CPU time of a call: the limit of its class before each possible request and after the last one, and the
/// time until the call is stopped.
const CONTAINED: Duration = Duration::from_millis(17 * 5 + 100);

pub(crate) fn is_one(case: &Path) -> bool {
    ["describe.txt", "start.txt", "callback.txt"]
        .iter()
        .any(|file| case.join(file).exists())
}

/// A host that answers each request with its credentials.
struct Echo {
    address: SocketAddr,
    met: Arc<AtomicUsize>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let met = Arc::new(AtomicUsize::new(0));
        let meeting = Arc::clone(&met);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                meeting.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else {
                            return;
                        };
                        head.push(byte);
                    }
                    let head = String::from_utf8(head).unwrap().replace("\r\n", " ");
                    let authorization = head.split_once("authorization: ");
                    let told = authorization.map_or("nothing", |(_, rest)| rest.trim());
                    let told = told.split(' ').take(2).collect::<Vec<_>>().join(" ");
                    let body = format!("{told} {ENCODED}");
                    let answer = format!(
                        "HTTP/1.1 201 Created\r\nx-echo: {told}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { address, met }
    }

    fn met(&self) -> usize {
        self.met.load(Ordering::SeqCst)
    }
}

/// All hosts that a module can try to reach.
struct Hosts {
    vendor: Echo,
    elsewhere: Echo,
    foreign: Echo,
}

impl Hosts {
    async fn start() -> Self {
        Self {
            vendor: Echo::start().await,
            elsewhere: Echo::start().await,
            foreign: Echo::start().await,
        }
    }

    fn named(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, host) in [
            ("{vendor}", &self.vendor),
            ("{elsewhere}", &self.elsewhere),
            ("{foreign}", &self.foreign),
        ] {
            text = text.replace(name, &format!("http://{}", host.address));
        }
        text
    }

    fn access(&self) -> AccountAccess {
        let vendor = self.vendor.address.to_string();
        let mut access = access(&vendor);
        access
            .hosts
            .push(self.elsewhere.address.to_string().parse().unwrap());
        access.secrets = vec![SecretEntry {
            name: "key".into(),
            values: vec![Secret::new(SECRET)],
            encoding: Encoding::Text,
            hosts: vec![vendor.parse().unwrap()],
        }];
        access
    }
}

/// Converts lines of actions to the body of a function.
fn script(data: &mut Data, lines: &str) -> String {
    let mut body = String::new();
    let response = data.put(&[0; 24]);
    for line in lines.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "send" => {
                let (verb, rest) = rest.split_once(' ').unwrap();
                let (url, key) = rest.split_once(' ').unwrap_or((rest, ""));
                let verb = u8::from(verb == "POST");
                let request = match key {
                    "" => request(data, verb, url),
                    key => with_bearer(data, verb, url, key),
                };
                body += &format!("(call $send (i32.const {request}) (i32.const {response}))");
            }
            // The loop reuses its memory, which would otherwise soon run out.
            "again" => {
                body = format!(
                    "(loop $again (global.set $heap (i32.const {HEAP})) {body} (br $again)) unreachable"
                );
            }
            "redirect" => body += &format!("(i32.const {})", redirect(data, rest)),
            "told" => {
                let at = redirect(data, rest);
                body += &format!(
                    "(i32.store (i32.const {}) (i32.load (i32.const {})))
                     (i32.store (i32.const {}) (i32.load (i32.const {})))
                     (i32.const {at})",
                    at + 16,
                    response + 16,
                    at + 20,
                    response + 20
                );
            }
            "show" => body += &format!("(i32.const {})", instructions(data, rest, None)),
            "show-link" => {
                body += &format!("(i32.const {})", instructions(data, "look", Some(rest)));
            }
            "ask" => body += &format!("(i32.const {})", questions(data, rest.parse().unwrap())),
            "news" => body += &news(data, rest.parse().unwrap()),
            "acknowledge" => body += &format!("(i32.const {})", acknowledgement(data, rest)),
            other => panic!("what is {other}?"),
        }
    }
    body
}

fn with_bearer(data: &mut Data, verb: u8, url: &str, key: &str) -> u32 {
    let mut credential = [0; 28];
    credential[4..12].copy_from_slice(&data.text(key));
    let credentials = pair(data.put(&credential), 1);
    let mut record = [0; 68];
    record[0] = verb;
    record[4..12].copy_from_slice(&data.text(url));
    record[20..28].copy_from_slice(&credentials);
    data.put(&record)
}

/// Response of a start with instructions.
fn instructions(data: &mut Data, words: &str, link: Option<&str>) -> u32 {
    let mut record = [0; 88];
    record[16..24].copy_from_slice(&data.text("ref-1"));
    record[24] = 2;
    record[28..36].copy_from_slice(&data.text(words));
    if let Some(link) = link {
        record[56] = 1;
        record[60..68].copy_from_slice(&data.text(link));
    }
    data.put(&record)
}

/// Response of a start with the same question many times.
fn questions(data: &mut Data, count: usize) -> u32 {
    let mut question = [0; 28];
    question[..8].copy_from_slice(&data.text("name"));
    question[8..16].copy_from_slice(&data.text("Name"));
    let list = pair(data.put(&question.repeat(count)), count);
    let mut record = [0; 88];
    record[8] = 1;
    record[16..24].copy_from_slice(&list);
    data.put(&record)
}

/// Response to a callback with notices that lack an attempt, in memory that is allocated at run time.
fn news(data: &mut Data, count: usize) -> String {
    const NOTICE: usize = 256;
    const PAGE: usize = 64 << 10;
    let at = acknowledgement(data, "text/plain");
    let pages = (count * NOTICE).div_ceil(PAGE);
    format!(
        "(i32.store (i32.const {}) (i32.mul (memory.grow (i32.const {pages})) (i32.const {PAGE})))
         (i32.store (i32.const {}) (i32.const {count})) (i32.const {at})",
        at + 4,
        at + 8
    )
}

fn acknowledgement(data: &mut Data, media_type: &str) -> u32 {
    let mut record = [0; 32];
    record[12..14].copy_from_slice(&200_u16.to_le_bytes());
    record[16..24].copy_from_slice(&data.text(media_type));
    record[24..32].copy_from_slice(&data.text("<script>alert(1)</script>"));
    data.put(&record)
}

fn module(case: &Path, hosts: &Hosts) -> Vec<u8> {
    let mut data = Data::default();
    let mut body = |file: &str| {
        let lines = text(case, file)?;
        Some(script(&mut data, &hosts.named(&lines)))
    };
    let trap = || "unreachable".into();
    let describe = body("describe.txt").unwrap_or_default();
    let start = body("start.txt").unwrap_or_else(trap);
    let callback = body("callback.txt").unwrap_or_else(trap);
    Provider {
        data,
        describe,
        start,
        callback,
        ..Provider::default()
    }
    .build()
}

struct World {
    runtime: Arc<Runtime>,
    hosts: Hosts,
    good: Vec<u8>,
    callback: bool,
    calls: AtomicUsize,
}

impl World {
    fn install(&self, bytes: &[u8]) -> Result<(), String> {
        let installed = self.runtime.install(&slot(VENDOR), bytes, NOW);
        installed.map(|_| ()).map_err(|error| error.to_string())
    }

    fn serving(&self) -> Digest {
        self.runtime.provider("vendor").expect("it serves").digest()
    }

    /// Calls the active version. Returns the response or the failure as text.
    async fn call(&self) -> Result<String, String> {
        let module = self.runtime.provider("vendor").expect("it serves");
        let mut access = self.hosts.access();
        let account = ["vendor-a", "vendor-b"][self.calls.fetch_add(1, Ordering::Relaxed) % 2];
        access.account.id = AccountId::parse(account).unwrap();
        if self.callback {
            let incoming = CallbackRequest {
                verb: Verb::Post,
                path: String::new(),
                query: String::new(),
                headers: vec![],
                body: vec![],
            };
            let answer = module.callback(&access, &incoming).await;
            return answer
                .map(|answer| format!("{answer:?}"))
                .map_err(|error: CallError| error.to_string());
        }
        let outcome = module.start(&access, &attempt()).await;
        match outcome.result {
            Ok(started) => Ok(format!("{started:?}")),
            Err(failure) => Err(format!("{failure:?}")),
        }
    }

    /// Checks that the other hosts got no request, and that the module's output does not contain the secret.
    fn kept(&self, case: &str, said: &str) {
        assert_eq!(self.hosts.elsewhere.met(), 0, "{case}");
        assert_eq!(self.hosts.foreign.met(), 0, "{case}");
        assert!(!said.contains(SECRET), "{case}: {said}");
        assert!(!said.contains(ENCODED), "{case}: {said}");
    }

    async fn good_serves(&self, case: &str) {
        assert_eq!(self.serving(), Digest::hash(&self.good), "{case}");
        let said = self.call().await;
        assert!(said.is_ok(), "{case}: {said:?}");
        unharmed(&self.runtime, case);
    }

    async fn refuses(&self, name: &str, bytes: &[u8], why: &str) {
        for _ in 0..offers() {
            let error = self.install(bytes).expect_err(name);
            assert!(error.contains(why), "{name}: {error}");
            self.kept(name, &error);
            self.good_serves(name).await;
        }
    }

    /// Checks that every call fails within the limits. Failures of `start` quarantine the version.
    async fn fails(&self, name: &str, bytes: &[u8], why: &str) {
        for _ in 0..rounds().div_ceil(QUARANTINED_AFTER) {
            self.install(&self.good).unwrap();
            self.install(bytes).expect(name);
            for _ in 0..QUARANTINED_AFTER {
                assert_eq!(self.serving(), Digest::hash(bytes), "{name}");
                let before = ThreadTime::now();
                let error = self.call().await.expect_err(name);
                let used = before.elapsed();
                assert!(error.contains(why), "{name}: {error}");
                assert!(used < CONTAINED, "{name}: {used:?}");
                self.kept(name, &error);
                unharmed(&self.runtime, name);
            }
            // Anyone can send callbacks, so their failures never quarantine a version.
            if !self.callback {
                let slots = self.runtime.slots();
                let vendor = slots.iter().find(|one| one.slot == slot(VENDOR));
                assert_eq!(vendor.unwrap().state, SlotState::Quarantined, "{name}");
                self.good_serves(name).await;
            }
        }
    }

    /// Checks that the redirect is rejected every time, and that the version stays active.
    async fn leads_nowhere(&self, name: &str, bytes: &[u8], why: &str) {
        self.install(bytes).expect(name);
        for _ in 0..rounds() {
            let failure = self.call().await.expect_err(name);
            assert!(
                failure.contains("PageRefused") && failure.contains(why),
                "{name}: {failure}"
            );
            self.kept(name, &failure);
        }
        assert_eq!(self.serving(), Digest::hash(bytes), "{name}");
        unharmed(&self.runtime, name);
    }

    async fn answers(&self, name: &str, bytes: &[u8], part: &str) {
        self.install(bytes).expect(name);
        for _ in 0..rounds() {
            let said = self.call().await.expect(name);
            assert!(said.contains(part), "{name}: {said}");
            self.kept(name, &said);
        }
        unharmed(&self.runtime, name);
    }
}

/// The vendor and the other hosts run on this one thread, so that its CPU time includes theirs.
#[tokio::test]
async fn every_hostile_provider_is_contained() {
    let cases = cases(is_one);
    assert!(cases.len() > 10 || crate::picked(), "the set is there");
    let mut felt = Felt::new();
    for case in cases {
        let (name, (kind, what)) = (name(&case), expected(&case));
        let folder = tempfile::tempdir().unwrap();
        let hosts = Hosts::start().await;
        let mut data = Data::default();
        let start = script(&mut data, &hosts.named("redirect {vendor}/pay"));
        let callback = script(&mut data, "acknowledge text/plain");
        let good = Provider {
            data,
            start,
            callback,
            ..Provider::default()
        };
        let world = World {
            runtime: runtime(folder.path()),
            hosts,
            good: good.build(),
            callback: case.join("callback.txt").exists(),
            calls: AtomicUsize::new(0),
        };
        world.install(&world.good).unwrap();
        let bytes = module(&case, &world.hosts);
        let neighbour = felt.begin(&world.runtime);
        let began = Instant::now();
        match kind.as_str() {
            "refused" => world.refuses(name, &bytes, &what).await,
            "fault" => world.fails(name, &bytes, &what).await,
            "page" => world.leads_nowhere(name, &bytes, &what).await,
            "open" => world.answers(name, &bytes, &what).await,
            other => panic!("{name}: expected {other}?"),
        }
        println!("{name}: {kind}, {what}, in {:?}", began.elapsed());
        felt.end(neighbour);
    }
    felt.judge();
}
