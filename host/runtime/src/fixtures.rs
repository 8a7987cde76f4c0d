//! Fixtures for the unit tests of this crate.

use std::sync::Arc;

use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::provider::{AccountFacts, Encoding};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_http::HostPattern;

use crate::access::{AccountAccess, Recording, SecretEntry};
use crate::contact::Contact;
use crate::tokens::TokenStore;

/// An account that may call `api.vendor.example` and `login.vendor.example`.
pub(crate) fn access() -> AccountAccess {
    AccountAccess {
        account: AccountFacts {
            id: AccountId::parse("vendor-test").unwrap(),
            environment: Environment::Test,
            now: Time::from_secs(1_795_000_000),
            callback_url: "https://pay.example/callbacks/vendor-test".into(),
            settings: vec![],
        },
        hosts: hosts(&["api.vendor.example", "login.vendor.example"]),
        redirect_hosts: hosts(&["pay.vendor.example"]),
        secrets: vec![],
        plain_loopback: false,
        tokens: Arc::new(TokenStore::new()),
        stranger: None,
        not_after: None,
        contact: Contact::default(),
        recording: Recording::Off,
    }
}

pub(crate) fn hosts(names: &[&str]) -> Vec<HostPattern> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

pub(crate) fn secret(name: &str, values: &[&str], encoding: Encoding, to: &[&str]) -> SecretEntry {
    let values = values.iter().map(|value| Secret::new(*value)).collect();
    SecretEntry {
        name: name.into(),
        values,
        encoding,
        hosts: hosts(to),
    }
}
