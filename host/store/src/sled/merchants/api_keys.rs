//! API keys: issuing, rotating, revoking, last use.

use kassette_domain::audit::Audited;
use kassette_domain::id::KeyId;
use kassette_domain::key::{ApiKey, KeyOwner, TokenHash};
use kassette_domain::time::Time;
use kassette_engine::Operation;

use crate::rows::source::{RowSource, Save as _};
use crate::rows::{merchants, schema};
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};
use crate::sled::resellers::registry;
use crate::{Fault, KeyIssued};

/// Number of uses that one operation records.
pub(crate) const SEEN_AT_ONCE: usize = 128;

/// A new key.
pub(crate) struct Issue {
    pub(crate) key: ApiKey,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for Issue {
    type Outcome = KeyIssued;

    fn apply(self, rows: &mut Rows<'_>) -> Result<KeyIssued, Fault> {
        if let Some(refused) = refused(rows, &self.key)? {
            return Ok(refused);
        }
        write_new(rows, &self.key)?;
        audit::append(rows, self.audited, self.now)?;
        Ok(KeyIssued::Done(self.key))
    }
}

/// Replaces a key by another.
pub(crate) struct Rotate {
    pub(crate) old: KeyId,
    pub(crate) new: ApiKey,
    pub(crate) old_ends: Time,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for Rotate {
    type Outcome = KeyIssued;

    fn apply(self, rows: &mut Rows<'_>) -> Result<KeyIssued, Fault> {
        let Some(mut old) = by_id(rows, self.old)? else {
            return Ok(KeyIssued::Unknown);
        };
        if !old.usable(self.now) || old.owner != self.new.owner {
            return Ok(KeyIssued::Unknown);
        }
        if let Some(refused) = refused(rows, &self.new)? {
            return Ok(refused);
        }
        // A rotation never extends the life of a key.
        old.expires_at = Some(
            old.expires_at
                .map_or(self.old_ends, |end| end.min(self.old_ends)),
        );
        rows.save(schema::api_key(old.hash), &old)?;
        write_new(rows, &self.new)?;
        audit::append(rows, self.audited, self.now)?;
        Ok(KeyIssued::Done(self.new))
    }
}

/// Revokes a key.
pub(crate) struct Revoke {
    pub(crate) id: KeyId,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for Revoke {
    type Outcome = Option<ApiKey>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let Some((key, changed)) = revoke(rows, self.id, self.now)? else {
            return Ok(None);
        };
        if changed {
            audit::append(rows, self.audited, self.now)?;
        }
        Ok(Some(key))
    }
}

/// Revokes a key. Returns it, and whether it was not revoked before. `None` if the key does not exist.
pub(crate) fn revoke(
    rows: &mut Rows<'_>,
    id: KeyId,
    now: Time,
) -> Result<Option<(ApiKey, bool)>, Fault> {
    let Some(mut key) = by_id(rows, id)? else {
        return Ok(None);
    };
    let changed = key.revoked_at.is_none();
    if changed {
        key.revoked_at = Some(now);
        rows.save(schema::api_key(key.hash), &key)?;
    }
    Ok(Some((key, changed)))
}

/// Records when keys were last used.
pub(crate) struct Seen(pub(crate) Vec<(TokenHash, Time)>);

impl Operation<Memory> for Seen {
    type Outcome = ();

    fn apply(self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        for (hash, at) in self.0 {
            if rows.get(&schema::api_key(hash))?.is_none() {
                continue;
            }
            let key = schema::api_key_seen(hash);
            if rows.load(&key)?.is_none_or(|before: Time| before < at) {
                rows.save(key, &at)?;
            }
        }
        Ok(())
    }
}

fn by_id(rows: &Rows<'_>, id: KeyId) -> Result<Option<ApiKey>, Fault> {
    match rows.load(&schema::api_key_index(id))? {
        Some(hash) => rows.expect(&schema::api_key(hash)).map(Some),
        None => Ok(None),
    }
}

/// Reason why a key must not be issued, checked in the transaction that would write it.
fn refused(rows: &Rows<'_>, key: &ApiKey) -> Result<Option<KeyIssued>, Fault> {
    let merchant = match key.owner {
        KeyOwner::Merchant(id) => merchants::load(rows, id)?,
        // The live keys of a reseller are not accepted until its live rollout is on.
        KeyOwner::Reseller(id) => {
            let there = registry::load(rows, id)?.is_some();
            return Ok((!there).then_some(KeyIssued::Unknown));
        }
    };
    Ok(match merchant {
        None => Some(KeyIssued::Unknown),
        Some(merchant) if !merchant.may_use(key.environment) => Some(KeyIssued::NotLiveApproved),
        Some(_) => None,
    })
}

/// Writes a key whose owner exists.
pub(crate) fn write_new(rows: &mut Rows<'_>, key: &ApiKey) -> Result<(), Fault> {
    let row = schema::api_key(key.hash);
    let index = schema::api_key_index(key.id);
    if rows.get(&row)?.is_some() || rows.get(&index)?.is_some() {
        return Err(Fault::Unavailable("the key or its id is in use".into()));
    }
    rows.save(row, key)?;
    rows.save(index, &key.hash)?;
    rows.save(
        schema::api_key_of(key.owner, key.created_at, key.id),
        &key.hash,
    )
}
