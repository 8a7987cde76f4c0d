//! Encoding of records, the same in both stores: keys of rows, their format, and their sealed parts.
//!
//! | module | contents |
//! |---|---|
//! | `schema` | the keys of rows, a file for each kind of record that has many |
//! | `records` | a row's version, MAC and payload |
//! | `seal` | the master key, and what is sealed and marked under it |
//! | `stored` | payments and attempts as rows |
//! | `nonces` | what is kept of a nonce |
//! | `notes` | the merchant's notes on a payment |
//! | `routing` | batches of the routing log |
//! | `trials` | counts of versions on trial |
//! | `merchants`, `endpoints`, `invitations` | rows of these records |
//! | `wants` | the events that an endpoint wants |
//! | `source` | access to rows |

use kassette_domain::id::AccountId;

use crate::Fault;

pub(crate) mod audit;
pub(crate) mod endpoints;
pub(crate) mod invitations;
pub(crate) mod merchants;
pub(crate) mod movements;
pub(crate) mod nonces;
pub(crate) mod notes;
pub(crate) mod records;
pub(crate) mod routing;
pub(crate) mod schema;
pub(crate) mod seal;
pub(crate) mod source;
pub(crate) mod stored;
pub(crate) mod trials;
pub(crate) mod wants;

/// Reads an account's switch. An inauthentic one counts as off, so that nothing is started at the account.
pub(crate) fn switch(
    sealer: &seal::Sealer,
    key: &[u8],
    row: &[u8],
    account: AccountId,
) -> Result<(AccountId, bool), Fault> {
    let read = records::readable(records::decode(sealer, key, row))?;
    Ok(read.unwrap_or((account, false)))
}
