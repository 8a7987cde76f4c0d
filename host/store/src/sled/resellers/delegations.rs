//! What merchants have granted to resellers, and who may do what because of it.

use kassette_domain::audit::Audited;
use kassette_domain::delegation::{self, DelegatedMerchant, Delegation};
use kassette_domain::id::{InvitationId, MerchantId, ResellerId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::Step;
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::reseller::{ResellerNotAllowed, may_work};
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

/// Why a reseller may not work for a merchant now, read in the transaction that would do it.
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

/// Why a reseller may not make a payment for a merchant now: in live the merchant must be approved too.
pub(crate) fn bars_creation(
    rows: &Rows<'_>,
    reseller: ResellerId,
    merchant: MerchantId,
    environment: Environment,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    let barred = bars(rows, reseller, merchant, environment)?;
    if barred.is_some() || environment == Environment::Test {
        return Ok(barred);
    }
    let merchant = merchants::expect(rows, merchant)?;
    Ok((!merchant.live_approved).then_some(ResellerNotAllowed::NotLiveApproved))
}

/// Why a step may not open an attempt of a reseller's payment; none for steps that open none.
pub(crate) fn bars_opening(
    rows: &Rows<'_>,
    payment: &Payment,
    step: &Step,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    let opens = matches!(step, Step::Open(_) | Step::Started { next: Some(_), .. });
    match &payment.origin {
        Origin::Reseller { reseller, .. } if opens => {
            bars(rows, *reseller, payment.merchant, payment.environment)
        }
        _ => Ok(None),
    }
}

/// Grants, in the transaction of what granted it.
pub(crate) fn authorize(
    rows: &mut Rows<'_>,
    reseller: ResellerId,
    merchant: MerchantId,
    invitation: Option<InvitationId>,
    audited: Audited,
    now: Time,
) -> Result<Delegation, Fault> {
    let key = schema::resellers::delegation(reseller, merchant);
    let known: Option<Delegation> = rows.load(&key)?;
    let before = known.as_ref().map(Delegation::status);
    let delegation = match known {
        Some(mut delegation) => {
            if delegation.invitation.is_none() && invitation.is_some() {
                // From now on its invitation stands in the list.
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
    rows.save(key, &delegation)?;
    audit::append(rows, delegation::told(audited, before, &delegation), now)?;
    Ok(delegation)
}

/// The row by which a merchant that never accepted an invitation stands in the reseller's list.
fn alone(delegation: &Delegation) -> Key {
    let relation = Relation::Merchant(delegation.merchant);
    schema::resellers::relation(delegation.reseller, delegation.created_at, relation)
}

/// An operator's word on a delegation.
pub(crate) struct SetDelegation {
    pub(crate) reseller: ResellerId,
    pub(crate) merchant: MerchantId,
    pub(crate) authorized: bool,
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
        if self.authorized {
            let (reseller, merchant) = (self.reseller, self.merchant);
            return authorize(rows, reseller, merchant, None, self.audited, self.now).map(Some);
        }
        let Some(mut delegation) = load(rows, self.reseller, self.merchant)? else {
            return Ok(None);
        };
        let before = Some(delegation.status());
        delegation.revoke(self.now);
        let key = schema::resellers::delegation(self.reseller, self.merchant);
        rows.save(key, &delegation)?;
        let audited = delegation::told(self.audited, before, &delegation);
        audit::append(rows, audited, self.now)?;
        Ok(Some(delegation))
    }
}

/// A row of `rel/` as the reseller sees it; none for an invitation that a later one stands for.
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
        created_at: delegation.created_at,
    }))
}
