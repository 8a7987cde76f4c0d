//! What must hold of the rows of resellers, and of how they fit each other.

use ::sled::IVec;
use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::Delegation;
use kassette_domain::id::ResellerId;
use kassette_domain::key::TokenHash;
use kassette_domain::reseller::Reseller;

use super::judge::Judge;
use crate::Fault;
use crate::sled::reseller_keys::{self, Relation};
use crate::sled::rows::{Source as _, Span};
use crate::sled::{invitations, keys, records};

/// A reseller.
pub(super) fn reseller(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let reseller: Reseller = records::decode(key, row)?;
    if key != reseller_keys::reseller(reseller.id) {
        judge.find(key, "it is another reseller's");
    }
    Ok(())
}

fn must_exist(judge: &mut Judge<'_>, key: &[u8], reseller: ResellerId) -> Result<(), Fault> {
    let row = reseller_keys::reseller(reseller);
    if judge.view().get(&row)?.is_none() {
        judge.find(key, "the reseller whose it is is missing");
    }
    Ok(())
}

/// An invitation: it opens, and is found by its reference, its token and in its reseller's list.
pub(super) fn invitation(judge: &mut Judge<'_>, key: &[u8], _: &IVec) -> Result<(), Fault> {
    let id = reseller_keys::invitation_id(key)
        .ok_or_else(|| records::damaged(key, "it names no invitation"))?;
    let invitation = invitations::expect(&judge.view(), &judge.secrets.sealer, id)?;
    let reseller = invitation.reseller;
    for index in [
        reseller_keys::reference(reseller, &invitation.client_ref),
        reseller_keys::invitation_token(TokenHash::of(invitation.token.expose())),
    ] {
        let row = records::encode(&index, &id)?;
        judge.promise(index, &row)?;
    }
    let relation = Relation::Invitation(id);
    let listed = reseller_keys::relation(reseller, invitation.created_at, relation);
    judge.promise(listed, &[])?;
    let count = reseller_keys::invited(reseller);
    if judge.view().get(&count)?.is_none() {
        judge.find(key, "its reseller's invitations are not counted");
    }
    if invitations::delegation_of(&judge.view(), reseller, invitation.reply).is_err() {
        judge.find(key, "it was accepted, and what came of it is missing");
    }
    must_exist(judge, key, reseller)
}

/// The number of a reseller's invitations.
pub(super) fn invited(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let count: u32 = records::decode(key, row)?;
    let reseller = reseller_keys::invited_by(key)
        .ok_or_else(|| records::damaged(key, "it names no reseller"))?;
    let those = Span::prefix(&reseller_keys::references_of(reseller));
    let there = judge.view().scan(&those, count as usize + 1)?;
    if there.len() != count as usize {
        judge.find(key, "there are not as many invitations as it says");
    }
    Ok(())
}

/// A delegation: between a reseller and a merchant that exist, and in the reseller's list.
pub(super) fn delegation(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let delegation: Delegation = records::decode(key, row)?;
    let (reseller, merchant) = (delegation.reseller, delegation.merchant);
    if key != reseller_keys::delegation(reseller, merchant) {
        return Err(records::damaged(key, "it is another delegation's"));
    }
    match delegation.invitation {
        Some(id) => {
            if judge.view().get(&reseller_keys::invitation(id))?.is_none() {
                judge.find(key, "the invitation that it comes from is missing");
            }
        }
        None => {
            let relation = Relation::Merchant(merchant);
            let listed = reseller_keys::relation(reseller, delegation.created_at, relation);
            judge.promise(listed, &[])?;
        }
    }
    if judge.view().get(&keys::merchant(merchant))?.is_none() {
        judge.find(key, "the merchant whose it is is missing");
    }
    must_exist(judge, key, reseller)
}

/// A consent code.
pub(super) fn consent(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let code: ConsentCode = records::decode(key, row)?;
    if key != reseller_keys::consent(code.handle) {
        return Err(records::damaged(key, "it is another code's"));
    }
    judge.promise(
        reseller_keys::consent_end(code.expires_at, code.handle),
        &[],
    )?;
    if judge.view().get(&keys::merchant(code.merchant))?.is_none() {
        judge.find(key, "the merchant whose it is is missing");
    }
    Ok(())
}
