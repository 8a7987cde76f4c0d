//! The function `callback` of each provider module, run natively with its vendor's signatures and responses.
//!
//! The first line of an input contains the module and the signature: `genuine`, `forged` (with another secret) or
//! `bare` (none added). The difference of the module's clock in seconds may follow. Then come a line `POST
//! /path?query`, headers, an empty line and the body. After each line `%%` follows a response of the vendor:
//! status, headers, an empty line and the body.
//!
//! A simulator signs the callback. Rules: without its signature the module accepts nothing, its output never
//! contains a secret, and reported amounts occur in the input.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use kassette_plugin::provider::http::{Request, Response, SendFailure};
use kassette_plugin::provider::secrets::Algorithm;
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Description, Encoding, Environment,
    Provider, Report, Status, Subject, Verb,
};
use kassette_plugin::testing::{Host, with_host};
use kassette_sim::{Sim, SimAccount, SimConfig};
use memchr::memmem;

use crate::talk;

/// Time of all calls, in milliseconds since 1970.
const NOW: u64 = 1_800_000_000_000;

/// Maximum number of requests per callback that get a response.
const ANSWERS: usize = 8;

/// Text in all secrets of the accounts.
const MARK: &str = "OfTheFuzzedAccount";

/// Limits of the runtime (`host/runtime/src/v0_2/provider.rs`).
const REFERENCE: usize = 255;
const NOTICES: usize = 256;

/// The parts of a module that a callback needs.
struct Module {
    name: &'static str,
    describe: fn() -> Description,
    callback: fn(Account, CallbackRequest) -> Result<CallbackReply, CallbackFailure>,
}

macro_rules! modules {
    ($($name:literal $module:ty),+ $(,)?) => {
        [$(Module {
            name: $name,
            describe: <$module as Provider>::describe,
            callback: <$module as Provider>::callback,
        }),+]
    };
}

const MODULES: [Module; 9] = modules![
    "adyen" kassette_provider_adyen::Adyen,
    "btcpay" kassette_provider_btcpay::BtcPay,
    "mollie" kassette_provider_mollie::Mollie,
    "paypal" kassette_provider_paypal::PayPal,
    "paysafe" kassette_provider_paysafe::Paysafe,
    "razorpay" kassette_provider_razorpay::Razorpay,
    "revolut" kassette_provider_revolut::Revolut,
    "sandbox" kassette_provider_sandbox::Sandbox,
    "stripe" kassette_provider_stripe::Stripe,
];

/// Settings of an account, and the keys of its secrets.
struct Desk {
    settings: Vec<(String, String)>,
    keys: Arc<HashMap<String, Vec<u8>>>,
}

struct Vendors {
    sim: Sim,
    desks: BTreeMap<&'static str, Desk>,
    /// Certificates at the URLs that PayPal's callbacks contain.
    certificates: RefCell<HashMap<String, Response>>,
    _runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

thread_local! {
    static VENDORS: Vendors = Vendors::new();
}

impl Vendors {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let folder = crate::world::folder();
        let account = |module: &Module| SimAccount {
            provider_id: format!("{}-test", module.name),
            module: module.name.into(),
            environment: kassette_sim::Environment::Test,
            client_id: "clientOfTheFuzzedAccount".into(),
            api_key: "apiKeyOfTheFuzzedAccount".into(),
            callback_secret: "newsOfTheFuzzedAccount".into(),
            callback_url: None,
            public_base: None,
        };
        let config = SimConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: folder.path().to_owned(),
            accounts: MODULES.iter().map(account).collect(),
            clock: Arc::new(|| NOW),
            record: None,
        };
        let sim = runtime.block_on(Sim::start(config)).unwrap();
        let desks = MODULES.iter().map(|module| {
            let profile = sim.profile(&format!("{}-test", module.name)).unwrap();
            let secrets = (module.describe)().secrets;
            let keys = profile.secrets.iter().filter_map(|(name, text)| {
                let need = secrets.iter().find(|need| need.name == *name)?;
                Some((name.clone(), key(text, need.encoding)))
            });
            let desk = Desk {
                keys: Arc::new(keys.collect()),
                settings: profile.settings,
            };
            (module.name, desk)
        });
        Self {
            desks: desks.collect(),
            sim,
            certificates: RefCell::default(),
            _runtime: runtime,
            _folder: folder,
        }
    }

    /// The simulator's response at a URL without credentials.
    fn certificate(&self, url: &str) -> Option<Response> {
        if let Some(kept) = self.certificates.borrow().get(url) {
            return Some(kept.clone());
        }
        let (authority, path) = url.strip_prefix("http://")?.split_once('/')?;
        let mut stream = TcpStream::connect(authority).ok()?;
        let request =
            format!("GET /{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let at = memmem::find(&answer, b"\r\n\r\n")?;
        let response = Response {
            status: 200,
            headers: vec![],
            body: answer[at + 4..].to_vec(),
        };
        self.certificates
            .borrow_mut()
            .insert(url.to_owned(), response.clone());
        Some(response)
    }
}

fn key(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Text => text.as_bytes().to_vec(),
        Encoding::Hex => hex::decode(text).unwrap(),
        Encoding::Base64 => {
            let text = text.strip_prefix("whsec_").unwrap_or(text);
            STANDARD.decode(text).unwrap()
        }
    }
}

/// A host that returns the input's responses in order.
struct Answers {
    keys: Arc<HashMap<String, Vec<u8>>>,
    answers: VecDeque<Response>,
    /// Response to the only request without credentials.
    certificate: Option<Response>,
}

impl Host for Answers {
    fn send(&mut self, _: &Request) -> Result<Response, SendFailure> {
        let none = || SendFailure::NoAnswer("the input has no more answers".into());
        self.answers.pop_front().ok_or_else(none)
    }

    fn get_cached(&mut self, _: &str, _: u32) -> Result<Response, SendFailure> {
        let none = || SendFailure::NotSent("there is no certificate".into());
        self.certificate.clone().ok_or_else(none)
    }

    fn ready(&mut self, _: &str) -> bool {
        true
    }

    fn sign(&mut self, name: &str, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.get(name)?;
        Some(match algorithm {
            Algorithm::HmacSha256 => code::<Hmac<sha2::Sha256>>(key, message),
            Algorithm::HmacSha512 => code::<Hmac<sha2::Sha512>>(key, message),
        })
    }
}

fn code<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// Signature of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signed {
    Genuine,
    Forged,
    Bare,
}

pub(crate) fn run(input: &[u8]) {
    if input.len() <= crate::LONGEST {
        VENDORS.with(|vendors| run_at(vendors, input));
    }
}

fn run_at(vendors: &Vendors, input: &[u8]) {
    let mut sections = talk::split(input);
    let Some((first, request)) = sections.next().and_then(line) else {
        return;
    };
    let mut words = first.split(' ');
    let name = words.next().unwrap_or_default();
    let Some(module) = MODULES.iter().find(|module| module.name == name) else {
        return;
    };
    let signed = match words.next() {
        Some("genuine") => Signed::Genuine,
        Some("forged") => Signed::Forged,
        _ => Signed::Bare,
    };
    let off: i64 = words.next().and_then(|by| by.parse().ok()).unwrap_or(0);
    let now = NOW.saturating_add_signed(off.saturating_mul(1000));
    let Some(mut incoming) = incoming(request) else {
        return;
    };
    let id = format!("{name}-test");
    if signed != Signed::Bare {
        let Ok(body) = std::str::from_utf8(&incoming.body) else {
            return;
        };
        let genuine = signed == Signed::Genuine;
        let (headers, body) = vendors.sim.signed(&id, body, genuine).unwrap();
        for (name, value) in headers {
            incoming.headers.push((name.to_ascii_lowercase(), value));
        }
        incoming.body = body.into_bytes();
    }
    let named = incoming
        .headers
        .iter()
        .find(|(name, _)| name == "paypal-cert-url");
    let desk = &vendors.desks[name];
    let host = Answers {
        keys: Arc::clone(&desk.keys),
        answers: sections.filter_map(answer).take(ANSWERS).collect(),
        // Only if the callback was signed: then the URL is one of the simulator.
        certificate: named
            .filter(|_| signed != Signed::Bare)
            .and_then(|(_, url)| vendors.certificate(url)),
    };
    let account = Account {
        id: id.clone(),
        environment: Environment::Test,
        now,
        callback_url: format!("https://pay.example/callbacks/{id}"),
        settings: desk.settings.clone(),
    };
    let called = incoming.clone();
    let said = with_host(host, || (module.callback)(account, called));
    let told = format!("{said:?}");
    talk::show(|| format!("{name}, {signed:?}: {told}"));
    assert!(!told.contains(MARK), "{name} tells a secret: {told}");
    let Ok(heard) = said else {
        return;
    };
    assert!((200..300).contains(&heard.status), "{name}: {told}");
    assert!(heard.notices.len() <= NOTICES, "{name}: {told}");
    let money = heard.notices.iter().any(|notice| notice.report.is_some());
    // Mollie does not sign callbacks, so its module reports nothing and only requests a query.
    match name {
        "mollie" => {
            assert!(!money, "mollie reports: {told}");
            for notice in &heard.notices {
                let Subject::Attempt(attempt) = &notice.about else {
                    continue;
                };
                let proved = format!("webhook of {attempt}");
                let proof = code::<Hmac<sha2::Sha256>>(&desk.keys["api-key"], proved.as_bytes());
                let given = incoming.query.to_ascii_lowercase();
                assert!(
                    given.contains(&hex::encode(proof)),
                    "mollie believes a forgery: {told}"
                );
            }
        }
        // Adyen signs individual items, and some kinds of items never. The module acknowledges those without a
        // report.
        "adyen" if signed != Signed::Genuine => {
            assert!(!money, "adyen reports: {told}");
            let forged = signed == Signed::Forged && seals_an_item(&incoming.body);
            let believed = forged && !heard.notices.is_empty();
            assert!(!believed, "adyen believes a forgery: {told}");
        }
        _ => assert_eq!(signed, Signed::Genuine, "{name} believes a forgery: {told}"),
    }
    for report in heard
        .notices
        .iter()
        .filter_map(|notice| notice.report.as_ref())
        .filter(|report| is_taken(report))
    {
        assert_told(input, report);
    }
}

/// Whether an item of Adyen's notification has a signature.
fn seals_an_item(body: &[u8]) -> bool {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let items = body["notificationItems"].as_array();
    items
        .into_iter()
        .flatten()
        .any(|item| item["NotificationRequestItem"]["additionalData"]["hmacSignature"].is_string())
}

/// The first line, and the rest of the text.
fn line(text: &[u8]) -> Option<(&str, &[u8])> {
    let at = memchr::memchr(b'\n', text).unwrap_or(text.len());
    let (first, rest) = text.split_at(at);
    Some((
        std::str::from_utf8(first).ok()?,
        rest.get(1..).unwrap_or_default(),
    ))
}

/// Headers and body.
fn parts(text: &[u8]) -> (Vec<(String, String)>, Vec<u8>) {
    let mut rest = text;
    let mut headers = Vec::new();
    while let Some(at) = memchr::memchr(b'\n', rest) {
        let (head, after) = (&rest[..at], &rest[at + 1..]);
        rest = after;
        if head.is_empty() {
            break;
        }
        let head = String::from_utf8_lossy(head);
        if let Some((name, value)) = head.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    (headers, rest.to_vec())
}

fn incoming(text: &[u8]) -> Option<CallbackRequest> {
    let (first, rest) = line(text)?;
    let (verb, target) = first.split_once(' ')?;
    let verb = match verb {
        "GET" => Verb::Get,
        "PUT" => Verb::Put,
        "PATCH" => Verb::Patch,
        "DELETE" => Verb::Delete,
        _ => Verb::Post,
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (headers, body) = parts(rest);
    Some(CallbackRequest {
        verb,
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body,
    })
}

fn answer(text: &[u8]) -> Option<Response> {
    let (status, rest) = line(text)?;
    let (headers, body) = parts(rest);
    Some(Response {
        status: status.parse().ok()?,
        headers,
        body,
    })
}

/// Whether the runtime would accept a report. It rejects a report in the wrong format, without a fault of the
/// module.
pub(crate) fn is_taken(report: &Report) -> bool {
    let id = |text: &str| {
        let plain = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
        (1..=REFERENCE).contains(&text.len()) && text.chars().all(plain)
    };
    let code = &report.received.currency;
    let captured = report.status == Status::Completed;
    id(&report.reference)
        && (code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase()))
        && (!captured || report.received.amount > 0)
}

/// Checks that the amount received occurs in the input.
pub(crate) fn assert_told(input: &[u8], report: &Report) {
    let amount = report.received.amount;
    let digits: Vec<u8> = input.iter().copied().filter(u8::is_ascii_digit).collect();
    let there = |text: &str| memmem::find(&digits, text.as_bytes()).is_some();
    let decimal = input
        .iter()
        .filter(|byte| !matches!(byte, b'.' | b','))
        .copied();
    let plain: Vec<u8> = decimal.collect();
    let whole = amount.to_string();
    let found = there(&whole) || there(whole.trim_end_matches('0'));
    let in_place = memmem::find(&plain, whole.trim_end_matches('0').as_bytes()).is_some();
    assert!(
        amount == 0 || (found && in_place),
        "{amount} was not told: {report:?}"
    );
}
