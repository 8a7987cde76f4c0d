//! `Payments` on PostgreSQL.

#![expect(unused_variables)]
use std::sync::Arc;
use std::time::Duration;
use kassette_domain::audit::*;
use kassette_domain::id::*;
use kassette_domain::key::*;
use kassette_domain::lifecycle::*;
use kassette_domain::payment::*;
use kassette_domain::provider::Report;
use kassette_domain::work::WorkItem;
use kassette_domain::time::Time;
use crate::*;
use crate::postgres::PostgresStore;

impl Payments for PostgresStore {
    fn replay(&self, request: Request) -> Answer<'_, Option<Created>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn create(
        &self,
        new: NewPayment,
        authority: Option<TokenHash>,
        now: Time,
    ) -> Answer<'_, Created> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn step(
        &self,
        about: About,
        step: Step,
        audited: Option<Audited>,
        now: Time,
    ) -> Answer<'_, Stepped> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn set_schedule(&self, schedule: QuerySchedule) { self.schedule.store(Arc::new(schedule)); }
    fn unknown_money(&self, found: NewWork, now: Time) -> Answer<'_, ()> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn keep_callback(
        &self,
        account: AccountId,
        reference: String,
        report: Option<Report>,
        now: Time,
    ) -> Answer<'_, KeptCallback> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn claim_due(&self, now: Time, lease: Duration, at_most: usize) -> Answer<'_, Vec<PaymentId>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn next_due(&self) -> Answer<'_, Option<Time>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn payment(&self, id: PaymentId) -> Answer<'_, Option<Arc<Payment>>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn aggregate(&self, about: About) -> Answer<'_, Option<PaymentAggregate>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn by_checkout(&self, token: TokenHash) -> Answer<'_, Option<PaymentAggregate>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn by_return(&self, token: TokenHash) -> Answer<'_, Option<(AttemptId, PaymentAggregate)>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn history(&self, id: PaymentId) -> Answer<'_, Option<History>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn payments(&self, filter: PaymentFilter, paging: Paging) -> Answer<'_, Listed<Payment>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn accounts_in_use(&self) -> Answer<'_, Vec<AccountId>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn work(&self, open: bool, paging: Paging) -> Answer<'_, Listed<WorkItem>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn work_done(&self, id: WorkId, audited: Audited, now: Time) -> Answer<'_, Option<WorkItem>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
}
