//! Hand-written guests, correct and hostile, and the setup to run them.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod vendor;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{AccountId, AttemptId, Digest, RefundId, Slot};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::provider::{AccountFacts, AttemptFacts, PaidFacts, Payer, RefundOrder};
use kassette_domain::routing::{AccountCandidate, Availability, Context, Health};
use kassette_domain::time::Time;
use kassette_http::{Client, Guard};
use kassette_runtime::{
    AccountAccess, Contact, MacKey, Recording, Runtime, RuntimeConfig, TokenStore, VersionsConfig,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

pub const NOW: Time = Time::from_secs(1_795_000_000);

/// Address of a guest's static data. Its heap starts at `HEAP`.
const DATA: usize = 1024;
pub const HEAP: usize = 16 * 1024;

/// The context of `rank` as flat parameters: 16, which is the maximum.
pub const CONTEXT: &str = "(param i32 i64 i32 i32 i32 i64 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32)";

/// Static data of a guest in the layout of the canonical ABI.
#[derive(Default)]
pub struct Data(Vec<u8>);

impl Data {
    /// Adds bytes, aligned to 8, and returns their address.
    pub fn put(&mut self, bytes: &[u8]) -> u32 {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let at = DATA + self.0.len();
        self.0.extend_from_slice(bytes);
        u32::try_from(at).unwrap()
    }

    /// Adds a string. Returns address and length, as in a record.
    pub fn text(&mut self, text: &str) -> [u8; 8] {
        let at = self.put(text.as_bytes());
        pair(at, text.len())
    }

    /// Adds a list of strings. Returns address and length.
    pub fn texts(&mut self, texts: &[&str]) -> [u8; 8] {
        let items: Vec<u8> = texts.iter().flat_map(|text| self.text(text)).collect();
        pair(self.put(&items), texts.len())
    }

    fn wat(&self) -> String {
        let bytes: String = self.0.iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!("(data (i32.const {DATA}) \"{bytes}\")")
    }
}

/// Encodes an address and a length.
pub fn pair(at: u32, len: usize) -> [u8; 8] {
    let mut pair = [0; 8];
    pair[..4].copy_from_slice(&at.to_le_bytes());
    pair[4..].copy_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
    pair
}

/// A core module with an allocator and this many pages of memory.
fn core(pages: u32, data: &Data, imports: &str, functions: &str) -> String {
    format!(
        r#"(module
          {imports}
          (memory (export "memory") {pages})
          (global $heap (mut i32) (i32.const {HEAP}))
          (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
            (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
            (global.set $heap (i32.add (local.get $at) (local.get 3)))
            (local.get $at))
          {}
          {functions})"#,
        data.wat()
    )
}

/// Builds a component for a world of a WIT package from a core module in text form. Adds WASI to the world
/// `method` if the module imports it.
pub fn component(wit: &Path, world: &str, core: &str) -> Vec<u8> {
    let mut module = wat::parse_str(core).unwrap_or_else(|error| panic!("{error}"));
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_path(wit).unwrap();
    if world == "method" && core.contains("\"wasi:") {
        let wasi = include_str!("wasi.wit");
        package = resolve.push_str("wasi.wit", wasi).unwrap();
    }
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    let mut encoder = ComponentEncoder::default();
    encoder
        .module(&module)
        .unwrap()
        .validate(true)
        .encode()
        .unwrap()
}

/// Folder of the contract's WIT.
pub fn wit() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
}

/// Description and functions of a hand-written method.
pub struct Method {
    pub data: Data,
    pub id: &'static str,
    pub label: &'static str,
    pub currencies: &'static [&'static str],
    /// Body of `rank`, which returns the address of the answer.
    pub rank: String,
    /// More functions and globals.
    pub more: String,
    /// Imports in text form.
    pub imports: String,
    /// Initial size of its memory, in pages of 64 KiB.
    pub pages: u32,
}

impl Method {
    /// An iDEAL module with this body of `rank`.
    pub fn ideal(rank: impl Into<String>) -> Self {
        Self {
            data: Data::default(),
            id: "ideal",
            label: "iDEAL",
            currencies: &[],
            rank: rank.into(),
            more: String::new(),
            imports: String::new(),
            pages: 1,
        }
    }

    /// An iDEAL module that returns these verdicts: id, and the reason for being eligible or not.
    pub fn saying(verdicts: &[(&str, Result<&str, &str>)]) -> Self {
        let mut method = Self::ideal("");
        let mut list = Vec::new();
        for (id, outcome) in verdicts {
            list.extend(method.data.text(id));
            let mut rest = [0; 16];
            match outcome {
                Ok(reason) => rest[4..12].copy_from_slice(&method.data.text(reason)),
                Err(detail) => {
                    (rest[0], rest[4]) = (1, 6);
                    rest[8..].copy_from_slice(&method.data.text(detail));
                }
            }
            list.extend(rest);
        }
        let list = pair(method.data.put(&list), verdicts.len());
        let mut answer = [0; 16];
        answer[4..12].copy_from_slice(&list);
        method.rank = format!("(i32.const {})", method.data.put(&answer));
        method
    }

    pub fn build(self) -> Vec<u8> {
        self.build_for(&wit())
    }

    pub fn build_for(mut self, wit: &Path) -> Vec<u8> {
        let mut record = Vec::new();
        for text in [self.id, self.label, "1.0.0"] {
            record.extend(self.data.text(text));
        }
        record.extend(self.data.texts(self.currencies));
        // No translations, icon or settings.
        record.extend([0; 24]);
        let record = self.data.put(&record);
        let accepted = self.data.put(&[0; 12]);
        let functions = format!(
            r#"(func (export "kassette:plugin/routing@0.2.0#describe") (result i32) (i32.const {record}))
               (func (export "kassette:plugin/routing@0.2.0#check-settings") (param i32 i32) (result i32)
                 (i32.const {accepted}))
               (func (export "kassette:plugin/routing@0.2.0#rank") {CONTEXT} (result i32) {})
               {}"#,
            self.rank, self.more
        );
        let core = core(self.pages, &self.data, &self.imports, &functions);
        component(wit, "method", &core)
    }
}

/// A hand-written provider with this body of `start`, which gets the address of the arguments and returns that of
/// the answer.
pub fn provider(data: Data, start: &str) -> Vec<u8> {
    provider_with(data, start, "unreachable", "unreachable")
}

/// Like [`provider`], with bodies of `callback` and `query`.
pub fn provider_with(data: Data, start: &str, callback: &str, query: &str) -> Vec<u8> {
    Provider {
        data,
        start: start.into(),
        callback: callback.into(),
        query: query.into(),
        ..Provider::default()
    }
    .build()
}

/// Description and function bodies of a hand-written provider with the id `vendor`.
pub struct Provider {
    pub data: Data,
    pub label: &'static str,
    /// Code before the result of `describe`.
    pub describe: String,
    pub start: String,
    pub callback: String,
    pub query: String,
    /// `None` for the world `provider`, which does not support refunds.
    pub refunds: Option<Refunds>,
}

/// Bodies of the functions of `refunds`, which get the address of the arguments and return that of the answer.
pub struct Refunds {
    pub terms: String,
    pub refund: String,
    pub query: String,
    pub cancel: String,
}

impl Default for Provider {
    fn default() -> Self {
        Self {
            data: Data::default(),
            label: "Vendor",
            describe: String::new(),
            start: "unreachable".into(),
            callback: "unreachable".into(),
            query: "unreachable".into(),
            refunds: None,
        }
    }
}

impl Provider {
    pub fn build(mut self) -> Vec<u8> {
        let mut record = Vec::new();
        for text in ["vendor", self.label, "1.0.0"] {
            record.extend(self.data.text(text));
        }
        record.extend([0; 32]);
        let record = self.data.put(&record);
        let accepted = self.data.put(&[0; 12]);
        let imports =
            r#"(import "kassette:plugin/http@0.2.0" "send" (func $send (param i32 i32)))"#;
        let name = "kassette:plugin/payments@0.2.0";
        let Self {
            describe,
            start,
            callback,
            query,
            ..
        } = &self;
        let functions = format!(
            r#"(func (export "{name}#describe") (result i32) {describe} (i32.const {record}))
               (func (export "{name}#check-settings") (param i32 i32 i32) (result i32)
                 (i32.const {accepted}))
               (func (export "{name}#start") (param i32) (result i32) {start})
               (func (export "{name}#callback") (param i32) (result i32) {callback})
               (func (export "{name}#query") (param i32) (result i32) {query})
               (func (export "{name}#health") (param i32 i32 i32 i64 i32 i32 i32 i32) (result i32)
                 unreachable)"#
        );
        let name = "kassette:plugin/refunds@0.2.0";
        let refunds = self.refunds.as_ref().map(|refunds| {
            let Refunds { terms, refund, query, cancel } = refunds;
            format!(
                r#"(func (export "{name}#terms") (param i32 i32 i32 i64 i32 i32 i32 i32) (result i32)
                     {terms})
                   (func (export "{name}#refund") (param i32) (result i32) {refund})
                   (func (export "{name}#query") (param i32) (result i32) {query})
                   (func (export "{name}#cancel") (param i32) (result i32) {cancel})"#
            )
        });
        let world = match refunds {
            Some(_) => "refunding-provider",
            None => "provider",
        };
        let functions = functions + &refunds.unwrap_or_default();
        component(&wit(), world, &core(1, &self.data, imports, &functions))
    }
}

/// A request without headers, credentials or token. `verb` is 0 for GET, 1 for POST.
pub fn request(data: &mut Data, verb: u8, url: &str) -> u32 {
    let mut record = [0; 68];
    record[0] = verb;
    record[4..12].copy_from_slice(&data.text(url));
    data.put(&record)
}

/// The answer of a start that redirects the payer.
pub fn redirect(data: &mut Data, url: &str) -> u32 {
    let mut record = [0; 88];
    record[16..24].copy_from_slice(&data.text("ref-1"));
    record[28..36].copy_from_slice(&data.text(url));
    data.put(&record)
}

/// The answer of a failed start: 0 for unavailable, 1 not activated, 2 declined, 3 uncertain.
pub fn failure(data: &mut Data, kind: u8) -> u32 {
    let mut record = [0; 88];
    (record[0], record[8]) = (1, kind);
    record[12..20].copy_from_slice(&data.text("so it says"));
    data.put(&record)
}

/// The answer of an accepted refund: 0 for pending, 1 succeeded, 2 failed.
pub fn given(data: &mut Data, reference: &str, state: u8, claim_url: Option<&str>) -> u32 {
    let mut record = [0; 56];
    record[8..16].copy_from_slice(&data.text(reference));
    record[32] = state;
    if let Some(url) = claim_url {
        record[36] = 1;
        record[40..48].copy_from_slice(&data.text(url));
    }
    record[48..56].copy_from_slice(&data.text("so it says"));
    data.put(&record)
}

/// The answer of a failed refund: 0 for unavailable, 1 refused, 2 uncertain. As the answer of a query: 0 for
/// unavailable, 1 absent.
pub fn refund_failure(data: &mut Data, kind: u8) -> u32 {
    let mut record = [0; 56];
    (record[0], record[8]) = (1, kind);
    record[12..20].copy_from_slice(&data.text("so it says"));
    data.put(&record)
}

/// The answer of `terms`: each method allows partial refunds, at most two.
pub fn terms(data: &mut Data, methods: &[&str]) -> u32 {
    let mut list = Vec::new();
    for method in methods {
        let mut record = [0; 36];
        record[..8].copy_from_slice(&data.text(method));
        (record[8], record[12], record[16]) = (1, 1, 2);
        list.extend(record);
    }
    let list = data.put(&list);
    data.put(&pair(list, methods.len()))
}

/// A runtime for a folder, with the guarded client and loopback allowed.
pub fn runtime(folder: &Path) -> Arc<Runtime> {
    runtime_with(folder, |_| {})
}

pub fn runtime_with(folder: &Path, change: impl FnOnce(&mut RuntimeConfig)) -> Arc<Runtime> {
    bundled_with(folder, BTreeMap::new(), change)
}

/// Like [`runtime_with`], with modules contained in the program.
pub fn bundled_with(
    folder: &Path,
    bundled: BTreeMap<Slot, Vec<u8>>,
    change: impl FnOnce(&mut RuntimeConfig),
) -> Arc<Runtime> {
    let mut config = RuntimeConfig::new(folder, Arc::new(|| NOW));
    change(&mut config);
    let client = Client::new(Guard {
        allow_loopback: true,
    });
    Runtime::start_with(config, client, None, bundled).unwrap()
}

/// Storage of versions, with a test key.
pub fn versions(folder: &Path) -> VersionsConfig {
    let key = MacKey::from_bytes([9; 32].into());
    VersionsConfig::new(folder.to_owned(), key)
}

pub fn slot(text: &str) -> Slot {
    Slot::parse(text).unwrap()
}

/// Waits until a version is active. Panics after a minute.
pub async fn active(runtime: &Runtime, name: &str, bytes: &[u8]) {
    let (slot, digest) = (slot(name), Digest::hash(bytes));
    let waited = tokio::time::timeout(Duration::from_secs(60), runtime.wait_for(&slot, &digest));
    waited
        .await
        .unwrap_or_else(|_| panic!("{name} did not become active: {:?}", runtime.slots()));
}

pub fn candidate(id: &str) -> AccountCandidate {
    let status = Availability::Operational;
    AccountCandidate {
        id: AccountId::parse(id).unwrap(),
        minimum: Some(Minor(50)),
        maximum: Some(Minor(1_000_000)),
        fee: Some(Minor(29)),
        priority: 0,
        health: Health {
            status,
            success: Some(990),
            latency: Some(200),
            samples: 100,
        },
    }
}

/// A payment of 12.34 EUR with these candidates.
pub fn context(candidates: &[&str]) -> Context {
    Context {
        amount: Some(Minor(1234)),
        currency: Currency::EUR,
        usd: Some(Minor(1300)),
        environment: Environment::Live,
        email_known: true,
        country: Some("NL".into()),
        now: NOW,
        settings: vec![],
        candidates: candidates.iter().map(|id| candidate(id)).collect(),
    }
}

/// A simulated account that may call one host and send payers to it.
pub fn access(host: &str) -> AccountAccess {
    AccountAccess {
        account: AccountFacts {
            id: AccountId::parse("vendor-test").unwrap(),
            environment: Environment::Live,
            now: NOW,
            callback_url: "https://pay.example/callbacks/vendor-test".into(),
            settings: vec![],
        },
        hosts: vec![host.parse().unwrap()],
        redirect_hosts: vec![host.parse().unwrap()],
        secrets: vec![],
        plain_loopback: true,
        tokens: Arc::new(TokenStore::new()),
        stranger: None,
        not_after: None,
        contact: Contact::default(),
        recording: Recording::Off,
    }
}

pub fn attempt() -> AttemptFacts {
    AttemptFacts {
        id: AttemptId::from_bytes([7; 16]),
        method: MethodId::Ideal,
        due: Money {
            amount: Minor(1234),
            currency: Currency::EUR,
        },
        order: "order-1".into(),
        merchant: "Shop".into(),
        return_url: "https://pay.example/return/x".into(),
        cancel_url: "https://pay.example/return/x".into(),
        expires: NOW.after(Duration::from_secs(3600)),
        payer: Payer::default(),
        answers: vec![],
    }
}

pub fn paid() -> PaidFacts {
    PaidFacts {
        attempt: AttemptId::from_bytes([7; 16]),
        method: MethodId::Ideal,
        reference: "ref-1".into(),
        references: vec![],
        received: Minor(1234),
        currency: "EUR".into(),
        captured_at: None,
        merchant_order: "order-1".into(),
        merchant: "Shop".into(),
    }
}

pub fn refund_order() -> RefundOrder {
    RefundOrder {
        id: RefundId::from_bytes([8; 16]),
        amount: Minor(1000),
        reason: None,
        asked_at: NOW,
        reference: None,
    }
}

/// The text after `answer=` in the output of an ignored test, run in another process.
pub fn answer_of_another_process(test: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let there = Command::new(program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8(there.stdout).unwrap();
    let answer = text.lines().find_map(|line| line.strip_prefix("answer="));
    answer.unwrap_or_else(|| panic!("no answer: {text}")).into()
}
