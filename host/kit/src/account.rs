//! Accounts and attempts for calls to provider modules.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::money::Money;
use kassette_domain::provider::{AccountFacts, AttemptFacts, Payer, ProviderDescription};
use kassette_domain::secret;
use kassette_http::HostPattern;
use kassette_runtime::{AccountAccess, Contact, Recording, SecretEntry, TokenStore};

use crate::harness::NOW;

/// A test account with every secret in the module's description and the given settings. Requests and redirects may
/// go to one host.
///
/// # Errors
/// `host` is not a valid host.
/// Where the host is none.
pub fn account(
    description: &ProviderDescription,
    host: &str,
    settings: &[(&str, &str)],
) -> Result<AccountAccess, kassette_http::NotAHost> {
    let host: HostPattern = host.parse()?;
    let secrets = description.secrets.iter().map(|secret| SecretEntry {
        name: secret.name.clone(),
        // Valid in all three encodings: text, hexadecimal and Base64.
        values: vec![secret::Secret::new("0123456789abcdef0123456789abcdef")],
        encoding: secret.encoding,
        hosts: vec![host.clone()],
    });
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Ok(AccountAccess {
        account: AccountFacts {
            id: test_account(),
            environment: Environment::Test,
            now: NOW,
            callback_url: "https://pay.example/callbacks/test-account".into(),
            settings: settings.iter().map(own).collect(),
        },
        hosts: vec![host.clone()],
        redirect_hosts: vec![host.clone()],
        secrets: secrets.collect(),
        plain_loopback: false,
        tokens: Arc::new(TokenStore::new()),
        stranger: None,
        not_after: None,
        contact: Contact::default(),
        recording: Recording::Off,
    })
}

#[expect(clippy::panic, reason = "a constant, and a test calls this")]
fn test_account() -> AccountId {
    AccountId::parse("test-account").unwrap_or_else(|_| panic!("a constant id"))
}

/// An attempt to pay an amount with a method.
#[must_use]
pub fn attempt(method: MethodId, due: Money) -> AttemptFacts {
    AttemptFacts {
        id: AttemptId::from_bytes([7; 16]),
        method,
        due,
        order: "order-1".into(),
        merchant: "Shop".into(),
        return_url: "https://pay.example/return/token".into(),
        cancel_url: "https://pay.example/return/token".into(),
        expires: NOW.after(Duration::from_secs(3600)),
        payer: Payer::default(),
        answers: Vec::new(),
    }
}
