//! Whether a webhook is PayPal's.
//!
//! PayPal's page "Integrate webhooks" prefers that the receiver verifies: the signature covers the
//! transmission's id and time, the webhook's id and the CRC-32 of the body, and the certificate of the key
//! stands at an address in a header. A sender of forgeries chooses that address, so it is only followed to
//! PayPal's own hosts, and through the host's memory, which lets few requests a minute out.
//!
//! The certificate has to lead to a root that browsers trust. PayPal does not say that the file holds what
//! stands between, and its own SDKs for Java and Python brought that along, as if it did not. So where a
//! signature is right by a certificate of PayPal's name, and only the way to a root is missing, PayPal is
//! asked (`verify-webhook-signature`): no stranger gets that far, because it takes the key.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::{BASE_URL, Broken, header};
use kassette_plugin::provider::http::{self, Header};
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackRequest, Environment, Setting, SettingSpec,
};
use kassette_plugin::{settings, time};

use crate::api;
use crate::certificate::{self, Roots, Verdict};

/// Settings: the webhook's id, which every signature covers; and what a simulator signs with.
pub(crate) const WEBHOOK_ID: &str = "webhook-id";
const SIMULATOR_ROOT: &str = "simulator-root";

/// How old a transmission may be, in milliseconds: PayPal repeats a delivery for three days.
const OLDEST: u64 = 4 * 86_400_000;
/// How far a clock may run ahead of another.
const AHEAD: u64 = 10 * 60_000;
/// How long the host keeps a certificate, in seconds. Its address changes with it.
const LIFE: u32 = 12 * 3_600;
/// Longest values of headers, as PayPal's document of `verify-webhook-signature` has them.
const LONGEST_ID: usize = 50;
const LONGEST_TIME: usize = 100;
const LONGEST_ADDRESS: usize = 500;
const LONGEST_SIGNATURE: usize = 500;

const ALGORITHM: &str = "SHA256withRSA";
const PATH: &str = "/v1/notifications/certs/";

/// The settings that this file reads.
pub(crate) fn needs() -> [SettingSpec; 2] {
    [
        SettingSpec::required(
            WEBHOOK_ID,
            "ID of the webhook that leads to this account: Developer Dashboard, Apps & Credentials, your app, Webhooks",
        ),
        SettingSpec::optional(
            SIMULATOR_ROOT,
            "The root certificate that a simulator's webhooks lead to. Leave it out for a real account.",
        ),
    ]
}

/// Whose certificates are believed.
struct Issuer<'a> {
    /// What their addresses begin with.
    places: Vec<String>,
    /// Who they are for.
    names: &'static [&'static str],
    /// The simulator's root; none: PayPal's certificates are those of public authorities.
    root: Option<&'a [u8]>,
}

/// A root of the operator's own could certify any notice, so it counts for nothing but a simulator on this
/// machine: beside a `base-url` of plain http on loopback. The host sends a request there for simulated
/// accounts alone, and in production (`kassette serve`) no live account can be one; an account with real
/// credentials and such a base-url reaches no vendor at all. Anywhere else the setting makes the account
/// unusable, so that it is not overlooked.
pub(crate) fn simulator(settings: &[Setting]) -> Result<Option<(String, Vec<u8>)>, String> {
    let Some(root) = settings::text(settings, SIMULATOR_ROOT) else {
        return Ok(None);
    };
    let base = settings::text(settings, BASE_URL).unwrap_or_default();
    if !is_loopback(base) {
        return Err(format!(
            "the setting {SIMULATOR_ROOT} is for a simulator on this machine alone"
        ));
    }
    let root = encode::unbase64(root)
        .ok_or_else(|| format!("the setting {SIMULATOR_ROOT} is no base64 of a certificate"))?;
    Ok(Some((base.trim_end_matches('/').to_owned(), root)))
}

fn is_loopback(base: &str) -> bool {
    let Some(rest) = base.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split('/').next().unwrap_or_default();
    ["127.0.0.1", "[::1]", "localhost"].iter().any(|host| {
        let port = authority.strip_prefix(host);
        port.is_some_and(|port| port.is_empty() || port.starts_with(':'))
    })
}

fn issuer<'a>(account: &Account, simulator: Option<&'a (String, Vec<u8>)>) -> Issuer<'a> {
    let live = account.environment == Environment::Live;
    let (hosts, names): (_, &'static [_]) = if live {
        (
            ["api.paypal.com", "api-m.paypal.com"],
            &["messageverificationcerts.paypal.com"],
        )
    } else {
        (
            ["api.sandbox.paypal.com", "api-m.sandbox.paypal.com"],
            &[
                "messageverificationcerts.sandbox.paypal.com",
                "messageverificationcerts.paypal.com",
            ],
        )
    };
    match simulator {
        Some((base, root)) => Issuer {
            places: vec![format!("{base}{PATH}")],
            names,
            root: Some(root),
        },
        None => Issuer {
            places: hosts.map(|host| format!("https://{host}{PATH}")).into(),
            names,
            root: None,
        },
    }
}

/// What a delivery claims of itself.
struct Claim<'a> {
    id: &'a str,
    time: &'a str,
    certificate: &'a str,
    signature: Vec<u8>,
    written: &'a str,
}

/// Verifies a delivery. What costs nothing is looked at first, so that a forger costs little.
pub(crate) fn verify(account: &Account, incoming: &CallbackRequest) -> Result<(), CallbackFailure> {
    let simulator = simulator(&account.settings).map_err(CallbackFailure::Later)?;
    let issuer = issuer(account, simulator.as_ref());
    let claim = claim(&incoming.headers, &issuer, account.now)?;
    let webhook = settings::text(&account.settings, WEBHOOK_ID)
        .ok_or_else(|| CallbackFailure::Later(format!("no setting {WEBHOOK_ID}")))?;
    let file = certificates(claim.certificate)?;
    let sum = crc32fast::hash(&incoming.body);
    let message = format!("{}|{}|{webhook}|{sum}", claim.id, claim.time);
    let roots = match issuer.root {
        Some(root) => Roots::Simulator(root),
        None => Roots::Public,
    };
    let verdict = certificate::judge(
        &file,
        issuer.names,
        &roots,
        account.now,
        message.as_bytes(),
        &claim.signature,
    );
    match verdict {
        Verdict::Genuine => Ok(()),
        Verdict::Unlinked => confirmed(account, &claim, webhook, &incoming.body),
        Verdict::Unreadable => Err(CallbackFailure::Later(
            "the certificate cannot be read".into(),
        )),
        Verdict::Wrong(why) => Err(CallbackFailure::Forged(why.into())),
    }
}

fn claim<'a>(
    headers: &'a [Header],
    issuer: &Issuer<'_>,
    now: u64,
) -> Result<Claim<'a>, CallbackFailure> {
    let one = |name: &str, longest: usize| {
        header(headers, name)
            .filter(|value| (1..=longest).contains(&value.len()))
            .ok_or_else(|| CallbackFailure::Malformed(format!("no {name}")))
    };
    let id = one("paypal-transmission-id", LONGEST_ID)?;
    let time = one("paypal-transmission-time", LONGEST_TIME)?;
    let certificate = one("paypal-cert-url", LONGEST_ADDRESS)?;
    let algorithm = one("paypal-auth-algo", LONGEST_TIME)?;
    let written = one("paypal-transmission-sig", LONGEST_SIGNATURE)?;
    let forged = |why: &str| CallbackFailure::Forged(why.into());
    if !algorithm.eq_ignore_ascii_case(ALGORITHM) {
        return Err(forged("signed by another algorithm"));
    }
    let sent =
        time::parse_rfc3339(time).ok_or_else(|| CallbackFailure::Malformed("no time".into()))?;
    if sent.saturating_add(OLDEST) < now || now.saturating_add(AHEAD) < sent {
        return Err(forged("sent at another time"));
    }
    if !issuer
        .places
        .iter()
        .any(|place| is_below(place, certificate))
    {
        return Err(forged("a certificate of another place"));
    }
    let signature = encode::unbase64(written)
        .ok_or_else(|| CallbackFailure::Malformed("no signature".into()))?;
    Ok(Claim {
        id,
        time,
        certificate,
        signature,
        written,
    })
}

/// Whether an address is a plain name below a place: no way up, no query, no escape.
fn is_below(place: &str, address: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    address
        .strip_prefix(place)
        .is_some_and(|name| !name.is_empty() && name.bytes().all(plain))
}

fn certificates(address: &str) -> Result<Vec<u8>, CallbackFailure> {
    let answer = http::get_cached(address, LIFE).map_err(|failure| later(failure.into()))?;
    match answer.status {
        200 => Ok(answer.body),
        400 | 404 | 410 => Err(CallbackFailure::Forged(
            "PayPal has no such certificate".into(),
        )),
        status => Err(CallbackFailure::Later(format!(
            "no certificate: status {status}"
        ))),
    }
}

/// PayPal's own word on a signature that is right by a certificate that could not be linked to a root.
fn confirmed(
    account: &Account,
    claim: &Claim<'_>,
    webhook: &str,
    event: &[u8],
) -> Result<(), CallbackFailure> {
    if Json::parse(event).is_none() {
        return Err(CallbackFailure::Malformed("the body is no JSON".into()));
    }
    // The event goes back byte for byte: PayPal sums it up again.
    let text = |text: &str| Json::from(text).to_string();
    let mut body = format!(
        r#"{{"auth_algo":"{ALGORITHM}","cert_url":{},"transmission_id":{},"transmission_sig":{},"transmission_time":{},"webhook_id":{},"webhook_event":"#,
        text(claim.certificate),
        text(claim.id),
        text(claim.written),
        text(claim.time),
        text(webhook),
    )
    .into_bytes();
    body.extend_from_slice(event);
    body.push(b'}');
    let answer = api::ask(account, "/v1/notifications/verify-webhook-signature", body);
    let answer = answer.map_err(later)?;
    let told = answer.json();
    let told = told
        .as_ref()
        .and_then(|body| body.get("verification_status"));
    match (answer.status, told.and_then(Json::text)) {
        (200, Some("SUCCESS")) => Ok(()),
        (200, Some("FAILURE")) => Err(CallbackFailure::Forged(
            "PayPal says that it is not its own".into(),
        )),
        _ => Err(CallbackFailure::Later(api::problem(&answer).to_string())),
    }
}

fn later(broken: Broken) -> CallbackFailure {
    match broken {
        Broken::NotSent(why) | Broken::NoAnswer(why) => CallbackFailure::Later(why),
    }
}

#[cfg(test)]
mod tests;
