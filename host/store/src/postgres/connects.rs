//! `Connects` on PostgreSQL.

#![expect(unused_variables)]
use kassette_domain::audit::Audited;
use kassette_domain::connect::*;
use kassette_domain::id::*;
use kassette_domain::key::*;
use kassette_domain::time::Time;
use crate::*;
use crate::postgres::PostgresStore;

impl Connects for PostgresStore {
    fn issue_connect_code(
        &self,
        code: ConnectCode,
        audited: Audited,
        now: Time,
    ) -> Answer<'_, CodeIssued> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn connect_code(&self, hash: TokenHash) -> Answer<'_, Option<ConnectCode>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn connect_codes(
        &self,
        merchant: MerchantId,
        paging: Paging,
    ) -> Answer<'_, Listed<ConnectCode>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn use_connect_code(&self, hash: TokenHash, used: CodeUse, now: Time) -> Answer<'_, CodeUsed> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn exchange(&self, exchange: Exchange, audited: Audited, now: Time) -> Answer<'_, Exchanged> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
}
