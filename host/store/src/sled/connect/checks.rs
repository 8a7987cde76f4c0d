//! What must hold of the rows of the connect exchange, and of how they fit each other.

use kassette_domain::connect::{ConnectCode, Connection};
use kassette_domain::key::TokenHash;
use kassette_engine::IVec;

use crate::Fault;
use crate::rows::{records, schema};
use crate::sled::judge::Judge;
use crate::sled::judge::kinds::{Derived, Kind, empty, plain};

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
fn code(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let code: ConnectCode = records::decode(key, row)?;
    if key != schema::connect::code(code.hash) {
        return Err(records::damaged(key, "it is another code's"));
    }
    judge.promise(schema::connect::end_of(&code), &[])?;
    let by_merchant = schema::connect::code_of(&code);
    let hash = records::encode(&by_merchant, &code.hash)?;
    judge.promise(by_merchant, &hash)?;
    if judge
        .view()
        .get(&schema::merchant(code.merchant))?
        .is_none()
    {
        judge.find(key, "the merchant whose it is is missing");
    }
    let made = schema::connect::connection(code.merchant, code.environment, &code.origin);
    if code.redeemed_at.is_some() && judge.view().get(&made)?.is_none() {
        judge.find(key, "what it was redeemed for is missing");
    }
    Ok(())
}

/// What an exchange made. Its key and endpoint may have been removed since.
fn connection(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let connection: Connection = records::decode(key, row)?;
    let merchant = connection.merchant;
    if key != schema::connect::connection(merchant, connection.environment, &connection.origin) {
        return Err(records::damaged(key, "it is another connection's"));
    }
    if judge
        .view()
        .get(&schema::api_key_index(connection.key))?
        .is_none()
    {
        judge.find(key, "the key that was made is missing");
    }
    if judge.view().get(&schema::merchant(merchant))?.is_none() {
        judge.find(key, "the merchant whose it is is missing");
    }
    Ok(())
}
