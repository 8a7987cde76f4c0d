//! What must hold of the rows of resellers, and of how they fit each other.

use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::Delegation;
use kassette_domain::id::{InvitationId, ResellerId};
use kassette_domain::key::TokenHash;
use kassette_domain::reseller::Reseller;
use kassette_engine::{IVec, Span};

use crate::Fault;
use crate::rows::invitations;
use crate::rows::schema::resellers::Relation;
use crate::rows::{records, schema};
use crate::sled::judge::Judge;
use crate::sled::judge::kinds::{Derived, Kind, empty, plain};

/// The kinds of rows of resellers.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(59, "consent-code", b"cns/", consent),
    Kind::new(
        60,
        "consent-code-end",
        schema::resellers::CONSENT_ENDS,
        empty,
    )
    .following(Derived::Key),
    Kind::new(61, "delegation", schema::resellers::DELEGATIONS, delegation),
    Kind::new(62, "invitation", schema::resellers::INVITATIONS, invitation)
        .sealing(invitations::reseal),
    Kind::new(63, "invitation-count", schema::resellers::INVITED, invited),
    Kind::new(
        64,
        "invitation-by-reference",
        b"ivr/",
        plain::<InvitationId>,
    )
    .following(Derived::Row),
    Kind::new(65, "invitation-by-token", b"ivt/", plain::<InvitationId>).following(Derived::Row),
    Kind::new(66, "reseller-count", schema::resellers::COUNT, plain::<u64>),
    Kind::new(67, "reseller-relation", b"rel/", empty).following(Derived::Key),
    Kind::new(68, "payment-by-reseller", b"rpy/", empty).following(Derived::Key),
    Kind::new(69, "reseller", schema::resellers::RESELLERS, reseller),
];

/// A reseller.
fn reseller(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let reseller: Reseller = records::decode(key, row)?;
    if key != schema::resellers::reseller(reseller.id) {
        judge.find(key, "it is another reseller's");
    }
    Ok(())
}

fn must_exist(judge: &mut Judge<'_>, key: &[u8], reseller: ResellerId) -> Result<(), Fault> {
    let row = schema::resellers::reseller(reseller);
    if judge.view().get(&row)?.is_none() {
        judge.find(key, "the reseller whose it is is missing");
    }
    Ok(())
}

/// An invitation: it opens, and is found by its reference, its token and in its reseller's list.
fn invitation(judge: &mut Judge<'_>, key: &[u8], _: &IVec) -> Result<(), Fault> {
    let id = schema::resellers::invitation_id(key)
        .ok_or_else(|| records::damaged(key, "it names no invitation"))?;
    let invitation = invitations::expect(&judge.view(), &judge.secrets.sealer, id)?;
    let reseller = invitation.reseller;
    for index in [
        schema::resellers::reference(reseller, &invitation.client_ref),
        schema::resellers::invitation_token(TokenHash::of(invitation.token.expose())),
    ] {
        let row = records::encode(&index, &id)?;
        judge.promise(index, &row)?;
    }
    let relation = Relation::Invitation(id);
    let listed = schema::resellers::relation(reseller, invitation.created_at, relation);
    judge.promise(listed, &[])?;
    let count = schema::resellers::invited(reseller);
    if judge.view().get(&count)?.is_none() {
        judge.find(key, "its reseller's invitations are not counted");
    }
    if invitations::delegation_of(&judge.view(), reseller, invitation.reply).is_err() {
        judge.find(key, "it was accepted, and what came of it is missing");
    }
    must_exist(judge, key, reseller)
}

/// The number of a reseller's invitations.
fn invited(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let count: u32 = records::decode(key, row)?;
    let reseller = schema::resellers::invited_by(key)
        .ok_or_else(|| records::damaged(key, "it names no reseller"))?;
    let those = Span::prefix(&schema::resellers::references_of(reseller));
    let there = judge.view().scan(&those, count as usize + 1)?;
    if there.len() != count as usize {
        judge.find(key, "there are not as many invitations as it says");
    }
    Ok(())
}

/// A delegation: between a reseller and a merchant that exist, and in the reseller's list.
fn delegation(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let delegation: Delegation = records::decode(key, row)?;
    let (reseller, merchant) = (delegation.reseller, delegation.merchant);
    if key != schema::resellers::delegation(reseller, merchant) {
        return Err(records::damaged(key, "it is another delegation's"));
    }
    match delegation.invitation {
        Some(id) => {
            if judge
                .view()
                .get(&schema::resellers::invitation(id))?
                .is_none()
            {
                judge.find(key, "the invitation that it comes from is missing");
            }
        }
        None => {
            let relation = Relation::Merchant(merchant);
            let listed = schema::resellers::relation(reseller, delegation.created_at, relation);
            judge.promise(listed, &[])?;
        }
    }
    if judge.view().get(&schema::merchant(merchant))?.is_none() {
        judge.find(key, "the merchant whose it is is missing");
    }
    must_exist(judge, key, reseller)
}

/// A consent code.
fn consent(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let code: ConsentCode = records::decode(key, row)?;
    if key != schema::resellers::consent(code.handle) {
        return Err(records::damaged(key, "it is another code's"));
    }
    judge.promise(
        schema::resellers::consent_end(code.expires_at, code.handle),
        &[],
    )?;
    if judge
        .view()
        .get(&schema::merchant(code.merchant))?
        .is_none()
    {
        judge.find(key, "the merchant whose it is is missing");
    }
    Ok(())
}
