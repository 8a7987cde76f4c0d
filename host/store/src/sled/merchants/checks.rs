//! Checks of merchants, keys, operators and account switches, and of their consistency.

use kassette_domain::id::AccountId;
use kassette_domain::key::{ApiKey, TokenHash};
use kassette_domain::operator::Operator;
use kassette_domain::time::Time;
use kassette_engine::IVec;

use crate::Fault;
use crate::rows::{merchants, records, schema};
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Derived, Kind, plain};

/// The kinds of rows of merchants.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(12, "api-key", b"key/", api_key),
    Kind::new(13, "api-key-by-id", b"kid/", plain::<TokenHash>).following(Derived::Row),
    Kind::new(14, "api-key-by-owner", b"kow/", plain::<TokenHash>).following(Derived::Row),
    Kind::new(15, "api-key-seen", b"ksn/", api_key_seen),
    Kind::new(17, "merchant", b"mer/", merchant),
    Kind::new(23, "merchant-count", schema::MERCHANT_COUNT, plain::<u64>),
    Kind::new(27, "operator-by-id", b"oid/", plain::<TokenHash>).following(Derived::Row),
    Kind::new(28, "operator", b"opr/", operator),
    Kind::new(29, "operator-by-time", b"otm/", plain::<TokenHash>).following(Derived::Row),
    Kind::new(37, "account-switch", schema::SWITCHES, switch),
];

fn merchant(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let merchant = merchants::decode(&verifier.secrets.sealer, key, row)?;
    if key != schema::merchant(merchant.id) {
        verifier.find(key, "it is another merchant's");
    }
    verifier.find_if(key, verifier.newest.merchant(&merchant));
    Ok(())
}

fn api_key(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let api_key: ApiKey = records::decode(&verifier.secrets.sealer, key, row)?;
    if key != schema::api_key(api_key.hash) {
        return Err(records::damaged(key, "it is another key's"));
    }
    for index in [
        schema::api_key_index(api_key.id),
        schema::api_key_of(api_key.owner, api_key.created_at, api_key.id),
    ] {
        verifier.promise_value(index, &api_key.hash)?;
    }
    verifier.find_if(key, verifier.newest.key(&api_key));
    verifier.needs_owner(key, api_key.owner)
}

/// Checks the last-used time of an API key.
fn api_key_seen(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    records::decode::<Time>(&verifier.secrets.sealer, key, row)?;
    let hash = key.last_chunk().copied().map(TokenHash);
    let known = match hash {
        Some(hash) => verifier.view().get(&schema::api_key(hash))?.is_some(),
        None => false,
    };
    if !known {
        verifier.find(key, "the key that was seen is missing");
    }
    Ok(())
}

fn operator(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let operator: Operator = records::decode(&verifier.secrets.sealer, key, row)?;
    if key != schema::operator(operator.hash) {
        return Err(records::damaged(key, "it is another operator's"));
    }
    for index in [
        schema::operator_index(operator.id),
        schema::operator_by_time(operator.created_at, operator.id),
    ] {
        verifier.promise_value(index, &operator.hash)?;
    }
    let found = verifier.newest.operator(&operator);
    verifier.find_if(key, found);
    Ok(())
}

/// An account's switch.
fn switch(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let (account, enabled): (AccountId, bool) =
        records::decode(&verifier.secrets.sealer, key, row)?;
    if key != schema::switch(&account) {
        verifier.find(key, "it is another account's");
    }
    let found = verifier.newest.switch(&account, enabled);
    verifier.find_if(key, found);
    Ok(())
}
