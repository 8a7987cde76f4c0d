//! `Upkeep` on PostgreSQL.

#![expect(unused_variables)]
use kassette_domain::audit::Chain;
use kassette_domain::time::Time;
use crate::*;
use crate::postgres::PostgresStore;

impl Upkeep for PostgresStore {
    fn backup(&self, now: Time) -> Answer<'_, Option<Pieces>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn forget(&self, retention: Retention, now: Time) -> Answer<'_, Forgotten> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn verify_audit(&self) -> Answer<'_, Chain> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
}
