//! `SharedModules` on PostgreSQL. Every change is one of the directory too, so that each node learns of it with its
//! next beat.

use kassette_domain::audit::Audited;
use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;
use tokio_postgres::Row;

use crate::postgres::database::{Arguments, Failure, TransactionWork, Tx, execute, row};
use crate::postgres::{PostgresStore, audit, millis, time};
use crate::{
    Fault, KEPT_VERSIONS, Proposal, SharedModules, SlotChange, SlotContent, SlotStage, StoreFuture,
    TRIAL_CAUSE,
};

/// What was proposed by nodes that live no more, or by this one before, is over.
const CLEAR: &str = "DELETE FROM slot_change c WHERE c.proposed AND (c.proposer = $1
    OR NOT EXISTS (SELECT FROM node n WHERE n.name = c.proposer AND n.incarnation = c.incarnation))";
const IS_PROPOSED: &str = "SELECT EXISTS (SELECT FROM slot_change WHERE proposed)";
const ADD_BYTES: &str =
    "INSERT INTO module (digest, bytes) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
/// No number comes twice, whatever was withdrawn: nodes say by it what they have checked.
const ADD: &str = "WITH next AS (
        UPDATE counter SET value = value + 1 WHERE name = 'slot_change' RETURNING value)
    INSERT INTO slot_change (number, slot, digest, cause, disabled, candidate, proposed, proposer, incarnation, at)
    SELECT value, $1, $2, $3, $4, $5, $6, $7, $8, $9 FROM next RETURNING number";
/// With a new number: nodes may have followed others meanwhile.
const SETTLE: &str = "WITH next AS (
        UPDATE counter SET value = value + 1 WHERE name = 'slot_change' RETURNING value)
    UPDATE slot_change SET proposed = false, number = value FROM next
    WHERE number = $1 AND proposed RETURNING slot, number";
const WITHDRAW: &str = "DELETE FROM slot_change WHERE number = $1 AND proposed";
/// What of a slot no node needs any more, of each kind of change by itself: what was on trial pushes no version out that
/// served. The change that puts a version on trial has its digest too, so that its bytes stay.
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
const CHANGES: &str =
    "/* modules: changes */ SELECT number, slot, digest, cause, disabled, proposed, at, candidate
    FROM slot_change WHERE number > $1 OR proposed ORDER BY number";
const BYTES: &str = "/* modules: bytes */ SELECT bytes FROM module WHERE digest = $1";

/// Who proposes.
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
        let digest = Digest::of(bytes);
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
        let Some(settled) = row(tx, SETTLE, &[&self.number]).await? else {
            return Ok(None);
        };
        prune(tx, settled.get(0)).await?;
        if let Some(audited) = self.audited.clone() {
            audit::append(tx, audited, self.now).await?;
        }
        Ok(Some(settled.get::<_, i64>(1).unsigned_abs()))
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
        SlotContent::Disabled(position) => disabled = Some(position),
        SlotContent::Candidate(on_trial) => {
            digest = on_trial.as_ref().map(|on_trial| &on_trial.digest);
            candidate = Some(text(on_trial.as_ref())?);
        }
        SlotContent::Removed => {}
    }
    let digest = digest.map(|digest| &digest.0[..]);
    let (slot, now) = (slot.as_str(), millis(now));
    let Proposer { name, incarnation } = proposer;
    let arguments: Arguments<'_> = &[
        &slot,
        &digest,
        &cause,
        &disabled,
        &candidate,
        &proposed,
        name,
        incarnation,
        &now,
    ];
    let number = row(tx, ADD, arguments).await?;
    let number = number.map(|row| row.get::<_, i64>(0));
    Ok(number.unwrap_or_default().unsigned_abs())
}

/// What is on trial; `null` where nothing is, other than in changes that say nothing of it.
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
            found.iter().map(change).collect()
        })
    }

    fn module_bytes(&self, digest: Digest) -> StoreFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let found = self.workers.read_one(BYTES, &[&&digest.0[..]]).await?;
            let bytes = found.map(|row| row.get::<_, Vec<u8>>(0));
            match bytes {
                Some(bytes) if Digest::of(&bytes) != digest => {
                    Err(Fault::Corrupt(format!("the module {digest}")))
                }
                bytes => Ok(bytes),
            }
        })
    }
}

fn change(row: &Row) -> Result<SlotChange, Fault> {
    let number = row.get::<_, i64>(0).unsigned_abs();
    let damaged = || Fault::Corrupt(format!("the change {number} of a slot"));
    let digest = row.get::<_, Option<&[u8]>>(2).map(<[u8; 32]>::try_from);
    let digest = digest.transpose().map_err(|_| damaged())?;
    let candidate = row.get::<_, Option<&str>>(7).map(serde_json::from_str);
    let candidate = candidate.transpose().map_err(|_| damaged())?;
    let content = match (candidate, digest, row.get::<_, Option<bool>>(4)) {
        (Some(candidate), ..) => SlotContent::Candidate(candidate),
        (None, Some(digest), _) => SlotContent::Version {
            digest: Digest(digest),
            cause: row.get::<_, Option<String>>(3).unwrap_or_default(),
        },
        (None, None, Some(disabled)) => SlotContent::Disabled(disabled),
        (None, None, None) => SlotContent::Removed,
    };
    Ok(SlotChange {
        number,
        slot: Slot::parse(row.get(1)).ok_or_else(damaged)?,
        content,
        stage: match row.get(5) {
            true => SlotStage::Proposed,
            false => SlotStage::Settled,
        },
        at: time(row.get(6)),
    })
}
