//! Keys of the rows of resellers.
//!
//! | prefix | key | value |
//! |---|---|---|
//! | `rsl/` | reseller | a reseller |
//! | `inv/` | invitation | an invitation, address and token sealed |
//! | `ivr/` | reseller, reference | its invitation |
//! | `ivt/` | hash of the token | its invitation |
//! | `ivn/` | reseller | how many invitations it has |
//! | `dlg/` | reseller, merchant | a delegation |
//! | `rel/` | reseller, newest first, invitation or merchant | –; its invitations and merchants |
//! | `cns/` | hash of a code's first characters | a consent code |
//! | `cnx/` | end, hash | –; end of a consent code |
//! | `rpy/` | reseller, merchant, environment, newest first, payment | –; payments that it created |
//! | `meta/resellers` | | number of resellers |

use kassette_domain::id::{InvitationId, MerchantId, PaymentId, ResellerId};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::order::ClientRef;
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::time::Time;

use crate::rows::schema::{Key, key, newest_first};

pub(crate) const COUNT: &[u8] = b"meta/resellers";
pub(crate) const RESELLERS: &[u8] = b"rsl/";
pub(crate) const INVITATIONS: &[u8] = b"inv/";
pub(crate) const INVITED: &[u8] = b"ivn/";
pub(crate) const DELEGATIONS: &[u8] = b"dlg/";
pub(crate) const CONSENT_ENDS: &[u8] = b"cnx/";
/// Bytes of a key of `rel/` after the reseller: a time, a tag, an id.
pub(crate) const RELATION_TAIL: usize = 25;
/// Bytes of a key of `rpy/` after the environment: a time and an id.
pub(crate) const PAYMENT_TAIL: usize = 24;

pub(crate) fn reseller(id: ResellerId) -> Key {
    key(&[RESELLERS, &id.0.to_be_bytes()])
}

pub(crate) fn invitation(id: InvitationId) -> Key {
    key(&[INVITATIONS, id.as_bytes()])
}

/// The invitation in a key of `inv/`.
pub(crate) fn invitation_id(key: &[u8]) -> Option<InvitationId> {
    let id = key.strip_prefix(INVITATIONS)?.try_into().ok()?;
    Some(InvitationId::from_bytes(id))
}

pub(crate) fn references_of(reseller: ResellerId) -> Key {
    key(&[b"ivr/", &reseller.0.to_be_bytes()])
}

pub(crate) fn reference(reseller: ResellerId, reference: &ClientRef) -> Key {
    key(&[&references_of(reseller), reference.as_str().as_bytes()])
}

pub(crate) fn invitation_token(hash: TokenHash) -> Key {
    key(&[b"ivt/", &hash.0])
}

pub(crate) fn invited(reseller: ResellerId) -> Key {
    key(&[INVITED, &reseller.0.to_be_bytes()])
}

/// The reseller in a key of `ivn/`.
pub(crate) fn invited_by(key: &[u8]) -> Option<ResellerId> {
    let number = key.strip_prefix(INVITED)?.try_into().ok()?;
    Some(ResellerId(u64::from_be_bytes(number)))
}

pub(crate) fn delegation(reseller: ResellerId, merchant: MerchantId) -> Key {
    key(&[
        DELEGATIONS,
        &reseller.0.to_be_bytes(),
        &merchant.0.to_be_bytes(),
    ])
}

pub(crate) fn relations_of(reseller: ResellerId) -> Key {
    key(&[b"rel/", &reseller.0.to_be_bytes()])
}

/// An invitation or a merchant in a reseller's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The merchant was invited.
    Invitation(InvitationId),
    /// An operator authorized the reseller before any invitation.
    Merchant(MerchantId),
}

pub(crate) fn relation(reseller: ResellerId, at: Time, relation: Relation) -> Key {
    let mut id = [0; 17];
    match relation {
        Relation::Invitation(invitation) => {
            id[0] = b'i';
            id[1..].copy_from_slice(invitation.as_bytes());
        }
        Relation::Merchant(merchant) => {
            id[0] = b'm';
            id[9..].copy_from_slice(&merchant.0.to_be_bytes());
        }
    }
    key(&[&relations_of(reseller), &newest_first(at), &id])
}

/// Reads a key of `rel/`.
pub(crate) fn read_relation(key: &[u8]) -> Option<Relation> {
    let (tag, id) = key.last_chunk::<17>()?.split_first()?;
    match tag {
        b'i' => Some(Relation::Invitation(InvitationId::from_bytes(
            id.try_into().ok()?,
        ))),
        b'm' => Some(Relation::Merchant(MerchantId(u64::from_be_bytes(
            *id.last_chunk()?,
        )))),
        _ => None,
    }
}

pub(crate) fn consent(handle: TokenHash) -> Key {
    key(&[b"cns/", &handle.0])
}

pub(crate) fn consent_end(at: Time, handle: TokenHash) -> Key {
    key(&[CONSENT_ENDS, &at.as_millis().to_be_bytes(), &handle.0])
}

/// Reads a key of `cnx/`.
pub(crate) fn read_consent_end(key: &[u8]) -> Option<(Time, TokenHash)> {
    let (time, handle) = key.strip_prefix(CONSENT_ENDS)?.split_first_chunk()?;
    let at = Time::from_millis(u64::from_be_bytes(*time));
    Some((at, TokenHash(handle.try_into().ok()?)))
}

pub(crate) fn payments_of(
    reseller: ResellerId,
    merchant: MerchantId,
    environment: Environment,
) -> Key {
    let world: &[u8] = match environment {
        Environment::Test => b"t",
        Environment::Live => b"l",
    };
    key(&[
        b"rpy/",
        &reseller.0.to_be_bytes(),
        &merchant.0.to_be_bytes(),
        world,
    ])
}

/// Key of a payment in its reseller's list. `None` for a payment that its merchant created.
pub(crate) fn payment_of(payment: &Payment) -> Option<Key> {
    let Origin::Reseller { reseller, .. } = &payment.origin else {
        return None;
    };
    let those = payments_of(*reseller, payment.merchant, payment.environment);
    Some(key(&[
        &those,
        &newest_first(payment.created_at),
        payment.id.as_bytes(),
    ]))
}

/// The payment in a key of `rpy/`.
pub(crate) fn listed_payment(key: &[u8]) -> Option<PaymentId> {
    key.last_chunk().copied().map(PaymentId::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_and_ends_read_back() {
        let at = Time::from_secs(7);
        for each in [
            Relation::Invitation(InvitationId::from_bytes([9; 16])),
            Relation::Merchant(MerchantId(77)),
        ] {
            let row = relation(ResellerId(3), at, each);
            assert_eq!(read_relation(&row), Some(each));
            let prefix = relations_of(ResellerId(3));
            assert_eq!(row.len(), prefix.len() + RELATION_TAIL);
        }
        let handle = TokenHash([4; 32]);
        let end = read_consent_end(&consent_end(at, handle));
        assert_eq!(end, Some((at, handle)));
    }
}
