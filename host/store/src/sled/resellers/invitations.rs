//! Invitations: one per reference, answered one time.

use std::sync::Arc;

use kassette_domain::consent::ConsentCode;
use kassette_domain::invitation::{Invitation, NewInvitation, NotAnswered};
use kassette_domain::key::{ApiKey, KeyOwner, TokenHash};
use kassette_domain::reseller::Reseller;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation};

use crate::resellers::{accepted_by, declined};
use crate::rows::invitations::{delegation_of, encode, expect};
use crate::rows::schema;
use crate::rows::schema::resellers::Relation;
use crate::rows::seal::{Sealer, Secrets};
use crate::rows::source::{RowSource, Save as _};
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};
use crate::sled::resellers::{delegations, registry};
use crate::{Answered, Fault, InvitationStanding, Invited};

fn with_status(
    source: &impl RowSource,
    invitation: Invitation,
    now: Time,
) -> Result<InvitationStanding, Fault> {
    let delegation = delegation_of(source, invitation.reseller, invitation.reply)?;
    Ok(InvitationStanding {
        status: invitation.status(delegation.as_ref(), now),
        invitation,
    })
}

/// Returns the invitation that a token belongs to.
pub(crate) fn by_token(
    source: &impl RowSource,
    sealer: &Sealer,
    token: TokenHash,
    now: Time,
) -> Result<Option<InvitationStanding>, Fault> {
    let Some(id) = source.load(&schema::resellers::invitation_token(token))? else {
        return Ok(None);
    };
    let invitation = expect(source, sealer, id)?;
    with_status(source, invitation, now).map(Some)
}

/// A new invitation, sealed on the caller's thread.
pub(crate) struct Invite {
    invitation: Invitation,
    row: IVec,
    authority: Option<TokenHash>,
    now: Time,
    secrets: Arc<Secrets>,
}

impl Invite {
    pub(crate) fn prepare(
        secrets: &Arc<Secrets>,
        new: NewInvitation,
        authority: Option<TokenHash>,
        now: Time,
    ) -> Result<Self, Fault> {
        let invitation = Invitation::new(new, now);
        Ok(Self {
            row: encode(&secrets.sealer, &invitation)?,
            invitation,
            authority,
            now,
            secrets: Arc::clone(secrets),
        })
    }

    /// Whether the reseller still may, checked in the transaction that writes.
    fn may(&self, rows: &Rows<'_>) -> Result<bool, Fault> {
        let reseller = self.invitation.reseller;
        let Some(who) = registry::load(rows, reseller)? else {
            return Ok(false);
        };
        let Some(hash) = self.authority else {
            return Ok(true);
        };
        let key: Option<ApiKey> = rows.load(&schema::api_key(hash))?;
        Ok(key.is_some_and(|key| {
            key.usable_by(KeyOwner::Reseller(reseller), key.environment, self.now)
                && who.may_use(key.environment)
        }))
    }
}

impl Operation<Memory> for Invite {
    type Outcome = Invited;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Invited, Fault> {
        if !self.may(rows)? {
            return Ok(Invited::KeyRefused);
        }
        let invitation = self.invitation;
        let reference = schema::resellers::reference(invitation.reseller, &invitation.client_ref);
        if let Some(id) = rows.load(&reference)? {
            let made_before = expect(rows, &self.secrets.sealer, id)?;
            return Ok(match made_before.differs(&invitation) {
                Some(field) => Invited::Differs { field },
                None => Invited::Replay(with_status(rows, made_before, self.now)?),
            });
        }
        let count = schema::resellers::invited(invitation.reseller);
        let invited: u32 = rows.load(&count)?.unwrap_or_default();
        if invited >= Reseller::MAX_INVITATIONS {
            return Ok(Invited::TooMany);
        }
        let key = schema::resellers::invitation(invitation.id);
        let token = TokenHash::hash(invitation.token.expose());
        let by_token = schema::resellers::invitation_token(token);
        if rows.get(&key)?.is_some() || rows.get(&by_token)?.is_some() {
            return Err(Fault::Unavailable("the invitation's id is in use".into()));
        }
        rows.put(key, self.row);
        rows.save(reference, &invitation.id)?;
        rows.save(by_token, &invitation.id)?;
        rows.save(count, &(invited + 1))?;
        let relation = Relation::Invitation(invitation.id);
        let relation = schema::resellers::relation(invitation.reseller, self.now, relation);
        rows.put(relation, IVec::default());
        with_status(rows, invitation, self.now).map(Invited::New)
    }
}

/// An answer to an invitation.
pub(crate) struct AnswerInvitation {
    pub(crate) token: TokenHash,
    /// The presented consent code. `None` declines.
    pub(crate) code: Option<Secret>,
    pub(crate) now: Time,
    pub(crate) secrets: Arc<Secrets>,
}

impl Operation<Memory> for AnswerInvitation {
    type Outcome = Answered;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Answered, Fault> {
        let sealer = &self.secrets.sealer;
        let Some(InvitationStanding { invitation, .. }) =
            by_token(rows, sealer, self.token, self.now)?
        else {
            return Ok(Answered::Unknown);
        };
        match self.code {
            Some(code) => accept(rows, sealer, invitation, &code, self.now),
            None => decline(rows, sealer, invitation, self.now),
        }
    }
}

fn save(rows: &mut Rows<'_>, sealer: &Sealer, invitation: &Invitation) -> Result<(), Fault> {
    let row = encode(sealer, invitation)?;
    rows.put(schema::resellers::invitation(invitation.id), row);
    Ok(())
}

fn decline(
    rows: &mut Rows<'_>,
    sealer: &Sealer,
    mut invitation: Invitation,
    now: Time,
) -> Result<Answered, Fault> {
    if let Err(not) = invitation.decline(now) {
        return Ok(Answered::Not(not));
    }
    save(rows, sealer, &invitation)?;
    audit::append(rows, declined(&invitation), now)?;
    Ok(Answered::Declined)
}

fn accept(
    rows: &mut Rows<'_>,
    sealer: &Sealer,
    mut invitation: Invitation,
    presented: &Secret,
    now: Time,
) -> Result<Answered, Fault> {
    let row = schema::resellers::consent(ConsentCode::handle(presented.expose()));
    let mut code: Option<ConsentCode> = rows.load(&row)?;
    let hash = TokenHash::hash(presented.expose());
    let accepted = invitation.accept(hash, code.as_mut(), now);
    if accepted == Err(NotAnswered::Over) {
        return Ok(Answered::Not(NotAnswered::Over));
    }
    // A wrong attempt is recorded too.
    save(rows, sealer, &invitation)?;
    if let Some(code) = &code {
        rows.save(row, code)?;
    }
    let merchant = match accepted {
        Ok(merchant) => merchant,
        Err(not) => return Ok(Answered::Not(not)),
    };
    let (reseller, id) = (invitation.reseller, invitation.id);
    let audited = accepted_by(merchant, id);
    let authorized =
        delegations::authorize(rows, (reseller, merchant), Some(id), None, audited, now);
    authorized.map(Answered::Accepted)
}
