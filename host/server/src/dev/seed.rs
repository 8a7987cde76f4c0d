//! Creates the demo merchant, the demo reseller and the operator of `dev` if they do not exist.

use std::collections::BTreeMap;

use kassette_domain::audit::Audited;
use kassette_domain::delegation::DelegationDecision;
use kassette_domain::id::{EndpointId, KeyId, MerchantId, OperatorId, ResellerId};
use kassette_domain::key::{ApiKey, Environment, KeyOwner, Scope, TokenHash};
use kassette_domain::merchant::{Merchant, SetRate};
use kassette_domain::money::{Currency, Rate};
use kassette_domain::operator::{Operator, Role};
use kassette_domain::policy::Policy;
use kassette_domain::reseller::Reseller;
use kassette_domain::secret::Secret;
use kassette_domain::site::VerifiedDomain;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointCreator, EndpointSecrets, EventFilter};
use kassette_store::{Fault, Listed, NewMerchant, Paging, Store};

use super::credentials::{Credentials, DemoEndpoint, DemoReseller};
use crate::config::DEV_RATE_LIMIT;

/// The demo merchant's verified domain.
pub(super) const DOMAIN: &str = "shop.example";
const NAME: &str = "Demo shop";
/// Name of the demo reseller.
const RESELLER: &str = "Demo reseller";

/// US dollars per unit. Realistic round figures for development.
const RATES: [(Currency, &str); 21] = [
    (Currency::USD, "1"),
    (Currency::EUR, "1.08"),
    (Currency::GBP, "1.27"),
    (Currency::PHP, "0.0175"),
    (Currency::CAD, "0.73"),
    (Currency::AUD, "0.66"),
    (Currency::CHF, "1.12"),
    (Currency::SGD, "0.74"),
    (Currency::NZD, "0.61"),
    (Currency::INR, "0.012"),
    (Currency::AED, "0.2723"),
    (Currency::BRL, "0.18"),
    (Currency::MXN, "0.055"),
    (Currency::ZAR, "0.054"),
    (Currency::PLN, "0.25"),
    (Currency::SEK, "0.095"),
    (Currency::NOK, "0.093"),
    (Currency::DKK, "0.145"),
    (Currency::CZK, "0.043"),
    (Currency::RON, "0.217"),
    (Currency::HUF, "0.0027"),
];

/// Creates the merchant, its keys and the operator, if they do not exist. Returns the merchant.
pub(super) async fn seed(
    store: &dyn Store,
    credentials: &Credentials,
    now: Time,
) -> Result<Merchant, SeedError> {
    let merchant = match first_merchant(store).await? {
        Some(merchant) => merchant,
        None => {
            let new = NewMerchant {
                merchant: demo(now),
            };
            store
                .create_merchant(new, audited("merchant.create", "merchant/1"), now)
                .await?
        }
    };
    for (environment, key) in [
        (Environment::Test, &credentials.test_key),
        (Environment::Live, &credentials.live_key),
    ] {
        issue(
            store,
            KeyOwner::Merchant(merchant.id),
            environment,
            key,
            now,
        )
        .await?;
    }
    let hash = TokenHash::hash(credentials.operator_token.expose());
    if store.operator(hash).await?.is_none() {
        let id = OperatorId::from_bytes(random()?);
        let object = format!("operator/{id}");
        // If the credentials were lost, the operator with the lost token still has the first name.
        for name in ["dev".to_owned(), format!("dev-{id}")] {
            let operator = Operator {
                id,
                name,
                role: Role::Admin,
                hash,
                created_at: now,
                expires_at: None,
            };
            let line = audited("operator.create", &object);
            if store.create_operator(operator, line, now).await?.is_some() {
                break;
            }
        }
    }
    Ok(merchant)
}

/// Reason why the demo data could not be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SeedError {
    #[error(transparent)]
    Store(#[from] Fault),
    #[error("no randomness from the operating system: {0}")]
    Random(#[from] getrandom::Error),
    /// The file was edited by hand.
    #[error(
        "dev-credentials.json: webhook.endpoint_id is no id; remove the data directory to begin anew"
    )]
    NoEndpointId,
}

fn random() -> Result<[u8; 16], getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// The oldest merchant. The demo merchant is created before all others.
async fn first_merchant(store: &dyn Store) -> Result<Option<Merchant>, Fault> {
    if let Some(merchant) = store.merchant(MerchantId(1)).await? {
        return Ok(Some(merchant));
    }
    match store
        .merchants(Paging {
            limit: 1,
            cursor: None,
        })
        .await?
    {
        Listed::Page(page) => Ok(page.items.into_iter().next()),
        Listed::BadCursor => Ok(None),
    }
}

fn demo(now: Time) -> Merchant {
    let rates: BTreeMap<_, _> = RATES
        .into_iter()
        .filter_map(|(currency, rate)| {
            Some((
                currency,
                SetRate {
                    rate: Rate::parse(rate).ok()?,
                    at: now,
                },
            ))
        })
        .collect();
    Merchant {
        id: MerchantId(1),
        name: NAME.into(),
        live_approved: true,
        rates,
        policy: Policy {
            rate_limit: Some(DEV_RATE_LIMIT),
            ..Policy::default()
        },
        brand: Default::default(),
        domains: vec![VerifiedDomain {
            domain: DOMAIN.into(),
            include_subdomains: false,
        }],
        created_at: now,
    }
}

/// Creates the demo reseller with live rollout, keys and authorization for the demo merchant, if they do not
/// exist. Rights that an operator has revoked stay revoked.
pub(super) async fn reseller(
    store: &dyn Store,
    merchant: MerchantId,
    demo: &DemoReseller,
    now: Time,
) -> Result<Reseller, SeedError> {
    let reseller = match store.reseller(ResellerId(1)).await? {
        Some(reseller) => reseller,
        None => {
            let line = audited("reseller.create", "reseller/1");
            let made = store.create_reseller(RESELLER.into(), line, now).await?;
            let object = format!("reseller/{}", made.id);
            let line = audited("reseller.live_rollout", &object);
            let rolled_out = store.set_live_rollout(made.id, true, line, now).await?;
            rolled_out.unwrap_or(made)
        }
    };
    if store.delegation(reseller.id, merchant).await?.is_none() {
        let line = audited("delegation.authorize", "");
        store
            .set_delegation(
                reseller.id,
                merchant,
                DelegationDecision::AUTHORIZE,
                line,
                now,
            )
            .await?;
    }
    for (environment, key) in [
        (Environment::Test, &demo.test_key),
        (Environment::Live, &demo.live_key),
    ] {
        issue(
            store,
            KeyOwner::Reseller(reseller.id),
            environment,
            key,
            now,
        )
        .await?;
    }
    Ok(reseller)
}

async fn issue(
    store: &dyn Store,
    owner: KeyOwner,
    environment: Environment,
    key: &Secret,
    now: Time,
) -> Result<(), SeedError> {
    let hash = TokenHash::hash(key.expose());
    if store.key(hash).await?.is_some() {
        return Ok(());
    }
    let scopes = match owner {
        KeyOwner::Merchant(_) => Scope::MERCHANT.to_vec(),
        KeyOwner::Reseller(_) => Scope::RESELLER.to_vec(),
    };
    let id = KeyId::from_bytes(random()?);
    let key = ApiKey::new(id, key, owner, environment, scopes, now);
    let object = format!("key/{}", key.id);
    store
        .issue_key(key, audited("key.create", &object), now)
        .await?;
    Ok(())
}

/// Creates the demo merchant's webhook endpoint, or changes its URL to the receiver's. Returns its id.
pub(super) async fn endpoint(
    store: &dyn Store,
    merchant: MerchantId,
    demo: &DemoEndpoint,
    url: String,
    now: Time,
) -> Result<EndpointId, SeedError> {
    let id = demo.id().ok_or(SeedError::NoEndpointId)?;
    let object = format!("endpoint/{id}");
    match store.endpoint(id).await? {
        Some(existing) if existing.url == url => {}
        Some(existing) => {
            let moved = Endpoint {
                url,
                ..existing.clone()
            };
            let line = audited("endpoint.change", &object);
            store.replace_endpoint(existing, moved, line, now).await?;
        }
        None => {
            let endpoint = Endpoint {
                id,
                owner: KeyOwner::Merchant(merchant),
                environment: Environment::Test,
                url,
                event_types: EventFilter::All,
                enabled: true,
                created_at: now,
                created_by: EndpointCreator::System,
                off: Vec::new(),
            };
            let secrets = EndpointSecrets::new(demo.secret.clone());
            let line = audited("endpoint.create", &object);
            store.create_endpoint(endpoint, secrets, line, now).await?;
        }
    }
    Ok(id)
}

fn audited(action: &str, object: &str) -> Audited {
    Audited {
        actor: "dev".into(),
        reason: Some("demo data".into()),
        ..Audited::of_system(action, object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_domain::rates::RateTables;

    #[test]
    fn every_currency_has_a_usable_rate() {
        let merchant = demo(Time::default());
        for currency in Currency::ALL {
            let quote = merchant.usable_rate(currency, Time::default(), &RateTables::new());
            assert!(quote.is_some(), "{currency}");
        }
    }
}
