//! `Resellers` on PostgreSQL.

mod consent_codes;
mod delegations;
mod invitations;
mod registry;

pub(crate) use delegations::{bars, bars_creation, bars_refund};
pub(crate) use registry::load;

use std::sync::Arc;

use kassette_domain::audit::Audited;
use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::{DelegatedMerchant, Delegation, DelegationDecision};
use kassette_domain::id::{MerchantId, ResellerId};
use kassette_domain::invitation::NewInvitation;
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::payment::Payment;
use kassette_domain::reseller::Reseller;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;

use crate::postgres::columns::reseller_id;
use crate::postgres::resellers::consent_codes::IssueConsentCode;
use crate::postgres::resellers::delegations::SetDelegation;
use crate::postgres::resellers::invitations::{Accept, Decline, Invite};
use crate::postgres::resellers::registry::{CreateReseller, SetLiveRollout};
use crate::postgres::{PostgresStore, number};
use crate::{Answered, InvitationStanding, Invited, Listed, Paging, Resellers, StoreFuture};

impl Resellers for PostgresStore {
    fn create_reseller(
        &self,
        name: String,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Reseller> {
        self.operate(CreateReseller { name, audited, now })
    }

    fn reseller(&self, id: ResellerId) -> StoreFuture<'_, Option<Reseller>> {
        Box::pin(async move {
            let found = self
                .requests
                .read_one(registry::ONE, &[&number(id.0)])
                .await?;
            found
                .map(|found| registry::decode(&self.secrets.sealer, id, found.get(0)))
                .transpose()
        })
    }

    fn resellers(&self, paging: Paging) -> StoreFuture<'_, Listed<Reseller>> {
        Box::pin(async move {
            let sql = "/* resellers: list */ SELECT id, body FROM reseller WHERE id < $1
                ORDER BY id DESC LIMIT $2";
            self.list_by_number(b"reseller/", paging, sql, |sealer, row| {
                registry::decode(sealer, reseller_id(row, 0), row.get(1))
            })
            .await
        })
    }

    fn set_live_rollout(
        &self,
        id: ResellerId,
        enabled: bool,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Reseller>> {
        self.operate(SetLiveRollout {
            id,
            enabled,
            audited,
            now,
        })
    }

    fn invite(
        &self,
        new: NewInvitation,
        authority: Option<TokenHash>,
        now: Time,
    ) -> StoreFuture<'_, Invited> {
        self.operate(Invite {
            new,
            authority,
            now,
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn invitation(
        &self,
        token: TokenHash,
        now: Time,
    ) -> StoreFuture<'_, Option<InvitationStanding>> {
        Box::pin(self.read_invitation(token, now))
    }

    fn accept_invitation(
        &self,
        token: TokenHash,
        presented: Secret,
        now: Time,
    ) -> StoreFuture<'_, Answered> {
        self.operate(Accept {
            token,
            presented,
            now,
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn decline_invitation(&self, token: TokenHash, now: Time) -> StoreFuture<'_, Answered> {
        self.operate(Decline {
            token,
            now,
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn issue_consent_code(
        &self,
        code: ConsentCode,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, bool> {
        self.operate(IssueConsentCode { code, audited, now })
    }

    fn set_delegation(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        decision: DelegationDecision,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Delegation>> {
        self.operate(SetDelegation {
            reseller,
            merchant,
            decision,
            audited,
            now,
        })
    }

    fn delegation(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
    ) -> StoreFuture<'_, Option<Delegation>> {
        Box::pin(async move {
            let between = [&number(reseller.0) as _, &number(merchant.0) as _];
            let found = self.requests.read_one(delegations::ONE, &between).await?;
            Ok(found
                .map(|found| delegations::joined(&self.secrets.sealer, &found, 0))
                .transpose()?
                .flatten())
        })
    }

    fn delegated_merchants(
        &self,
        reseller: ResellerId,
        paging: Paging,
        now: Time,
    ) -> StoreFuture<'_, Listed<DelegatedMerchant>> {
        Box::pin(self.list_merchants(reseller, paging, now))
    }

    fn reseller_payments(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        environment: Environment,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Payment>> {
        Box::pin(self.payments_of_reseller(reseller, merchant, environment, paging))
    }
}
