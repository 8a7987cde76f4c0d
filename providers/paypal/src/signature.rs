//! Verification that PayPal sent a webhook.
//!
//! PayPal's page "Integrate webhooks" recommends that the receiver verifies. The signature covers the
//! transmission's id and time, the webhook's id and the CRC-32 of the body. The address of the signer's
//! certificate is in a header, so a forger can choose it. It is fetched only from PayPal's own hosts, and through
//! the host's cache, which limits requests per minute.
//!
//! The certificate must have a chain to a root that browsers trust. PayPal does not document that the file
//! contains the intermediate certificates, and its SDKs for Java and Python included them, as if it did not. So if
//! a signature matches a certificate with PayPal's name and only the chain is missing, PayPal verifies the
//! delivery (`verify-webhook-signature`). No forger reaches this step, because it requires the private key.
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

/// Settings: the webhook's id, which every signature covers; and the root certificate of a simulator.
pub(crate) const WEBHOOK_ID: &str = "webhook-id";
const SIMULATOR_ROOT: &str = "simulator-root";

/// Maximum age of a transmission, in milliseconds. PayPal retries a delivery for three days.
const OLDEST: u64 = 4 * 86_400_000;
/// Maximum time by which a transmission may be in the future because of clock differences, in milliseconds.
const AHEAD: u64 = 10 * 60_000;
/// Time for which the host caches a certificate, in seconds. A new certificate has a new address.
const LIFE: u32 = 12 * 3_600;
/// Maximum lengths of header values, from PayPal's documentation of `verify-webhook-signature`.
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

/// Source of trusted certificates.
struct Issuer<'a> {
    /// Prefixes of their addresses.
    places: Vec<String>,
    /// Accepted names in the certificates.
    names: &'static [&'static str],
    /// Root of the simulator. `None` for PayPal, whose certificates come from public authorities.
    root: Option<&'a [u8]>,
}

/// Base address and root certificate of a simulator. `None` if the setting is missing.
///
/// An operator's own root could certify any notification, so it is only accepted together with a `base-url` of
/// plain http on loopback. The host sends requests there only for simulated accounts; in production (`kassette
/// serve`) no live account is simulated, and an account with real credentials and such a `base-url` cannot reach
/// PayPal. In any other case the setting is an error that disables the account, so that it is not overlooked.
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

/// Unverified header values of a delivery.
struct Claim<'a> {
    id: &'a str,
    time: &'a str,
    certificate: &'a str,
    signature: Vec<u8>,
    written: &'a str,
}

/// Verifies a delivery. The cheapest checks come first, so that forgeries cost little.
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
            .ok_or_else(|| CallbackFailure::Forged(format!("no {name}")))
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
        time::parse_rfc3339(time).ok_or_else(|| CallbackFailure::Forged("no time".into()))?;
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
    let signature =
        encode::unbase64(written).ok_or_else(|| CallbackFailure::Forged("no signature".into()))?;
    Ok(Claim {
        id,
        time,
        certificate,
        signature,
        written,
    })
}

/// Whether an address is the prefix followed by a plain name: no `..`, query or escapes.
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

/// Makes PayPal verify a signature that matches a certificate without a chain to a root.
fn confirmed(
    account: &Account,
    claim: &Claim<'_>,
    webhook: &str,
    event: &[u8],
) -> Result<(), CallbackFailure> {
    // PayPal can verify only JSON. Other bodies are accepted, because they result in no notice.
    if Json::parse(event).is_none() {
        return Ok(());
    }
    // The event is sent back byte for byte, because PayPal recomputes its checksum.
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
