//! The resellers' routes with valid and invalid signatures.
//!
//! `{signature}` in an input is replaced by the valid signature, `{signature-method}`, `-target`, `-timestamp`,
//! `-nonce`, `-body` and `-key` by the signature of a request in which this part differs.

use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use kassette_domain::signing::SignedRequest;

use crate::talk::Request;
use crate::{rules, talk, world};

/// Number of seconds for which a nonce stays reserved.
const RESERVED: u64 = 600;

const SIGNATURE: &str = "x-service-signature";

/// The parts that a signature covers, and the key.
const PIECES: [&str; 6] = ["method", "target", "timestamp", "nonce", "body", "key"];

pub(crate) fn run(input: &[u8]) {
    if input.len() > crate::LONGEST {
        return;
    }
    world::within(false, |world| {
        let mut words = world.draw();
        for section in talk::split(input) {
            world.pass(Duration::from_millis(100));
            let Some(mut asked) = talk::read(section, &words, &world.credentials, world.now())
            else {
                continue;
            };
            let signed = sign(&mut asked);
            let before = world.count();
            let answer = world.wait(talk::send(&world.public, &asked));
            rules::judge(world, input, &asked, &answer, &before, &world.count());
            let of_resellers = asked.target.starts_with("/api/v1/reseller/");
            if of_resellers && asked.credential == Some("rlive") && answer.status < 400 {
                assert!(signed, "let in without its signature: {}", answer.text());
                let nonce = asked.headers["x-service-nonce"].as_bytes().to_vec();
                let now = world.now();
                let before = world.nonces.insert(nonce, now);
                let free = before.is_none_or(|at| now - at >= RESERVED);
                assert!(free, "let in twice with one nonce: {}", answer.text());
                let stamp = asked.headers["x-service-timestamp"].to_str().unwrap();
                let stamp: u64 = stamp.parse().unwrap();
                assert!(
                    stamp.abs_diff(world.now()) <= 300,
                    "let in too late: {stamp}"
                );
            }
            world::learn(&mut words, &answer);
        }
    });
}

/// Replaces the placeholder by a signature. Returns whether the signature is valid.
fn sign(asked: &mut Request) -> bool {
    let said = asked.headers.get(SIGNATURE).cloned();
    let said = said.as_ref().and_then(|value| value.to_str().ok());
    let other = said.and_then(|said| said.strip_prefix("{signature")?.strip_suffix('}'));
    let Some(other) = other.map(|other| other.trim_start_matches('-').to_owned()) else {
        return false;
    };
    if !other.is_empty() && !PIECES.contains(&other.as_str()) {
        return false;
    }
    let altered = |piece: &str, text: &str| match other == piece {
        true => format!("{text}x"),
        false => text.to_owned(),
    };
    let header = |name: &str| {
        let value = asked.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let key = header(AUTHORIZATION.as_str());
    let key = altered("key", key.split_once(' ').map_or("", |(_, key)| key.trim()));
    let method = altered("method", asked.method.as_str());
    let target = altered("target", &asked.target);
    let timestamp = altered("timestamp", header("x-service-timestamp"));
    let nonce = altered("nonce", header("x-service-nonce"));
    let mut body = asked.body.clone();
    if other == "body" {
        body.push(b'x');
    }
    let signature = SignedRequest {
        method: &method,
        target: &target,
        timestamp: &timestamp,
        nonce: &nonce,
        body: &body,
    }
    .sign(&key);
    let value = HeaderValue::try_from(signature).unwrap();
    for (name, each) in asked.headers.iter_mut() {
        if name == SIGNATURE {
            *each = value.clone();
        }
    }
    other.is_empty()
}
