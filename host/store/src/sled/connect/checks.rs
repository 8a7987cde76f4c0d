//! Checks of the rows of the connect exchange and of their consistency.

use kassette_domain::connect::{ConnectCode, ShopConnection};
use kassette_domain::key::{KeyOwner, TokenHash};
use kassette_engine::IVec;

use crate::Fault;
use crate::rows::{records, schema};
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Derived, Kind, empty, plain};

/// The kinds of rows of the connect exchange.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(80, "connect-code", schema::connect::CODES, code),
    Kind::new(81, "connect-code-end", schema::connect::CODE_ENDS, empty).following(Derived::Key),
    Kind::new(
        82,
        "connect-code-by-merchant",
        schema::connect::CODES_OF,
        plain::<TokenHash>,
    )
    .following(Derived::Row),
    Kind::new(83, "connection", schema::connect::CONNECTIONS, connection),
];

/// A connect code.
fn code(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let code: ConnectCode = records::decode(&verifier.secrets.sealer, key, row)?;
    if key != schema::connect::code(code.hash) {
        return Err(records::damaged(key, "it is another code's"));
    }
    verifier.promise(schema::connect::end_of(&code), &[])?;
    verifier.promise_value(schema::connect::code_of(&code), &code.hash)?;
    verifier.needs_owner(key, KeyOwner::Merchant(code.merchant))?;
    if code.redeemed_at.is_some() {
        let made = schema::connect::connection(code.merchant, code.environment, &code.origin);
        verifier.needs(key, &made, "what it was redeemed for is missing")?;
    }
    Ok(())
}

/// Checks the result of an exchange. Its key and endpoint may have been removed since.
fn connection(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let connection: ShopConnection = records::decode(&verifier.secrets.sealer, key, row)?;
    let merchant = connection.merchant;
    if key != schema::connect::connection(merchant, connection.environment, &connection.origin) {
        return Err(records::damaged(key, "it is another connection's"));
    }
    let made = schema::api_key_index(connection.key);
    verifier.needs(key, &made, "the key that was made is missing")?;
    verifier.needs_owner(key, KeyOwner::Merchant(merchant))
}
