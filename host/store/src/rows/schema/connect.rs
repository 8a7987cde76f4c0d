//! Keys of the rows of the connect exchange.
//!
//! | prefix | key | value |
//! |---|---|---|
//! | `cxc/` | hash of the code | a connect code |
//! | `cxe/` | when it ends, its hash | – |
//! | `cxm/` | merchant, newest first, its id | its hash |
//! | `cxn/` | merchant, environment, origin | result of the last exchange |

use kassette_domain::connect::{ConnectCode, SiteOrigin};
use kassette_domain::id::MerchantId;
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::time::Time;

use crate::rows::schema::{Key, key, newest_first};

pub(crate) const CODES: &[u8] = b"cxc/";
pub(crate) const CODE_ENDS: &[u8] = b"cxe/";
pub(crate) const CODES_OF: &[u8] = b"cxm/";
pub(crate) const CONNECTIONS: &[u8] = b"cxn/";

pub(crate) fn code(hash: TokenHash) -> Key {
    key(&[CODES, &hash.0])
}

pub(crate) fn end_of(code: &ConnectCode) -> Key {
    let ends = code.expires_at.as_millis().to_be_bytes();
    key(&[CODE_ENDS, &ends, &code.hash.0])
}

/// Reads a key of `cxe/`.
pub(crate) fn read_end(end: &[u8]) -> Option<(Time, TokenHash)> {
    let (ends, hash) = end.strip_prefix(CODE_ENDS)?.split_first_chunk()?;
    let ends = Time::from_millis(u64::from_be_bytes(*ends));
    Some((ends, TokenHash(hash.try_into().ok()?)))
}

pub(crate) fn codes_of(merchant: MerchantId) -> Key {
    key(&[CODES_OF, &merchant.0.to_be_bytes()])
}

pub(crate) fn code_of(code: &ConnectCode) -> Key {
    let id = code.id.as_bytes();
    key(&[&codes_of(code.merchant), &newest_first(code.created_at), id])
}

/// The origin is the last part, so that no key is a prefix of another's.
pub(crate) fn connection(
    merchant: MerchantId,
    environment: Environment,
    origin: &SiteOrigin,
) -> Key {
    let world: &[u8] = match environment {
        Environment::Test => b"t",
        Environment::Live => b"l",
    };
    let number = merchant.0.to_be_bytes();
    key(&[CONNECTIONS, &number, world, origin.as_str().as_bytes()])
}
