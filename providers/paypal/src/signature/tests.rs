use super::*;
use kassette_plugin::provider::Verb;
use kassette_plugin::provider::http::{Request, Response, SendFailure};
use kassette_plugin::testing::{Host, with_host};
use std::{cell::RefCell, rc::Rc};

const NOW: u64 = 1_800_000_000_000;
const CERTIFICATE: &str = "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-360caa42-1";

/// Answers requests for certificates and records them.
#[derive(Clone)]
struct Vendor {
    answer: Result<(u16, &'static str), SendFailure>,
    asked: Rc<RefCell<Vec<String>>>,
}

impl Vendor {
    fn new(answer: Result<(u16, &'static str), SendFailure>) -> Self {
        Self {
            answer,
            asked: Rc::default(),
        }
    }
}

impl Host for Vendor {
    fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
        assert!(request.credentials.is_empty());
        self.asked.borrow_mut().push(request.url.clone());
        let (status, body) = self.answer.clone()?;
        Ok(Response {
            status,
            headers: Vec::new(),
            body: body.into(),
        })
    }
}

fn account(environment: Environment, settings: &[(&str, &str)]) -> Account {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let webhook = [(WEBHOOK_ID, "1JE4291016473214C")];
    Account {
        id: "paypal-test".into(),
        environment,
        now: NOW,
        callback_url: String::new(),
        settings: webhook.iter().chain(settings).map(own).collect(),
    }
}

/// A delivery with one header changed, or removed if `value` is empty.
fn delivery(name: &str, value: &str) -> CallbackRequest {
    let headers = [
        (
            "paypal-transmission-id",
            "69cd13f0-d67a-11e5-baa3-778b53f4ae55",
        ),
        ("paypal-transmission-time", "2027-01-15T08:00:00Z"),
        ("paypal-cert-url", CERTIFICATE),
        ("paypal-auth-algo", "SHA256withRSA"),
        ("paypal-transmission-sig", "c2lnbmF0dXJl"),
    ];
    let headers = headers.map(|(known, usual)| (known, if known == name { value } else { usual }));
    let given = headers.into_iter().filter(|(_, value)| !value.is_empty());
    CallbackRequest {
        verb: Verb::Post,
        path: String::new(),
        query: String::new(),
        headers: given
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        body: b"{}".to_vec(),
    }
}

/// The result of the verification, and the number of requests for it.
fn verified(account: &Account, incoming: &CallbackRequest) -> (Result<(), CallbackFailure>, usize) {
    let vendor = Vendor::new(Ok((200, "<html>")));
    let said = with_host(vendor.clone(), || verify(account, incoming));
    let asked = vendor.asked.borrow().len();
    (said, asked)
}

#[test]
fn what_lacks_a_header_is_malformed_and_costs_nothing() {
    let account = account(Environment::Test, &[]);
    for name in [
        "paypal-transmission-id",
        "paypal-transmission-time",
        "paypal-cert-url",
        "paypal-auth-algo",
        "paypal-transmission-sig",
    ] {
        let long = "x".repeat(501);
        for value in ["", long.as_str()] {
            let (said, asked) = verified(&account, &delivery(name, value));
            assert!(matches!(said, Err(CallbackFailure::Forged(_))), "{name}");
            assert_eq!(asked, 0, "{name}");
        }
    }
    let mut twice = delivery("", "");
    twice.headers.push(twice.headers[0].clone());
    assert!(matches!(
        verified(&account, &twice),
        (Err(CallbackFailure::Forged(_)), 0)
    ));
    let (said, asked) = verified(&account, &delivery("paypal-transmission-sig", "??"));
    assert!(matches!(
        (said, asked),
        (Err(CallbackFailure::Forged(_)), 0)
    ));
}

#[test]
fn a_time_out_of_bounds_or_another_algorithm_is_a_forgery_and_costs_nothing() {
    let account = account(Environment::Test, &[]);
    for (name, value, asked_for) in [
        ("paypal-transmission-time", "2027-01-11T08:00:00Z", 1),
        ("paypal-transmission-time", "2027-01-11T07:59:59Z", 0),
        ("paypal-transmission-time", "2027-01-15T08:10:00Z", 1),
        ("paypal-transmission-time", "2027-01-15T08:10:01Z", 0),
        ("paypal-auth-algo", "sha256withrsa", 1),
        ("paypal-auth-algo", "SHA1withRSA", 0),
    ] {
        let (said, asked) = verified(&account, &delivery(name, value));
        assert_eq!(asked, asked_for, "{value}");
        let forged = matches!(said, Err(CallbackFailure::Forged(_)));
        assert_eq!(forged, asked_for == 0, "{value}");
    }
}

#[test]
fn certificates_come_from_paypals_own_hosts_of_the_accounts_world_alone() {
    let place = "/v1/notifications/certs/CERT-360caa42-fca2a594";
    for (environment, host, followed) in [
        (Environment::Live, "https://api.paypal.com", true),
        (Environment::Live, "https://api-m.paypal.com", true),
        (Environment::Live, "https://api.sandbox.paypal.com", false),
        (Environment::Test, "https://api.sandbox.paypal.com", true),
        (Environment::Test, "https://api.paypal.com", false),
        (Environment::Live, "http://api.paypal.com", false),
        (
            Environment::Live,
            "https://api.paypal.com.evil.example",
            false,
        ),
        (
            Environment::Live,
            "https://api.paypal.com@evil.example",
            false,
        ),
        (Environment::Live, "https://api.paypal.com:8443", false),
        (Environment::Live, "http://127.0.0.1:9001", false),
    ] {
        let account = account(environment, &[]);
        let address = format!("{host}{place}");
        let (said, asked) = verified(&account, &delivery("paypal-cert-url", &address));
        assert_eq!(asked, usize::from(followed), "{address}");
        assert_eq!(
            matches!(said, Err(CallbackFailure::Forged(_))),
            !followed,
            "{address}"
        );
    }
    let account = account(Environment::Live, &[]);
    for path in [
        "/v1/notifications/certs/",
        "/v1/notifications/certs/../webhooks",
        "/v1/notifications/certs/%2e%2e",
        "/v1/notifications/certs/CERT-1?x=1",
        "/v1/notifications/certs/CERT-1#x",
        "/v1/oauth2/token",
    ] {
        let address = format!("https://api.paypal.com{path}");
        let (said, asked) = verified(&account, &delivery("paypal-cert-url", &address));
        assert!(matches!(said, Err(CallbackFailure::Forged(_))), "{address}");
        assert_eq!(asked, 0, "{address}");
    }
}

#[test]
fn without_the_certificate_a_genuine_delivery_is_to_come_again() {
    let account = account(Environment::Test, &[]);
    let said = |answer| with_host(Vendor::new(answer), || verify(&account, &delivery("", "")));
    for answer in [
        Err(SendFailure::NotSent("one a minute".into())),
        Err(SendFailure::NoAnswer("nothing".into())),
        Ok((503, "")),
        Ok((429, "")),
        Ok((301, "")),
        Ok((200, "no certificate")),
    ] {
        assert!(
            matches!(said(answer.clone()), Err(CallbackFailure::Later(_))),
            "{answer:?}"
        );
    }
    for status in [404, 400, 410] {
        assert!(
            matches!(said(Ok((status, ""))), Err(CallbackFailure::Forged(_))),
            "{status}"
        );
    }
}

#[test]
fn an_account_without_the_webhooks_id_takes_no_news() {
    let mut bare = account(Environment::Test, &[]);
    bare.settings.clear();
    let (said, asked) = verified(&bare, &delivery("", ""));
    assert!(matches!((said, asked), (Err(CallbackFailure::Later(_)), 0)));
}

#[test]
fn a_simulators_root_counts_beside_a_base_url_on_loopback_alone() {
    let with = |base: Option<&'static str>| {
        let base = base.map(|base| (BASE_URL, base));
        let settings: Vec<_> = [(SIMULATOR_ROOT, "AAAA")].into_iter().chain(base).collect();
        account(Environment::Live, &settings)
    };
    for base in [
        None,
        Some("https://api-m.paypal.com"),
        Some("https://127.0.0.1:9001"),
        Some("http://127.0.0.1.evil.example"),
        Some("http://127.0.0.1@evil.example"),
        Some("http://localhost.evil.example:80"),
        Some("http://evil.example/127.0.0.1"),
    ] {
        let account = with(base);
        let (said, asked) = verified(&account, &delivery("", ""));
        assert!(matches!(said, Err(CallbackFailure::Later(_))), "{base:?}");
        assert_eq!(asked, 0, "{base:?}");
        assert!(simulator(&account.settings).is_err(), "{base:?}");
    }
    for base in [
        "http://127.0.0.1:9001",
        "http://localhost:9001/",
        "http://[::1]:9001",
    ] {
        let account = with(Some(base));
        assert!(simulator(&account.settings).unwrap().is_some(), "{base}");
        // PayPal's own certificates are not accepted for a simulator's account.
        let (said, asked) = verified(&account, &delivery("", ""));
        assert!(
            matches!((said, asked), (Err(CallbackFailure::Forged(_)), 0)),
            "{base}"
        );
        let base = base.trim_end_matches('/');
        let own = format!("{base}/v1/notifications/certs/CERT-1");
        assert_eq!(verified(&account, &delivery("paypal-cert-url", &own)).1, 1);
    }
    assert_eq!(
        simulator(&account(Environment::Live, &[]).settings),
        Ok(None)
    );
}
