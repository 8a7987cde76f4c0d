//! `SharedModules` on PostgreSQL. Each change also increments the directory's version, so that all nodes see it
//! with their next heartbeat.

use kassette_domain::audit::Audited;
use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;
use kassette_engine::IVec;
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;

use crate::postgres::database::{Arguments, Failure, TransactionWork, Tx, execute, row};
use crate::postgres::{PostgresStore, audit, millis, time};
use crate::rows::records::OTHER_COLUMNS;
use crate::rows::seal::Sealer;
use crate::rows::{records, schema};
use crate::{
    Fault, KEPT_VERSIONS, Proposal, SharedModules, SlotChange, SlotContent, SlotStage, StoreFuture,
    TRIAL_CAUSE,
};

/// Columns that [`ChangeRow::read`] reads.
macro_rules! columns {
    () => {
        "number, slot, digest, cause, disabled, candidate, proposed, at, body"
    };
}

/// Removes proposals of nodes that are gone, and of this node's earlier incarnations.
const CLEAR: &str = "DELETE FROM slot_change c WHERE c.proposed AND (c.proposer = $1
    OR NOT EXISTS (SELECT FROM node n WHERE n.name = c.proposer AND n.incarnation = c.incarnation))";
const IS_PROPOSED: &str = "SELECT EXISTS (SELECT FROM slot_change WHERE proposed)";
const ADD_BYTES: &str =
    "INSERT INTO module (digest, bytes) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
/// Numbers are never reused, even after a withdrawal: nodes report which changes they have checked by number.
const NEXT: &str =
    "UPDATE counter SET value = value + 1 WHERE name = 'slot_change' RETURNING value";
const ADD: &str = "INSERT INTO slot_change
    (number, slot, digest, cause, disabled, candidate, proposed, at, proposer, incarnation, body)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
const PROPOSED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM slot_change WHERE number = $1 AND proposed FOR UPDATE"
);
/// Assigns a new number: nodes may have followed other changes in the meantime.
const SETTLE: &str =
    "UPDATE slot_change SET proposed = false, number = $2, body = $3 WHERE number = $1";
const WITHDRAW: &str = "DELETE FROM slot_change WHERE number = $1 AND proposed";
/// Deletes changes of a slot that no node needs, separately for each kind of change, so that trials do not push
/// out versions that served. The change that puts a version on trial contains its digest, so its bytes remain.
const PRUNE: &str = "WITH placed AS (
        SELECT number, cause IS NOT NULL AS is_version, row_number() OVER (
            PARTITION BY cause = $3, candidate IS NULL ORDER BY number DESC) AS place
        FROM slot_change WHERE slot = $1 AND NOT proposed)
    DELETE FROM slot_change c USING placed p
    WHERE c.number = p.number AND p.place > CASE WHEN p.is_version THEN $2::bigint ELSE 1 END";
const FORGET_SLOT: &str = "DELETE FROM slot_change WHERE slot = $1 AND NOT proposed";
const FORGET_TRIAL: &str = "DELETE FROM trial WHERE slot = $1";
const PRUNE_BYTES: &str = "DELETE FROM module m
    WHERE NOT EXISTS (SELECT FROM slot_change c WHERE c.digest = m.digest)";
const CHANGES: &str = concat!(
    "/* modules: changes */ SELECT ",
    columns!(),
    " FROM slot_change WHERE number > $1 OR proposed ORDER BY number"
);
/// All changes, for verification.
pub(crate) const ALL_CHANGES: &str = concat!(
    "/* verify: slots */ SELECT ",
    columns!(),
    " FROM slot_change ORDER BY number"
);
const BYTES: &str = "/* modules: bytes */ SELECT bytes FROM module WHERE digest = $1";

/// A change's row: columns, and the authenticated body that contains the same values.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ChangeRow {
    slot: String,
    digest: Option<[u8; 32]>,
    cause: Option<String>,
    disabled: Option<bool>,
    candidate: Option<String>,
    proposed: bool,
    at: Time,
}

impl ChangeRow {
    fn body(&self, sealer: &Sealer, number: u64) -> Result<IVec, Fault> {
        records::encode(sealer, &schema::slot_change(number), self)
    }

    /// The number and the change of a row.
    fn read(sealer: &Sealer, row: &Row) -> Result<(u64, Self), Fault> {
        let number = row.get::<_, i64>(0).unsigned_abs();
        let key = schema::slot_change(number);
        let body: Self = records::decode(sealer, &key, row.get(8))?;
        let digest = row.get::<_, Option<&[u8]>>(2);
        let columns = body.slot == row.get::<_, &str>(1)
            && body.digest.as_ref().map(|digest| &digest[..]) == digest
            && body.cause.as_deref() == row.get::<_, Option<&str>>(3)
            && body.disabled == row.get(4)
            && body.candidate.as_deref() == row.get::<_, Option<&str>>(5)
            && body.proposed == row.get::<_, bool>(6)
            && body.at == time(row.get(7));
        match columns {
            true => Ok((number, body)),
            false => Err(records::damaged(&key, OTHER_COLUMNS)),
        }
    }
}

/// The node that proposes a change.
#[derive(Clone)]
struct Proposer {
    name: String,
    incarnation: i64,
}

struct Propose {
    proposal: Proposal,
    proposer: Proposer,
    now: Time,
}

impl TransactionWork for Propose {
    type Outcome = Option<u64>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Option<u64>, Failure> {
        execute(tx, CLEAR, &[&self.proposer.name]).await?;
        let is_proposed = row(tx, IS_PROPOSED, &[]).await?;
        if is_proposed.is_some_and(|row| row.get(0)) {
            return Ok(None);
        }
        let Proposal { slot, bytes, cause } = &self.proposal;
        let digest = Digest::hash(bytes);
        execute(tx, ADD_BYTES, &[&&digest.0[..], bytes]).await?;
        let content = SlotContent::Version {
            digest,
            cause: cause.clone(),
        };
        add(tx, slot, &content, true, &self.proposer, self.now)
            .await
            .map(Some)
    }
}

struct Settle {
    number: i64,
    audited: Option<Audited>,
    now: Time,
}

impl TransactionWork for Settle {
    type Outcome = Option<u64>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Option<u64>, Failure> {
        let Some(proposed) = row(tx, PROPOSED, &[&self.number]).await? else {
            return Ok(None);
        };
        let (_, proposed) = ChangeRow::read(tx.sealer(), &proposed)?;
        let next = next_number(tx).await?;
        let settled = ChangeRow {
            proposed: false,
            ..proposed
        };
        let body = settled.body(tx.sealer(), next)?;
        let arguments: Arguments<'_> = &[&self.number, &crate::postgres::number(next), &&body[..]];
        execute(tx, SETTLE, arguments).await?;
        prune(tx, &settled.slot).await?;
        if let Some(audited) = self.audited.clone() {
            audit::append(tx, audited, self.now).await?;
        }
        Ok(Some(next))
    }
}

struct Withdraw {
    number: i64,
}

impl TransactionWork for Withdraw {
    type Outcome = ();

    async fn apply(&self, tx: &Tx<'_>) -> Result<(), Failure> {
        execute(tx, WITHDRAW, &[&self.number]).await?;
        execute(tx, PRUNE_BYTES, &[]).await.map(drop)
    }
}

struct ChangeSlot {
    slot: Slot,
    content: SlotContent,
    proposer: Proposer,
    audited: Audited,
    now: Time,
}

impl TransactionWork for ChangeSlot {
    type Outcome = u64;

    async fn apply(&self, tx: &Tx<'_>) -> Result<u64, Failure> {
        let slot = self.slot.as_str();
        let (content, proposer) = (&self.content, &self.proposer);
        if self.content == SlotContent::Removed {
            execute(tx, FORGET_SLOT, &[&slot]).await?;
            execute(tx, FORGET_TRIAL, &[&slot]).await?;
        }
        let number = add(tx, &self.slot, content, false, proposer, self.now).await?;
        prune(tx, slot).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(number)
    }
}

async fn prune(tx: &Tx<'_>, slot: &str) -> Result<(), Failure> {
    let kept = i64::try_from(KEPT_VERSIONS).unwrap_or(i64::MAX);
    execute(tx, PRUNE, &[&slot, &kept, &TRIAL_CAUSE]).await?;
    execute(tx, PRUNE_BYTES, &[]).await.map(drop)
}

async fn add(
    tx: &Tx<'_>,
    slot: &Slot,
    content: &SlotContent,
    proposed: bool,
    proposer: &Proposer,
    now: Time,
) -> Result<u64, Failure> {
    let (mut digest, mut cause, mut disabled, mut candidate) = (None, None, None, None);
    match content {
        SlotContent::Version {
            digest: of,
            cause: by,
        } => (digest, cause) = (Some(of), Some(by)),
        SlotContent::Disabled(position) => disabled = Some(*position),
        SlotContent::Candidate(on_trial) => {
            digest = on_trial.as_ref().map(|on_trial| &on_trial.digest);
            candidate = Some(text(on_trial.as_ref())?);
        }
        SlotContent::Removed => {}
    }
    let change = ChangeRow {
        slot: slot.as_str().to_owned(),
        digest: digest.map(|digest| digest.0),
        cause: cause.cloned(),
        disabled,
        candidate,
        proposed,
        at: now,
    };
    let number = next_number(tx).await?;
    let body = change.body(tx.sealer(), number)?;
    let digest = change.digest.as_ref().map(|digest| &digest[..]);
    let arguments: Arguments<'_> = &[
        &crate::postgres::number(number),
        &change.slot,
        &digest,
        &change.cause,
        &change.disabled,
        &change.candidate,
        &proposed,
        &millis(now),
        &proposer.name,
        &proposer.incarnation,
        &&body[..],
    ];
    execute(tx, ADD, arguments).await?;
    Ok(number)
}

async fn next_number(tx: &Tx<'_>) -> Result<u64, Failure> {
    let number = row(tx, NEXT, &[]).await?;
    let number = number.ok_or_else(|| Fault::Corrupt("a counter is missing".into()))?;
    Ok(number.get::<_, i64>(0).unsigned_abs())
}

/// JSON of the version on trial, `null` if there is none. Changes without this information have a NULL column
/// instead.
fn text(on_trial: Option<&Candidate>) -> Result<String, Fault> {
    serde_json::to_string(&on_trial)
        .map_err(|error| Fault::Unavailable(format!("a candidate cannot be encoded: {error}")))
}

impl PostgresStore {
    fn proposer(&self) -> Proposer {
        Proposer {
            name: self.node_state.name.clone(),
            incarnation: self.node_state.incarnation(),
        }
    }
}

impl SharedModules for PostgresStore {
    fn shares_modules(&self) -> bool {
        true
    }

    fn propose_version(&self, proposal: Proposal, now: Time) -> StoreFuture<'_, Option<u64>> {
        self.operate(Propose {
            proposal,
            proposer: self.proposer(),
            now,
        })
    }

    fn settle_version(
        &self,
        number: u64,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Option<u64>> {
        self.operate(Settle {
            number: crate::postgres::number(number),
            audited,
            now,
        })
    }

    fn withdraw_version(&self, number: u64) -> StoreFuture<'_, ()> {
        let number = crate::postgres::number(number);
        self.operate(Withdraw { number })
    }

    fn change_slot(
        &self,
        slot: Slot,
        content: SlotContent,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, u64> {
        self.operate(ChangeSlot {
            slot,
            content,
            proposer: self.proposer(),
            audited,
            now,
        })
    }

    fn slot_changes(&self, after: u64) -> StoreFuture<'_, Vec<SlotChange>> {
        Box::pin(async move {
            let after = crate::postgres::number(after);
            let found = self.workers.read(CHANGES, &[&after]).await?;
            let mut changes = Vec::new();
            for row in &found {
                // Nodes ignore changes that are not authentic.
                changes.extend(records::readable(change(&self.secrets.sealer, row))?);
            }
            Ok(changes)
        })
    }

    fn module_bytes(&self, digest: Digest) -> StoreFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let found = self.workers.read_one(BYTES, &[&&digest.0[..]]).await?;
            let bytes = found.map(|row| row.get::<_, Vec<u8>>(0));
            match bytes {
                Some(bytes) if Digest::hash(&bytes) != digest => {
                    Err(Fault::Corrupt(format!("the module {digest}")))
                }
                bytes => Ok(bytes),
            }
        })
    }
}

/// Reads a change from a row of `columns!`.
pub(crate) fn change(sealer: &Sealer, row: &Row) -> Result<SlotChange, Fault> {
    let (number, change) = ChangeRow::read(sealer, row)?;
    let damaged = || Fault::Corrupt(format!("the change {number} of a slot"));
    let candidate = change.candidate.as_deref().map(serde_json::from_str);
    let candidate = candidate.transpose().map_err(|_| damaged())?;
    let content = match (candidate, change.digest, change.disabled) {
        (Some(candidate), ..) => SlotContent::Candidate(candidate),
        (None, Some(digest), _) => SlotContent::Version {
            digest: Digest(digest),
            cause: change.cause.unwrap_or_default(),
        },
        (None, None, Some(disabled)) => SlotContent::Disabled(disabled),
        (None, None, None) => SlotContent::Removed,
    };
    Ok(SlotChange {
        number,
        slot: Slot::parse(&change.slot).ok_or_else(damaged)?,
        content,
        stage: match change.proposed {
            true => SlotStage::Proposed,
            false => SlotStage::Settled,
        },
        at: change.at,
    })
}
