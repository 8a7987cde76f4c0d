//! `Resellers` on PostgreSQL.

#![expect(unused_variables)]
use kassette_domain::audit::Audited;
use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::*;
use kassette_domain::id::*;
use kassette_domain::invitation::NewInvitation;
use kassette_domain::key::*;
use kassette_domain::payment::Payment;
use kassette_domain::reseller::*;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use crate::*;
use crate::postgres::PostgresStore;

impl Resellers for PostgresStore {
    fn create_reseller(&self, name: String, audited: Audited, now: Time) -> Answer<'_, Reseller> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn reseller(&self, id: ResellerId) -> Answer<'_, Option<Reseller>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn resellers(&self, paging: Paging) -> Answer<'_, Listed<Reseller>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn set_live_rollout(
        &self,
        id: ResellerId,
        enabled: bool,
        audited: Audited,
        now: Time,
    ) -> Answer<'_, Option<Reseller>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn invite(
        &self,
        new: NewInvitation,
        authority: Option<TokenHash>,
        now: Time,
    ) -> Answer<'_, Invited> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn invitation(&self, token: TokenHash, now: Time) -> Answer<'_, Option<InvitationStanding>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn accept_invitation(
        &self,
        token: TokenHash,
        presented: Secret,
        now: Time,
    ) -> Answer<'_, Answered> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn decline_invitation(&self, token: TokenHash, now: Time) -> Answer<'_, Answered> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn issue_consent_code(
        &self,
        code: ConsentCode,
        audited: Audited,
        now: Time,
    ) -> Answer<'_, bool> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn set_delegation(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        authorized: bool,
        audited: Audited,
        now: Time,
    ) -> Answer<'_, Option<Delegation>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn delegation(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
    ) -> Answer<'_, Option<Delegation>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn delegated_merchants(
        &self,
        reseller: ResellerId,
        paging: Paging,
        now: Time,
    ) -> Answer<'_, Listed<DelegatedMerchant>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
    fn reseller_payments(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        environment: Environment,
        paging: Paging,
    ) -> Answer<'_, Listed<Payment>> { Box::pin(async { Err(Fault::Unavailable("not there".into())) }) }
}
