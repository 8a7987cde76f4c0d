//! Reading columns of rows.

use kassette_domain::id::{MerchantId, PaymentId, ResellerId};
use kassette_domain::key::Environment;
use tokio_postgres::Row;
use uuid::Uuid;

/// An id from a UUID column.
pub(crate) fn id<T>(row: &Row, at: usize, of: fn([u8; 16]) -> T) -> T {
    of(row.get::<_, Uuid>(at).into_bytes())
}

pub(crate) fn payment_id(row: &Row, at: usize) -> PaymentId {
    id(row, at, PaymentId::from_bytes)
}

pub(crate) fn merchant_id(row: &Row, at: usize) -> MerchantId {
    MerchantId(row.get::<_, i64>(at).unsigned_abs())
}

pub(crate) fn reseller_id(row: &Row, at: usize) -> ResellerId {
    ResellerId(row.get::<_, i64>(at).unsigned_abs())
}

pub(crate) fn environment(row: &Row, at: usize) -> Environment {
    match row.get::<_, i16>(at) {
        0 => Environment::Test,
        _ => Environment::Live,
    }
}
