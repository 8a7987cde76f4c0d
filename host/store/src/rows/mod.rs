//! How records are written, whatever stores them: where a row stands, its form, what of it is sealed.
//!
//! | file | holds |
//! |---|---|
//! | `schema` | the keys of rows, a file for each kind of record that has many |
//! | `records` | a row's version, check sum and payload |
//! | `seal` | the master key, and what is sealed and marked under it |
//! | `stored` | payments and attempts as rows, and as other formats wrote them |
//! | `nonces` | what is kept of a nonce |
//! | `routing` | batches of the routing log |
//! | `trials` | what is counted of versions on trial |
//! | `merchants`, `endpoints`, `invitations` | those records as rows |
//! | `wants` | which events an endpoint wants |
//! | `source` | where rows are read and written |

pub(crate) mod audit;
pub(crate) mod endpoints;
pub(crate) mod invitations;
pub(crate) mod merchants;
pub(crate) mod nonces;
pub(crate) mod records;
pub(crate) mod routing;
pub(crate) mod schema;
pub(crate) mod seal;
pub(crate) mod source;
pub(crate) mod stored;
pub(crate) mod trials;
pub(crate) mod wants;
