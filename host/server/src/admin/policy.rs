//! Merchant policies as JSON: strict parsing, and output in the same form.

use std::collections::{BTreeMap, BTreeSet};

use kassette_domain::id::AccountId;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Margin, Minor};
use kassette_domain::policy::{MethodPolicy, Policy, RateLimit};
use kassette_gateway::Gateway;
use serde_json::json;

use crate::web::json::{Fields, Invalid, Value, Wrong, text};
use crate::web::text::{switch, whole};

/// Maximum rate limit of a policy, in requests per second.
pub(super) const MAX_RATE: u64 = 1_000_000;
/// Maximum age of rates in seconds: ten years.
pub(super) const MAX_AGE: u64 = 10 * 366 * 24 * 3600;

/// Accounts and methods that a policy may name.
pub(super) trait Named {
    /// Whether an account is configured.
    fn account(&self, id: &AccountId) -> bool;
    /// Whether payments may name a method.
    fn method(&self, method: MethodId) -> bool;
}

impl Named for Gateway {
    fn account(&self, id: &AccountId) -> bool {
        self.settings().accounts.contains_key(id)
    }

    fn method(&self, method: MethodId) -> bool {
        self.knows(method)
    }
}

/// Merges a policy into `old`: absent fields are unchanged, `null` resets a field (RFC 7396). `default_rate`
/// applies if the policy has no rate limit; `existing` contains the accounts and methods that it may name.
pub(super) fn merge(
    value: Value,
    old: &Policy,
    default_rate: RateLimit,
    existing: &dyn Named,
) -> Result<Policy, Wrong> {
    let object = object(value)?;
    let names: BTreeSet<String> = object.keys().cloned().collect();
    read(object, &names, old, default_rate, existing).map_err(Wrong::new)
}

/// The same for parsed fields; `names` are the patch's fields.
fn read(
    object: BTreeMap<String, Value>,
    names: &BTreeSet<String>,
    old: &Policy,
    default_rate: RateLimit,
    existing: &dyn Named,
) -> Result<Policy, Invalid> {
    let given = |name: &str| names.contains(name);
    let mut fields = Fields::read(Value::Object(object))?;
    let mut policy = old.clone();
    if given("methods") {
        let changed = fields.optional("methods", |value| methods(value, &old.methods, existing))?;
        policy.methods = changed.unwrap_or_default();
    }
    if given("provider_choice") {
        policy.provider_choice = fields.optional("provider_choice", switch)?.unwrap_or(false);
    }
    if given("max_usd") {
        policy.max_usd = fields.optional("max_usd", text(Minor::parse_positive))?;
    }
    if given("review_over_usd") {
        policy.review_over_usd = fields.optional("review_over_usd", text(Minor::parse))?;
    }
    if given("fx_max_age_seconds") {
        policy.fx_max_age_seconds = fields.optional("fx_max_age_seconds", whole(1, MAX_AGE))?;
    }
    if given("fx_margin") {
        policy.fx_margin = fields.optional("fx_margin", text(Margin::parse))?;
    }
    if given("platform_fee_refundable") {
        let refundable = fields.optional("platform_fee_refundable", switch)?;
        policy.platform_fee_refundable = refundable.unwrap_or(false);
    }
    if given("rate_limit") {
        let before = old.rate_limit.unwrap_or(default_rate);
        policy.rate_limit = fields.optional("rate_limit", |value| rate(value, before))?;
    }
    fields.finish()?;
    Ok(policy)
}

fn object(value: Value) -> Result<BTreeMap<String, Value>, Wrong> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Wrong::new("must be an object")),
    }
}

fn methods(
    value: Value,
    old: &BTreeMap<MethodId, MethodPolicy>,
    existing: &dyn Named,
) -> Result<BTreeMap<MethodId, MethodPolicy>, Wrong> {
    let mut methods = old.clone();
    for (name, value) in object(value)? {
        let method = MethodId::parse(&name);
        let has = |method: &MethodId| old.contains_key(method) || existing.method(*method);
        let method = method.filter(has).ok_or_else(|| {
            Wrong::new(format!(
                "{} is no payment method",
                crate::web::json::echo(&name)
            ))
        })?;
        if value == Value::Null {
            methods.remove(&method);
            continue;
        }
        let fresh = MethodPolicy {
            enabled: true,
            providers: None,
            min: None,
            max: None,
        };
        let before = methods.get(&method).cloned().unwrap_or(fresh);
        let read = one_method(object(value)?, before, existing)
            .map_err(|wrong| Wrong::new(format!("{method}: {wrong}")))?;
        methods.insert(method, read);
    }
    Ok(methods)
}

fn one_method(
    object: BTreeMap<String, Value>,
    mut policy: MethodPolicy,
    existing: &dyn Named,
) -> Result<MethodPolicy, Invalid> {
    let given = |name: &str| object.contains_key(name);
    let (enabled, providers, min, max) = (
        given("enabled"),
        given("providers"),
        given("min"),
        given("max"),
    );
    let mut fields = Fields::read(Value::Object(object))?;
    if enabled {
        policy.enabled = fields.required("enabled", switch)?;
    }
    if providers {
        policy.providers = fields.optional("providers", |value| accounts(value, existing))?;
    }
    if min {
        policy.min = fields.optional("min", text(Minor::parse))?;
    }
    if max {
        policy.max = fields.optional("max", text(Minor::parse))?;
    }
    fields.finish()?;
    if policy
        .min
        .zip(policy.max)
        .is_some_and(|(least, most)| least > most)
    {
        return Err(Invalid::new("min", "is above max"));
    }
    Ok(policy)
}

fn accounts(value: Value, existing: &dyn Named) -> Result<Vec<AccountId>, Wrong> {
    let Value::List(list) = value else {
        return Err(Wrong::new("must be a list of provider ids"));
    };
    let mut accounts = Vec::with_capacity(list.len());
    for value in list {
        let Value::Text(id) = value else {
            return Err(Wrong::new("must be a list of provider ids"));
        };
        let account = AccountId::parse(&id).ok();
        let account = account.filter(|id| existing.account(id)).ok_or_else(|| {
            Wrong::new(format!(
                "{} is no configured account",
                crate::web::json::echo(&id)
            ))
        })?;
        if accounts.contains(&account) {
            return Err(Wrong::new(format!("{account} is named twice")));
        }
        accounts.push(account);
    }
    Ok(accounts)
}

/// Merges a rate limit into the current one.
fn rate(value: Value, old: RateLimit) -> Result<RateLimit, Wrong> {
    let read = |value| -> Result<RateLimit, Invalid> {
        let mut fields = Fields::read(Value::Object(value))?;
        let per_second = fields.optional("per_second", whole(1, MAX_RATE))?;
        let burst = fields.optional("burst", whole(1, MAX_RATE))?;
        fields.finish()?;
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(RateLimit {
            per_second: per_second.map_or(old.per_second, small),
            burst: burst.map_or(old.burst, small),
        })
    };
    read(object(value)?).map_err(Wrong::new)
}

/// A policy in the form in which it is parsed; fields that depend on the configuration have their current
/// values.
pub(super) fn view(policy: &Policy, default_rate: RateLimit) -> serde_json::Value {
    let amount = |amount: Option<Minor>| amount.map(|amount| amount.to_string());
    let methods: serde_json::Map<_, _> = policy
        .methods
        .iter()
        .map(|(method, policy)| {
            let view = json!({
                "enabled": policy.enabled,
                "providers": policy.providers,
                "min": amount(policy.min),
                "max": amount(policy.max),
            });
            (method.to_string(), view)
        })
        .collect();
    json!({
        "methods": methods,
        "provider_choice": policy.provider_choice,
        "max_usd": amount(policy.max_usd),
        "review_over_usd": amount(policy.review_over_usd),
        "fx_max_age_seconds": policy.fx_max_age_seconds,
        "fx_margin": policy.fx_margin.map(|margin| margin.to_string()),
        "platform_fee_refundable": policy.platform_fee_refundable,
        "rate_limit": policy.rate_limit.unwrap_or(default_rate),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(body: &str, old: &Policy) -> Result<Policy, Wrong> {
        let value = crate::web::json::parse(body.as_bytes()).unwrap();
        merge(value, old, RateLimit::default(), &Few)
    }

    struct Few;

    impl Named for Few {
        fn account(&self, id: &AccountId) -> bool {
            id.as_str() == "sandbox-test"
        }

        fn method(&self, method: MethodId) -> bool {
            method.is_specified() || method.as_str() == "blik"
        }
    }

    #[test]
    fn what_is_absent_stays_and_null_resets() {
        let old = merged(
            r#"{"max_usd":"100.00","provider_choice":true,"methods":{"ideal":{"enabled":false,"min":"1.00"}}}"#,
            &Policy::default(),
        )
        .unwrap();
        let new = merged(
            r#"{"max_usd":null,"methods":{"ideal":{"max":"9.00"}}}"#,
            &old,
        )
        .unwrap();
        assert_eq!(new.max_usd, None);
        assert!(new.provider_choice);
        let ideal = &new.methods[&MethodId::Ideal];
        assert!(!ideal.enabled);
        assert_eq!((ideal.min, ideal.max), (Some(Minor(100)), Some(Minor(900))));
        let gone = merged(r#"{"methods":{"ideal":null}}"#, &new).unwrap();
        assert!(gone.methods.is_empty());
    }

    #[test]
    fn half_a_rate_limit_changes_that_half() {
        let first = merged(r#"{"rate_limit":{"per_second":7}}"#, &Policy::default()).unwrap();
        assert_eq!(
            first.rate_limit,
            Some(RateLimit {
                per_second: 7,
                burst: 100
            })
        );
        let second = merged(r#"{"rate_limit":{"burst":9}}"#, &first).unwrap();
        assert_eq!(
            second.rate_limit,
            Some(RateLimit {
                per_second: 7,
                burst: 9
            })
        );
        let third = merged(r#"{"rate_limit":null}"#, &second).unwrap();
        assert_eq!(third.rate_limit, None);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for body in [
            r#"{"wallet":"x"}"#,
            r#"{"methods":{"cash":{"enabled":true}}}"#,
            r#"{"methods":{"ideal":{"providers":["nobody"]}}}"#,
            r#"{"methods":{"ideal":{"providers":["sandbox-test","sandbox-test"]}}}"#,
            r#"{"methods":{"ideal":{"min":"2.00","max":"1.00"}}}"#,
            r#"{"methods":{"ideal":{"enabled":null}}}"#,
            r#"{"max_usd":100}"#,
            r#"{"max_usd":"0.00"}"#,
            r#"{"rate_limit":{"per_second":0,"burst":1}}"#,
            r#"{"fx_max_age_seconds":0}"#,
            r#"{"fx_margin":"1"}"#,
            r#"{"fx_margin":0.01}"#,
            r#"{"fx_margin":"-0.01"}"#,
            r#"{"provider_choice":"yes"}"#,
            r#"{"platform_fee_refundable":1}"#,
            "[]",
        ] {
            assert!(merged(body, &Policy::default()).is_err(), "{body}");
        }
    }
}
