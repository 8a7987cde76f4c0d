//! Signed requests of resellers: the cost of the signature, and of storing the nonce.
//!
//! The gateway cannot omit the commit of the nonce, so the cost of the signature is measured at the floor: one
//! handler checks the headers like the gateway, the other ignores them. The gateway does more work per request, so
//! the share of the signature is smaller there. The load signs all requests, also those whose signature is
//! ignored, because it shares the cores.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kassette_domain::signing::SignedRequest;
use serde_json::{Value, json};

use super::client::{self, Requests};
use super::figure::{Figure, Goal, median};
use super::floor::{CHECKED, Floor, IGNORED};
use super::gateway::Gateway;
use super::http::CONNECTIONS;
use super::options::Options;
use super::requests::Draw;
use super::store::work::{self, End};

const PAYMENTS: &str = "/api/v1/reseller/payments";
/// Number of stored payments per environment.
const STORED: u64 = 1000;

/// Measurements, in order. Cases that are compared with each other are adjacent.
#[derive(Clone, Copy)]
enum Case {
    Ignored,
    Checked,
    Unsigned,
    Signed,
    Store,
}

impl Case {
    const ALL: [Self; 5] = [
        Self::Ignored,
        Self::Checked,
        Self::Unsigned,
        Self::Signed,
        Self::Store,
    ];
}

/// A reseller's key, and the targets of its payments.
struct Reads {
    key: String,
    targets: Rc<Vec<String>>,
}

struct World {
    floor: Floor,
    gateway: Gateway,
    test: Reads,
    live: Reads,
}

pub(crate) fn run(options: &Options) -> Vec<Figure> {
    let gateway = Gateway::fresh("");
    let (test, live) = resell(&gateway);
    let world = World {
        floor: Floor::start(),
        gateway,
        test,
        live,
    };
    for case in Case::ALL {
        world.measure(case, options.slice() / 3);
    }
    let mut rates: [Vec<f64>; 5] = Default::default();
    for _ in 0..options.rounds() {
        for case in Case::ALL {
            rates[case as usize].push(world.measure(case, options.slice()));
        }
    }
    let compared = |name: &str, case: Case, other: &str, to: Case| {
        let (rates, others) = (&rates[case as usize], &rates[to as usize]);
        let ratios: Vec<f64> = rates.iter().zip(others).map(|(a, b)| a / b).collect();
        let figure = Figure::new(name, median(rates), "requests/s");
        figure.against(other, median(others), median(&ratios))
    };
    vec![
        compared(
            "floor GET, signature checked",
            Case::Checked,
            "signature ignored",
            Case::Ignored,
        )
        .goal(Goal::Ratio(0.85)),
        compared(
            "GET delegated payment, signed",
            Case::Signed,
            "unsigned",
            Case::Unsigned,
        ),
        compared(
            "GET delegated payment, signed",
            Case::Signed,
            "store, durable creates/s",
            Case::Store,
        )
        .goal(Goal::Ratio(0.8)),
    ]
}

/// Creates a reseller with an authorized delegation, live rollout, and payments in both environments.
fn resell(gateway: &Gateway) -> (Reads, Reads) {
    let merchant = json!({ "name": "Resold", "fx_rates": { "EUR": "1.08" }, "live_approved": true, "actor": "ann", "reason": "a bench" });
    let merchant = gateway.admin("POST", "/merchants", &merchant)["merchant_id"].clone();
    let reseller = gateway.admin("POST", "/resellers", &json!({ "name": "Agency" }));
    let path = format!("/resellers/{}", reseller["reseller_id"]);
    let why = |more: Value| {
        let mut body = json!({ "actor": "bench", "reason": "a benchmark" });
        let fields = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        body
    };
    let rollout = why(json!({ "enabled": true }));
    gateway.admin("PUT", &format!("{path}/live-rollout"), &rollout);
    let delegation = why(json!({ "status": "authorized" }));
    gateway.admin(
        "PUT",
        &format!("{path}/delegations/{merchant}"),
        &delegation,
    );
    let reads = |environment: &str| {
        let body = json!({ "environment": environment });
        let key = gateway.admin("POST", &format!("{path}/keys"), &body);
        let key = key["key"].as_str().unwrap().to_owned();
        let create = |number: u64| {
            let body = format!(
                r#"{{"merchant_id":{merchant},"client_ref":"{environment}-{number}","order_id":"order-{number}","amount":"49.90","currency":"EUR"}}"#
            );
            let mut request = Vec::new();
            sign(&key, "POST", PAYMENTS, &body, &mut request);
            let (status, answer) = client::once(gateway.address, &request);
            let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
            assert_eq!(status, 200, "{answer}");
            format!("{PAYMENTS}/{}", answer["payment_id"].as_str().unwrap())
        };
        Reads {
            targets: Rc::new((0..STORED).map(create).collect()),
            key,
        }
    };
    (reads("test"), reads("live"))
}

/// Appends a request with key, timestamp, nonce and signature.
fn sign(key: &str, method: &str, target: &str, body: &str, into: &mut Vec<u8>) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let timestamp = now.as_secs().to_string();
    let nonce = format!("{:032x}", NEXT.fetch_add(1, Ordering::Relaxed));
    let request = SignedRequest {
        method,
        target,
        timestamp: &timestamp,
        nonce: &nonce,
        body: body.as_bytes(),
    };
    let signature = request.sign(key);
    let mut text = String::with_capacity(512);
    let _ = write!(
        text,
        "{method} {target} HTTP/1.1\r\nhost: pay.example\r\nauthorization: Bearer {key}\r\n\
         x-service-timestamp: {timestamp}\r\nx-service-nonce: {nonce}\r\n\
         x-service-signature: {signature}\r\n"
    );
    if !body.is_empty() {
        let length = body.len();
        let _ = write!(
            text,
            "content-type: application/json\r\ncontent-length: {length}\r\n"
        );
    }
    let _ = write!(text, "\r\n{body}");
    into.extend_from_slice(text.as_bytes());
}

impl World {
    /// Responses, or creates in the store, per second.
    fn measure(&self, case: Case, time: Duration) -> f64 {
        let (floor, gateway) = (self.floor.address, self.gateway.address);
        let fixed = |target: &str| Reads {
            key: self.live.key.clone(),
            targets: Rc::new(vec![target.to_owned()]),
        };
        let (address, requests) = match case {
            Case::Ignored => (floor, reads(&fixed(IGNORED))),
            Case::Checked => (floor, reads(&fixed(CHECKED))),
            Case::Unsigned => (gateway, reads(&self.test)),
            Case::Signed => (gateway, reads(&self.live)),
            Case::Store => return store(time),
        };
        let measured = client::closed(address, CONNECTIONS, time, requests, |_, _| {});
        let wrong = measured.statuses.keys().find(|status| **status != 200);
        assert!(wrong.is_none(), "answered with {wrong:?}");
        measured.rate(&[200])
    }
}

/// Reads, each with a new signature.
fn reads(reads: &Reads) -> Requests {
    let (key, targets, mut draw) = (reads.key.clone(), Rc::clone(&reads.targets), Draw::new());
    Box::new(move |into| {
        let target: &String = draw.from(&targets);
        sign(&key, "GET", target, "", into);
        true
    })
}

/// Durable creates per second in the store without a server, with one writer per connection.
fn store(time: Duration) -> f64 {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    work::runtime().block_on(async {
        let store = work::open(folder.path());
        let create = {
            let store = Arc::clone(&store);
            move || work::create(Arc::clone(&store))
        };
        let run = work::run(CONNECTIONS, End::After(time), create).await;
        kassette_store::StoreHealth::shut_down(&*store)
            .await
            .unwrap();
        run.rate
    })
}
