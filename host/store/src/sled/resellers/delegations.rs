//! Merchants' delegations to resellers, and the permissions that follow from them.

use kassette_domain::audit::Audited;
use kassette_domain::delegation::{self, DelegatedMerchant, Delegation, DelegationDecision};
use kassette_domain::id::{InvitationId, MerchantId, ResellerId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::Step;
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::reseller::{ResellerNotAllowed, may_process, may_refund, may_work};
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation};

use crate::Fault;
use crate::rows::invitations;
use crate::rows::schema::resellers::Relation;
use crate::rows::schema::{self, Key};
use crate::rows::source::{RowSource, Save as _};
use crate::rows::{merchants, records};
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};
use crate::sled::resellers::registry;

/// A delegation.
pub(crate) fn load(
    source: &impl RowSource,
    reseller: ResellerId,
    merchant: MerchantId,
) -> Result<Option<Delegation>, Fault> {
    source.load(&schema::resellers::delegation(reseller, merchant))
}

/// Reason why a reseller may not act for a merchant now, checked in the transaction of the action.
pub(crate) fn bars(
    rows: &Rows<'_>,
    reseller: ResellerId,
    merchant: MerchantId,
    environment: Environment,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    let Some(who) = registry::load(rows, reseller)? else {
        return Ok(Some(ResellerNotAllowed::NotAuthorized));
    };
    let delegation = load(rows, reseller, merchant)?;
    Ok(may_work(&who, delegation.as_ref(), environment).err())
}

/// Reason why a reseller may not refund its payments of a merchant now.
pub(crate) fn bars_refund(
    rows: &Rows<'_>,
    reseller: ResellerId,
    merchant: MerchantId,
    environment: Environment,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    let Some(who) = registry::load(rows, reseller)? else {
        return Ok(Some(ResellerNotAllowed::NotAuthorized));
    };
    let delegation = load(rows, reseller, merchant)?;
    Ok(may_refund(&who, delegation.as_ref(), environment).err())
}

/// Reason why a reseller may not create a payment for a merchant now. In live the merchant must be approved
/// too.
pub(crate) fn bars_creation(
    rows: &Rows<'_>,
    reseller: ResellerId,
    merchant: MerchantId,
    environment: Environment,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    let Some(who) = registry::load(rows, reseller)? else {
        return Ok(Some(ResellerNotAllowed::NotAuthorized));
    };
    let delegation = load(rows, reseller, merchant)?;
    let approved = merchants::load(rows, merchant)?.is_some_and(|found| found.live_approved);
    Ok(may_process(&who, delegation.as_ref(), approved, environment).err())
}

/// Reason why a step may not open an attempt of a reseller's payment. `None` for steps that open no attempt.
pub(crate) fn bars_opening(
    rows: &Rows<'_>,
    payment: &Payment,
    step: &Step,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    match &payment.origin {
        Origin::Reseller { reseller, .. } if step.opens_attempt() => {
            bars(rows, *reseller, payment.merchant, payment.environment)
        }
        _ => Ok(None),
    }
}

/// Authorizes a reseller, in the transaction of the action that grants this.
pub(crate) fn authorize(
    rows: &mut Rows<'_>,
    (reseller, merchant): (ResellerId, MerchantId),
    invitation: Option<InvitationId>,
    refunds: Option<bool>,
    audited: Audited,
    now: Time,
) -> Result<Delegation, Fault> {
    let key = schema::resellers::delegation(reseller, merchant);
    let known: Option<Delegation> = rows.load(&key)?;
    let before = known.clone();
    let mut delegation = match known {
        Some(mut delegation) => {
            if delegation.invitation.is_none() && invitation.is_some() {
                // From now on the list contains its invitation instead.
                rows.remove(alone(&delegation));
            }
            delegation.authorize(invitation, now);
            delegation
        }
        None => {
            let delegation = Delegation::authorized(reseller, merchant, invitation, now);
            if invitation.is_none() {
                rows.put(alone(&delegation), IVec::default());
            }
            delegation
        }
    };
    delegation.refunds = refunds.unwrap_or(delegation.refunds);
    rows.save(key, &delegation)?;
    let audited = delegation::told(audited, before.as_ref(), &delegation);
    audit::append(rows, audited, now)?;
    Ok(delegation)
}

/// Row that lists a merchant without an accepted invitation for the reseller.
fn alone(delegation: &Delegation) -> Key {
    let relation = Relation::Merchant(delegation.merchant);
    schema::resellers::relation(delegation.reseller, delegation.created_at, relation)
}

/// Sets a delegation for an operator.
pub(crate) struct SetDelegation {
    pub(crate) reseller: ResellerId,
    pub(crate) merchant: MerchantId,
    pub(crate) decision: DelegationDecision,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for SetDelegation {
    type Outcome = Option<Delegation>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        if registry::load(rows, self.reseller)?.is_none()
            || rows.get(&schema::merchant(self.merchant))?.is_none()
        {
            return Ok(None);
        }
        if let DelegationDecision::Authorize { refunds } = self.decision {
            let between = (self.reseller, self.merchant);
            return authorize(rows, between, None, refunds, self.audited, self.now).map(Some);
        }
        let Some(mut delegation) = load(rows, self.reseller, self.merchant)? else {
            return Ok(None);
        };
        let before = delegation.clone();
        delegation.revoke(self.now);
        let key = schema::resellers::delegation(self.reseller, self.merchant);
        rows.save(key, &delegation)?;
        let audited = delegation::told(self.audited, Some(&before), &delegation);
        audit::append(rows, audited, self.now)?;
        Ok(Some(delegation))
    }
}

/// A row of `rel/` as the reseller sees it. `None` for an invitation that a later one replaces.
pub(crate) fn shown(
    source: &impl RowSource,
    reseller: ResellerId,
    key: &[u8],
    now: Time,
) -> Result<Option<DelegatedMerchant>, Fault> {
    match schema::resellers::read_relation(key) {
        Some(Relation::Invitation(id)) => shown_invitation(source, reseller, id, now),
        Some(Relation::Merchant(merchant)) => shown_merchant(source, reseller, merchant),
        None => Err(records::damaged(
            key,
            "it names neither an invitation nor a merchant",
        )),
    }
}

fn shown_invitation(
    source: &impl RowSource,
    reseller: ResellerId,
    id: InvitationId,
    now: Time,
) -> Result<Option<DelegatedMerchant>, Fault> {
    let invitation = invitations::expect_plain(source, id)?;
    let delegation = invitations::delegation_of(source, reseller, invitation.reply)?;
    Ok(invitation.delegated(id, delegation, now))
}

fn shown_merchant(
    source: &impl RowSource,
    reseller: ResellerId,
    id: MerchantId,
) -> Result<Option<DelegatedMerchant>, Fault> {
    let delegation: Delegation = source.expect(&schema::resellers::delegation(reseller, id))?;
    let merchant = merchants::expect(source, id)?;
    Ok(Some(DelegatedMerchant {
        merchant: Some(id),
        business_name: merchant.name,
        status: delegation.status(),
        authorized_at: Some(delegation.authorized_at),
        client_ref: None,
        invitation: None,
        refunds: delegation.refunds,
        created_at: delegation.created_at,
    }))
}
