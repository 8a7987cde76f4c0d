//! Invitations: created once per reference, answered once.

use std::sync::Arc;

use kassette_domain::consent::ConsentCode;
use kassette_domain::id::InvitationId;
use kassette_domain::invitation::{Invitation, NewInvitation, NotAnswered, Reply};
use kassette_domain::key::{KeyOwner, TokenHash};
use kassette_domain::reseller::Reseller;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use tokio_postgres::Row;

use crate::postgres::columns::id;
use crate::postgres::database::{Failure, TransactionWork, Tx, execute, row};
use crate::postgres::directory::keys;
use crate::postgres::resellers::{consent_codes, delegations, registry};
use crate::postgres::{PostgresStore, audit, millis, number, uuid};
use crate::resellers::{accepted_by, declined};
use crate::rows::records::OTHER_COLUMNS;
use crate::rows::seal::{Sealer, Secrets};
use crate::rows::{invitations, records, schema};
use crate::{Answered, Fault, InvitationStanding, Invited};

/// Selects an invitation with the delegation that accepted it, if any, by the expression that `$1` is compared
/// with.
macro_rules! select_invitation {
    ($by:literal) => {
        concat!(
            "/* invitation */ SELECT i.id, i.body, d.reseller, d.merchant, d.body,
                i.reseller, i.client_ref, i.token_hash
            FROM invitation i LEFT JOIN delegation d
                ON d.reseller = i.reseller AND d.merchant = i.merchant WHERE ",
            $by
        )
    };
}

const BY_TOKEN: &str = select_invitation!("i.token_hash = $1");
/// The same, locking the invitation until the transaction ends.
const LOCK: &str = select_invitation!("i.token_hash = $1 FOR UPDATE OF i");
const BY_REFERENCE: &str = select_invitation!("i.reseller = $1 AND i.client_ref = $2");

/// An invitation with its status, from a row of `select_invitation!`.
fn with_status(sealer: &Sealer, row: &Row, now: Time) -> Result<InvitationStanding, Fault> {
    let id = id(row, 0, InvitationId::from_bytes);
    let key = schema::resellers::invitation(id);
    let invitation = invitations::open(sealer, id, records::decode(sealer, &key, row.get(1))?)?;
    let fits = number(invitation.reseller.0) == row.get::<_, i64>(5)
        && invitation.client_ref.as_str().as_bytes() == row.get::<_, &[u8]>(6)
        && TokenHash::hash(invitation.token.expose()).0 == row.get::<_, &[u8]>(7);
    if !fits {
        return Err(records::damaged(&key, OTHER_COLUMNS));
    }
    let delegation = delegations::joined(sealer, row, 2)?;
    if matches!(invitation.reply, Reply::Accepted { .. }) && delegation.is_none() {
        return Err(records::damaged(
            &key,
            "it was accepted, and what came of it is missing",
        ));
    }
    Ok(InvitationStanding {
        status: invitation.status(delegation.as_ref(), now),
        invitation,
    })
}

impl PostgresStore {
    /// Reads the invitation that a token opens.
    pub(super) async fn read_invitation(
        &self,
        token: TokenHash,
        now: Time,
    ) -> Result<Option<InvitationStanding>, Fault> {
        let found = self.requests.read_one(BY_TOKEN, &[&&token.0[..]]).await?;
        let sealer = &self.secrets.sealer;
        found
            .map(|found| with_status(sealer, &found, now))
            .transpose()
    }
}

/// Creates an invitation.
pub(super) struct Invite {
    pub(super) new: NewInvitation,
    pub(super) authority: Option<TokenHash>,
    pub(super) now: Time,
    pub(super) secrets: Arc<Secrets>,
}

impl Invite {
    /// Whether the reseller may still invite, checked in the transaction of the write.
    async fn may(&self, tx: &Tx<'_>) -> Result<bool, Failure> {
        let reseller = self.new.request.reseller;
        let Some(who) = registry::load(tx, reseller).await? else {
            return Ok(false);
        };
        let Some(hash) = self.authority else {
            return Ok(true);
        };
        let key = keys::load(tx, hash).await?;
        Ok(key.is_some_and(|key| {
            key.usable_by(KeyOwner::Reseller(reseller), key.environment, self.now)
                && who.may_use(key.environment)
        }))
    }
}

impl TransactionWork for Invite {
    type Outcome = Invited;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Invited, Failure> {
        let invitation = Invitation::new(self.new.clone(), self.now);
        let reseller = number(invitation.reseller.0);
        // Invitations of a reseller are inserted one after the other because they are counted.
        let sql = "/* reseller: lock */ SELECT FROM reseller WHERE id = $1 FOR NO KEY UPDATE";
        row(tx, sql, &[&reseller]).await?;
        if !self.may(tx).await? {
            return Ok(Invited::KeyRefused);
        }
        let sealer = &self.secrets.sealer;
        let reference = invitation.client_ref.as_str().as_bytes();
        if let Some(found) = row(tx, BY_REFERENCE, &[&reseller, &reference]).await? {
            let made_before = with_status(sealer, &found, self.now)?;
            return Ok(match made_before.invitation.differs(&invitation) {
                Some(field) => Invited::Differs { field },
                None => Invited::Replay(made_before),
            });
        }
        let sql = "/* invitations: count */ SELECT count(*) FROM invitation WHERE reseller = $1";
        let invited = row(tx, sql, &[&reseller]).await?;
        if invited.is_some_and(|row| row.get::<_, i64>(0) >= Reseller::MAX_INVITATIONS.into()) {
            return Ok(Invited::TooMany);
        }
        let (id, token) = (
            uuid(invitation.id.as_bytes()),
            TokenHash::hash(invitation.token.expose()),
        );
        let body = invitations::encode(sealer, &invitation)?;
        let sql = "/* invitation: insert */ INSERT INTO invitation
            (id, reseller, client_ref, token_hash, created_at, body)
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
        let (made, token) = (millis(self.now), &token.0[..]);
        if execute(
            tx,
            sql,
            &[&id, &reseller, &reference, &token, &made, &&body[..]],
        )
        .await?
            == 0
        {
            return Err(Fault::Unavailable("the invitation's id is in use".into()).into());
        }
        Ok(Invited::New(InvitationStanding {
            status: invitation.status(None, self.now),
            invitation,
        }))
    }
}

/// Updates an invitation.
async fn replace(tx: &Tx<'_>, sealer: &Sealer, invitation: &Invitation) -> Result<(), Failure> {
    let body = invitations::encode(sealer, invitation)?;
    let merchant = match invitation.reply {
        Reply::Accepted { merchant, .. } => Some(number(merchant.0)),
        Reply::Open | Reply::Declined { .. } => None,
    };
    let sql =
        "/* invitation: update */ UPDATE invitation SET merchant = $2, body = $3 WHERE id = $1";
    let id = uuid(invitation.id.as_bytes());
    execute(tx, sql, &[&id, &merchant, &&body[..]]).await?;
    Ok(())
}

async fn lock(
    tx: &Tx<'_>,
    sealer: &Sealer,
    token: TokenHash,
    now: Time,
) -> Result<Option<Invitation>, Failure> {
    let found = row(tx, LOCK, &[&&token.0[..]]).await?;
    let found = found
        .map(|found| with_status(sealer, &found, now))
        .transpose()?;
    Ok(found.map(|found| found.invitation))
}

/// Declines an invitation.
pub(super) struct Decline {
    pub(super) token: TokenHash,
    pub(super) now: Time,
    pub(super) secrets: Arc<Secrets>,
}

impl TransactionWork for Decline {
    type Outcome = Answered;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Answered, Failure> {
        let sealer = &self.secrets.sealer;
        let Some(mut invitation) = lock(tx, sealer, self.token, self.now).await? else {
            return Ok(Answered::Unknown);
        };
        if let Err(not) = invitation.decline(self.now) {
            return Ok(Answered::Not(not));
        }
        replace(tx, sealer, &invitation).await?;
        audit::append(tx, declined(&invitation), self.now).await?;
        Ok(Answered::Declined)
    }
}

/// Accepts an invitation, or counts a wrong code.
pub(super) struct Accept {
    pub(super) token: TokenHash,
    /// The consent code that the caller presented.
    pub(super) presented: Secret,
    pub(super) now: Time,
    pub(super) secrets: Arc<Secrets>,
}

impl TransactionWork for Accept {
    type Outcome = Answered;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Answered, Failure> {
        let (sealer, presented) = (&self.secrets.sealer, self.presented.expose());
        let Some(mut invitation) = lock(tx, sealer, self.token, self.now).await? else {
            return Ok(Answered::Unknown);
        };
        let mut code = consent_codes::lock(tx, ConsentCode::handle(presented)).await?;
        let accepted = invitation.accept(TokenHash::hash(presented), code.as_mut(), self.now);
        if accepted == Err(NotAnswered::Over) {
            return Ok(Answered::Not(NotAnswered::Over));
        }
        // A wrong attempt is stored too.
        replace(tx, sealer, &invitation).await?;
        if let Some(code) = &code {
            consent_codes::replace(tx, code).await?;
        }
        let merchant = match accepted {
            Ok(merchant) => merchant,
            Err(not) => return Ok(Answered::Not(not)),
        };
        let (reseller, id) = (invitation.reseller, invitation.id);
        let audited = accepted_by(merchant, id);
        let between = (reseller, merchant);
        let granted = delegations::authorize(tx, between, Some(id), None, audited, self.now);
        granted.await.map(Answered::Accepted)
    }
}
