//! `Resellers` on sled.

pub(crate) mod checks;
pub(crate) mod consent_codes;
pub(crate) mod delegations;
pub(crate) mod invitations;
pub(crate) mod registry;

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

use crate::rows::source::RowSource as _;
use crate::rows::stored::PaymentRow;
use crate::rows::{records, schema};
use crate::sled::lists::Order;
use crate::sled::resellers::consent_codes::IssueConsentCode;
use crate::sled::resellers::delegations::SetDelegation;
use crate::sled::resellers::invitations::{AnswerInvitation, Invite};
use crate::sled::resellers::registry::{CreateReseller, SetLiveRollout};
use crate::sled::store::SledStore;
use crate::{Answered, InvitationStanding, Invited, Listed, Paging, Resellers, StoreFuture};

/// Bytes of a reseller's number.
const NUMBER: usize = 8;

impl Resellers for SledStore {
    fn create_reseller(
        &self,
        name: String,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Reseller> {
        self.operate(CreateReseller { name, audited, now })
    }

    fn reseller(&self, id: ResellerId) -> StoreFuture<'_, Option<Reseller>> {
        self.read(move |view| registry::load(view, id))
    }

    fn resellers(&self, paging: Paging) -> StoreFuture<'_, Listed<Reseller>> {
        let (prefix, order) = (schema::resellers::RESELLERS, Order::Backwards);
        self.list(prefix, NUMBER, order, &paging, |view, key, row| {
            records::decode(view.sealer(), key, row).map(Some)
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
        Box::pin(async move {
            let invite = Invite::prepare(&self.secrets, new, authority, now)?;
            self.operate(invite).await
        })
    }

    fn invitation(
        &self,
        token: TokenHash,
        now: Time,
    ) -> StoreFuture<'_, Option<InvitationStanding>> {
        let secrets = Arc::clone(&self.secrets);
        self.read(move |view| invitations::by_token(view, &secrets.sealer, token, now))
    }

    fn accept_invitation(
        &self,
        token: TokenHash,
        presented: Secret,
        now: Time,
    ) -> StoreFuture<'_, Answered> {
        self.operate(AnswerInvitation {
            token,
            code: Some(presented),
            now,
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn decline_invitation(&self, token: TokenHash, now: Time) -> StoreFuture<'_, Answered> {
        self.operate(AnswerInvitation {
            token,
            code: None,
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
        self.read(move |view| delegations::load(view, reseller, merchant))
    }

    fn delegated_merchants(
        &self,
        reseller: ResellerId,
        paging: Paging,
        now: Time,
    ) -> StoreFuture<'_, Listed<DelegatedMerchant>> {
        let prefix = schema::resellers::relations_of(reseller);
        let tail = schema::resellers::RELATION_TAIL;
        self.list(&prefix, tail, Order::Keys, &paging, move |view, key, _| {
            delegations::shown(view, reseller, key, now)
        })
    }

    fn reseller_payments(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        environment: Environment,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Payment>> {
        let prefix = schema::resellers::payments_of(reseller, merchant, environment);
        let tail = schema::resellers::PAYMENT_TAIL;
        let secrets = Arc::clone(&self.secrets);
        self.list(&prefix, tail, Order::Keys, &paging, move |view, key, _| {
            let id = schema::resellers::listed_payment(key)
                .ok_or_else(|| records::damaged(key, "it names no payment"))?;
            let row = PaymentRow::expect(view, id)?;
            row.open(&secrets.sealer).map(|(payment, _)| Some(payment))
        })
    }
}
