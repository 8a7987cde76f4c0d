//! Checks of the rows of resellers, and of their consistency.

use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::Delegation;
use kassette_domain::id::InvitationId;
use kassette_domain::key::{KeyOwner, TokenHash};
use kassette_domain::reseller::Reseller;
use kassette_engine::{IVec, Span};

use crate::Fault;
use crate::rows::invitations;
use crate::rows::schema::resellers::Relation;
use crate::rows::{records, schema};
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Derived, Kind, empty, plain};

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

fn reseller(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let reseller: Reseller = records::decode(&verifier.secrets.sealer, key, row)?;
    if key != schema::resellers::reseller(reseller.id) {
        verifier.find(key, "it is another reseller's");
    }
    verifier.find_if(key, verifier.newest.reseller(&reseller));
    Ok(())
}

/// Checks that an invitation can be opened and is found by its reference, its token and in its reseller's
/// list.
fn invitation(verifier: &mut Verifier<'_>, key: &[u8], _: &IVec) -> Result<(), Fault> {
    let id = schema::resellers::invitation_id(key)
        .ok_or_else(|| records::damaged(key, "it names no invitation"))?;
    let invitation = invitations::expect(&verifier.view(), &verifier.secrets.sealer, id)?;
    let reseller = invitation.reseller;
    for index in [
        schema::resellers::reference(reseller, &invitation.client_ref),
        schema::resellers::invitation_token(TokenHash::hash(invitation.token.expose())),
    ] {
        verifier.promise_value(index, &id)?;
    }
    let relation = Relation::Invitation(id);
    let listed = schema::resellers::relation(reseller, invitation.created_at, relation);
    verifier.promise(listed, &[])?;
    let count = schema::resellers::invited(reseller);
    verifier.needs(key, &count, "its reseller's invitations are not counted")?;
    if invitations::delegation_of(&verifier.view(), reseller, invitation.reply).is_err() {
        verifier.find(key, "it was accepted, and what came of it is missing");
    }
    verifier.needs_owner(key, KeyOwner::Reseller(reseller))
}

/// Checks the number of a reseller's invitations.
fn invited(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let count: u32 = records::decode(&verifier.secrets.sealer, key, row)?;
    let reseller = schema::resellers::invited_by(key)
        .ok_or_else(|| records::damaged(key, "it names no reseller"))?;
    let those = Span::prefix(&schema::resellers::references_of(reseller));
    let there = verifier.view().scan(&those, count as usize + 1)?;
    if there.len() != count as usize {
        verifier.find(key, "there are not as many invitations as it says");
    }
    Ok(())
}

/// Checks that a delegation is between an existing reseller and merchant, and in the reseller's list.
fn delegation(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let delegation: Delegation = records::decode(&verifier.secrets.sealer, key, row)?;
    let (reseller, merchant) = (delegation.reseller, delegation.merchant);
    if key != schema::resellers::delegation(reseller, merchant) {
        return Err(records::damaged(key, "it is another delegation's"));
    }
    match delegation.invitation {
        Some(id) => {
            let invitation = schema::resellers::invitation(id);
            let missing = "the invitation that it comes from is missing";
            verifier.needs(key, &invitation, missing)?;
        }
        None => {
            let relation = Relation::Merchant(merchant);
            let listed = schema::resellers::relation(reseller, delegation.created_at, relation);
            verifier.promise(listed, &[])?;
        }
    }
    verifier.find_if(key, verifier.newest.delegation(&delegation));
    verifier.needs_owner(key, KeyOwner::Merchant(merchant))?;
    verifier.needs_owner(key, KeyOwner::Reseller(reseller))
}

/// A consent code.
fn consent(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let code: ConsentCode = records::decode(&verifier.secrets.sealer, key, row)?;
    if key != schema::resellers::consent(code.handle) {
        return Err(records::damaged(key, "it is another code's"));
    }
    let end = schema::resellers::consent_end(code.expires_at, code.handle);
    verifier.promise(end, &[])?;
    verifier.needs_owner(key, KeyOwner::Merchant(code.merchant))
}
