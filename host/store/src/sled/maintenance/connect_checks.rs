//! What must hold of the rows of the connect exchange, and of how they fit each other.

use kassette_domain::connect::{ConnectCode, Connection};
use kassette_engine::IVec;

use super::judge::Judge;
use crate::Fault;
use crate::sled::{records, schema};

/// A connect code.
pub(super) fn code(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
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
pub(super) fn connection(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
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
