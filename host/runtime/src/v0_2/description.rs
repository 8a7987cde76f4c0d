//! Converts the description of a provider module to the domain.

use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::provider::{Encoding, ProviderDescription, SecretSpec, Service};

use super::bindings::provider::exports::kassette::plugin::payments as wit;
use super::bounds::{self, at_most, bad_reply};
use super::settings::{self, HELP, LISTED};
use crate::error::CallError;
use crate::text;

pub(crate) type Description = wit::Description;

pub(crate) fn description(provider: Description) -> Result<ProviderDescription, CallError> {
    let methods = at_most(provider.methods, LISTED, "too many methods")?;
    let secrets = at_most(provider.secrets, LISTED, "too many secrets")?;
    let tokens = at_most(provider.tokens, LISTED, "too many tokens")?;
    if !tokens.iter().all(|token| bounds::is_kebab(token)) {
        return bad_reply("a token's name is not kebab-case");
    }
    if secrets.iter().any(|secret| tokens.contains(&secret.name)) {
        return bad_reply("a token is called like a secret");
    }
    Ok(ProviderDescription {
        label: bounds::label(provider.label)?,
        version: bounds::version(provider.version)?,
        services: methods
            .into_iter()
            .filter_map(service)
            .collect::<Result<_, _>>()?,
        settings: settings::specs(provider.settings)?,
        secrets: secrets.into_iter().map(secret).collect::<Result<_, _>>()?,
        tokens,
        id: provider.id,
    })
}

/// `None` for a method that this host does not know, or without a known currency.
fn service(support: wit::MethodSupport) -> Option<Result<Service, CallError>> {
    let method = MethodId::parse(&support.method)?;
    let minimums = match at_most(support.minimums, LISTED, "too many minimums") {
        Ok(minimums) => minimums
            .into_iter()
            .filter_map(|least| Some((Currency::parse(&least.currency)?, Minor(least.amount)))),
        Err(error) => return Some(Err(error)),
    };
    match bounds::currencies(&support.currencies) {
        Ok(currencies) => Some(Ok(Service {
            method,
            currencies: currencies?,
            minimums: minimums.collect(),
        })),
        Err(error) => Some(Err(error)),
    }
}

fn secret(secret: wit::SecretSpec) -> Result<SecretSpec, CallError> {
    Ok(SecretSpec {
        name: settings::name(secret.name)?,
        help: text::cut(&secret.help, HELP),
        required: secret.required,
        encoding: match secret.encoding {
            wit::Encoding::Text => Encoding::Text,
            wit::Encoding::Hex => Encoding::Hex,
            wit::Encoding::Base64 => Encoding::Base64,
        },
    })
}
