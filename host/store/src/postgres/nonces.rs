//! `Nonces` on PostgreSQL.

#![expect(unused_variables)]
use kassette_domain::time::Time;
use crate::*;
use crate::postgres::PostgresStore;

impl Nonces for PostgresStore {
    fn reserve_nonce(&self, reservation: Reservation, now: Time) -> Answer<'_, Reserved> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
}
