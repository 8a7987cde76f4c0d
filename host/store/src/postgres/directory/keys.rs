//! API keys.

use kassette_domain::audit::Audited;
use kassette_domain::id::KeyId;
use kassette_domain::key::{ApiKey, Environment, KeyOwner, TokenHash};
use kassette_domain::time::Time;
use tokio_postgres::Row;

use crate::postgres::database::{Database, Failure, TransactionWork, Tx, execute, row};
use crate::postgres::directory::merchants;
use crate::postgres::lists::ListPosition;
use crate::postgres::{PostgresStore, audit, millis, number, time, uuid};
use crate::rows::records::OTHER_COLUMNS;
use crate::rows::seal::Sealer;
use crate::rows::{records, schema};
use crate::{Fault, KeyIssued, Listed, MAX_SEEN, Paging};

/// A key with the time of its last use.
const SEEN: &str = "SELECT k.hash, k.body, s.seen, k.created_at, k.id FROM api_key k LEFT JOIN api_key_seen s USING (hash)";

/// Stored kind and number of an owner.
pub(crate) fn owner(owner: KeyOwner) -> (i16, i64) {
    match owner {
        KeyOwner::Merchant(id) => (0, number(id.0)),
        KeyOwner::Reseller(id) => (1, number(id.0)),
    }
}

/// Stored number of an environment.
pub(crate) const fn environment(environment: Environment) -> i16 {
    match environment {
        Environment::Test => 0,
        Environment::Live => 1,
    }
}

/// Decodes a key from its hash and body.
pub(crate) fn decode(sealer: &Sealer, hash: &[u8], body: &[u8]) -> Result<ApiKey, Fault> {
    let hash = hash
        .try_into()
        .map_err(|_| Fault::Corrupt("the hash of a key".into()))?;
    records::decode(sealer, &schema::api_key(TokenHash(hash)), body)
}

fn with_last_use(sealer: &Sealer, row: &Row) -> Result<ApiKey, Fault> {
    let mut key = decode(sealer, row.get(0), row.get(1))?;
    key.last_used_at = row.get::<_, Option<i64>>(2).map(time);
    Ok(key)
}

async fn by_id(tx: &Tx<'_>, id: KeyId) -> Result<Option<ApiKey>, Failure> {
    let found = row(
        tx,
        "SELECT hash, body FROM api_key WHERE id = $1",
        &[&uuid(id.as_bytes())],
    )
    .await?;
    let key = found
        .map(|row| decode(tx.sealer(), row.get(0), row.get(1)))
        .transpose()?;
    Ok(key.map(|key| with_id(key, id)).transpose()?)
}

/// Returns a key that was found by an id, if its body contains that id.
fn with_id(key: ApiKey, id: KeyId) -> Result<ApiKey, Fault> {
    match key.id == id {
        true => Ok(key),
        false => Err(records::damaged(&schema::api_key(key.hash), OTHER_COLUMNS)),
    }
}

/// Reason why a key must not be issued, read in the transaction that would insert it.
async fn refused(tx: &Tx<'_>, key: &ApiKey) -> Result<Option<KeyIssued>, Failure> {
    let merchant = match key.owner {
        KeyOwner::Merchant(id) => merchants::load(tx, id).await?,
        // Live keys of a reseller are unusable until its live rollout is enabled.
        KeyOwner::Reseller(id) => {
            let found = row(tx, "SELECT FROM reseller WHERE id = $1", &[&number(id.0)]).await?;
            return Ok(found.is_none().then_some(KeyIssued::Unknown));
        }
    };
    Ok(match merchant {
        None => Some(KeyIssued::Unknown),
        Some(merchant) if !merchant.may_use(key.environment) => Some(KeyIssued::NotLiveApproved),
        Some(_) => None,
    })
}

/// Loads a key, without the time of its last use.
pub(crate) async fn load(tx: &Tx<'_>, hash: TokenHash) -> Result<Option<ApiKey>, Failure> {
    let found = row(
        tx,
        "SELECT hash, body FROM api_key WHERE hash = $1",
        &[&&hash.0[..]],
    )
    .await?;
    Ok(found
        .map(|row| decode(tx.sealer(), row.get(0), row.get(1)))
        .transpose()?)
}

/// Whether the calling key is still usable and belongs to this owner and environment.
pub(crate) async fn may_use(
    database: &Database,
    hash: TokenHash,
    owner: KeyOwner,
    environment: Environment,
    now: Time,
) -> Result<bool, Fault> {
    let sql = "SELECT hash, body FROM api_key WHERE hash = $1";
    let found = database.read_one(sql, &[&&hash.0[..]]).await?;
    let key = found
        .map(|row| decode(database.sealer(), row.get(0), row.get(1)))
        .transpose()?;
    Ok(key.is_some_and(|key| key.usable_by(owner, environment, now)))
}

/// Inserts a key whose owner exists. Call within a change of the directory.
pub(crate) async fn write_new(tx: &Tx<'_>, key: &ApiKey) -> Result<(), Failure> {
    let sql = "INSERT INTO api_key (hash, id, owner_kind, owner, environment, created_at, expires_at, revoked, body)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING";
    match save(tx, sql, key).await? {
        1 => Ok(()),
        _ => Err(Fault::Unavailable("the key or its id is in use".into()).into()),
    }
}

/// Updates an existing key. Call within a change of the directory.
async fn replace(tx: &Tx<'_>, key: &ApiKey) -> Result<(), Failure> {
    let sql = "UPDATE api_key SET id = $2, owner_kind = $3, owner = $4, environment = $5, created_at = $6,
        expires_at = $7, revoked = $8, body = $9 WHERE hash = $1";
    save(tx, sql, key).await.map(drop)
}

async fn save(tx: &Tx<'_>, sql: &str, key: &ApiKey) -> Result<u64, Failure> {
    let body = records::encode(tx.sealer(), &schema::api_key(key.hash), key)?;
    let (kind, owner) = owner(key.owner);
    let ends = key.expires_at.map(millis);
    let revoked = key.revoked_at.is_some();
    let (hash, id, made) = (
        &key.hash.0[..],
        uuid(key.id.as_bytes()),
        millis(key.created_at),
    );
    let environment = environment(key.environment);
    execute(
        tx,
        sql,
        &[
            &hash,
            &id,
            &kind,
            &owner,
            &environment,
            &made,
            &ends,
            &revoked,
            &&body[..],
        ],
    )
    .await
}

/// Revokes a key; the flag is false if it was revoked before. `None` if the key does not exist. Call within a
/// change of the directory.
pub(crate) async fn revoke(
    tx: &Tx<'_>,
    id: KeyId,
    now: Time,
) -> Result<Option<(ApiKey, bool)>, Failure> {
    let Some(mut key) = by_id(tx, id).await? else {
        return Ok(None);
    };
    let changed = key.revoked_at.is_none();
    if changed {
        key.revoked_at = Some(now);
        replace(tx, &key).await?;
    }
    Ok(Some((key, changed)))
}

/// Issues a key.
pub(super) struct Issue {
    pub(super) key: ApiKey,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for Issue {
    type Outcome = KeyIssued;

    async fn apply(&self, tx: &Tx<'_>) -> Result<KeyIssued, Failure> {
        if let Some(refused) = refused(tx, &self.key).await? {
            return Ok(refused);
        }
        write_new(tx, &self.key).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(KeyIssued::Done(self.key.clone()))
    }
}

/// Replaces a key by a new one.
pub(super) struct Rotate {
    pub(super) old: KeyId,
    pub(super) new: ApiKey,
    pub(super) old_ends: Time,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for Rotate {
    type Outcome = KeyIssued;

    async fn apply(&self, tx: &Tx<'_>) -> Result<KeyIssued, Failure> {
        let Some(mut old) = by_id(tx, self.old).await? else {
            return Ok(KeyIssued::Unknown);
        };
        if !old.usable(self.now) || old.owner != self.new.owner {
            return Ok(KeyIssued::Unknown);
        }
        if let Some(refused) = refused(tx, &self.new).await? {
            return Ok(refused);
        }
        // A rotation never extends a key's life.
        old.expires_at = Some(
            old.expires_at
                .map_or(self.old_ends, |end| end.min(self.old_ends)),
        );
        replace(tx, &old).await?;
        write_new(tx, &self.new).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(KeyIssued::Done(self.new.clone()))
    }
}

/// Revokes a key.
pub(super) struct Revoke {
    pub(super) id: KeyId,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for Revoke {
    type Outcome = Option<ApiKey>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let Some((key, changed)) = revoke(tx, self.id, self.now).await? else {
            return Ok(None);
        };
        if changed {
            audit::append(tx, self.audited.clone(), self.now).await?;
        }
        Ok(Some(key))
    }
}

impl PostgresStore {
    pub(super) async fn key_read(&self, hash: TokenHash) -> Result<Option<ApiKey>, Fault> {
        let found = self
            .requests
            .read_one(&format!("{SEEN} WHERE k.hash = $1"), &[&&hash.0[..]])
            .await?;
        let sealer = &self.secrets.sealer;
        let key = found.as_ref().map(|row| with_last_use(sealer, row));
        key.transpose()
    }

    pub(super) async fn key_read_by_id(&self, id: KeyId) -> Result<Option<ApiKey>, Fault> {
        let found = self
            .requests
            .read_one(&format!("{SEEN} WHERE k.id = $1"), &[&uuid(id.as_bytes())])
            .await?;
        let sealer = &self.secrets.sealer;
        let key = found.as_ref().map(|row| with_last_use(sealer, row));
        key.transpose()?.map(|key| with_id(key, id)).transpose()
    }

    pub(super) async fn keys_listed(
        &self,
        of: KeyOwner,
        paging: Paging,
    ) -> Result<Listed<ApiKey>, Fault> {
        let (kind, owner) = owner(of);
        let tag = [&b"kow/"[..], &kind.to_be_bytes(), &owner.to_be_bytes()].concat();
        let sql = format!(
            "{SEEN} WHERE k.owner_kind = $1 AND k.owner = $2 AND (k.created_at, k.id) < ($3, $4)
                ORDER BY k.created_at DESC, k.id DESC LIMIT $5"
        );
        self.list_by_time(&tag, paging, &sql, &[&kind, &owner], |sealer, row| {
            let key = with_last_use(sealer, row)?;
            if key.owner != of {
                return Err(records::damaged(&schema::api_key(key.hash), OTHER_COLUMNS));
            }
            Ok((ListPosition(row.get(3), row.get(4)), key))
        })
        .await
    }

    pub(super) async fn keys_noted(&self, seen: Vec<(TokenHash, Time)>) -> Result<(), Fault> {
        // Sorted and without duplicates, so that two nodes cannot deadlock and each row is written once.
        let latest: std::collections::BTreeMap<_, _> = {
            let mut seen: Vec<_> = seen
                .into_iter()
                .take(MAX_SEEN)
                .map(|(hash, at)| (hash.0, millis(at)))
                .collect();
            seen.sort_unstable();
            seen.into_iter().collect()
        };
        let (hashes, times): (Vec<[u8; 32]>, Vec<i64>) = latest.into_iter().unzip();
        let hashes: Vec<&[u8]> = hashes.iter().map(|hash| &hash[..]).collect();
        let sql = "WITH s AS (SELECT set_config('synchronous_commit', 'off', true))
            INSERT INTO api_key_seen AS known (hash, seen)
            SELECT v.hash, v.seen FROM s, unnest($1::bytea[], $2::bigint[]) AS v (hash, seen) JOIN api_key USING (hash)
            ORDER BY v.hash ON CONFLICT (hash) DO UPDATE SET seen = excluded.seen WHERE known.seen < excluded.seen";
        self.workers.repeat(sql, &[&hashes, &times]).await.map(drop)
    }
}
