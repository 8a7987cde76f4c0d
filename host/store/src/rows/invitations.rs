//! Rows of invitations. Address and token are sealed.

use kassette_domain::delegation::{DelegatedMerchant, Delegation};
use kassette_domain::id::{InvitationId, ResellerId};
use kassette_domain::invitation::{BusinessName, Invitation, Reply};
use kassette_domain::order::{ClientRef, Email};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_engine::IVec;
use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::rows::seal::Sealer;
use crate::rows::source::RowSource;
use crate::rows::stored::closed;
use crate::rows::{records, schema};

#[derive(Serialize, Deserialize)]
pub(crate) struct InvitationRow {
    pub(crate) reseller: ResellerId,
    pub(crate) client_ref: ClientRef,
    pub(crate) business_name: BusinessName,
    pub(crate) created_at: Time,
    pub(crate) expires_at: Time,
    pub(crate) reply: Reply,
    wrong_codes: u8,
    burnt_at: Option<Time>,
    /// [`InvitationSecrets`].
    sealed: Vec<u8>,
}

impl InvitationRow {
    /// Entry in the reseller's list of merchants, with the delegation that followed. `None` if the merchant
    /// accepted a later invitation of the same reseller.
    pub(crate) fn delegated(
        self,
        id: InvitationId,
        delegation: Option<Delegation>,
        now: Time,
    ) -> Option<DelegatedMerchant> {
        let accepted_later = delegation
            .as_ref()
            .is_some_and(|delegation| delegation.invitation != Some(id));
        if accepted_later {
            return None;
        }
        Some(DelegatedMerchant {
            merchant: delegation.as_ref().map(|delegation| delegation.merchant),
            status: self.reply.status(self.expires_at, delegation.as_ref(), now),
            refunds: delegation
                .as_ref()
                .is_some_and(|delegation| delegation.refunds),
            authorized_at: delegation.map(|delegation| delegation.authorized_at),
            business_name: self.business_name.as_str().to_owned(),
            client_ref: Some(self.client_ref),
            invitation: Some(id),
            created_at: self.created_at,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct InvitationSecrets {
    email: Email,
    token: Secret,
}

/// Reads an invitation that must exist, without address and token.
pub(crate) fn expect_plain(
    source: &impl RowSource,
    id: InvitationId,
) -> Result<InvitationRow, Fault> {
    source.expect(&schema::resellers::invitation(id))
}

/// Reads an invitation that must exist.
pub(crate) fn expect(
    source: &impl RowSource,
    sealer: &Sealer,
    id: InvitationId,
) -> Result<Invitation, Fault> {
    open(sealer, id, expect_plain(source, id)?)
}

/// Opens an invitation's row.
pub(crate) fn open(
    sealer: &Sealer,
    id: InvitationId,
    row: InvitationRow,
) -> Result<Invitation, Fault> {
    let key = schema::resellers::invitation(id);
    let secrets: InvitationSecrets = sealer
        .open(&key, &row.sealed)
        .map_err(|unopened| closed(&key, unopened))?;
    Ok(Invitation {
        id,
        reseller: row.reseller,
        client_ref: row.client_ref,
        email: secrets.email,
        business_name: row.business_name,
        token: secrets.token,
        created_at: row.created_at,
        expires_at: row.expires_at,
        reply: row.reply,
        wrong_codes: row.wrong_codes,
        burnt_at: row.burnt_at,
    })
}

pub(crate) fn encode(sealer: &Sealer, invitation: &Invitation) -> Result<IVec, Fault> {
    let key = schema::resellers::invitation(invitation.id);
    let secrets = InvitationSecrets {
        email: invitation.email.clone(),
        token: invitation.token.clone(),
    };
    let row = InvitationRow {
        reseller: invitation.reseller,
        client_ref: invitation.client_ref.clone(),
        business_name: invitation.business_name.clone(),
        created_at: invitation.created_at,
        expires_at: invitation.expires_at,
        reply: invitation.reply,
        wrong_codes: invitation.wrong_codes,
        burnt_at: invitation.burnt_at,
        sealed: sealer.seal(&key, &secrets)?,
    };
    records::encode(sealer, &key, &row)
}

/// Seals an invitation's row under another key.
pub(crate) fn reseal(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let id = schema::resellers::invitation_id(key)
        .ok_or_else(|| records::damaged(key, "it names no invitation"))?;
    let invitation = open(old, id, records::decode(old, key, row)?)?;
    encode(new, &invitation)
}

/// The delegation of an accepted invitation. `None` for other invitations.
pub(crate) fn delegation_of(
    source: &impl RowSource,
    reseller: ResellerId,
    reply: Reply,
) -> Result<Option<Delegation>, Fault> {
    match reply {
        Reply::Accepted { merchant, .. } => {
            let key = schema::resellers::delegation(reseller, merchant);
            source.expect(&key).map(Some)
        }
        Reply::Open | Reply::Declined { .. } => Ok(None),
    }
}
