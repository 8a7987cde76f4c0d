//! `SharedModules` on PostgreSQL. Every change is one of the directory too, so that each node learns of it with its
//! next beat.

use kassette_domain::audit::Audited;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;
use tokio_postgres::Row;

use crate::postgres::database::{Arguments, Failure, Operation, Tx, execute, row};
use crate::postgres::{PostgresStore, audit, millis, time};
use crate::{
    Answer, Fault, KEPT_VERSIONS, Proposal, SharedModules, SlotChange, SlotContent, SlotStage,
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
    INSERT INTO slot_change (number, slot, digest, cause, disabled, proposed, proposer, incarnation, at)
    SELECT value, $1, $2, $3, $4, $5, $6, $7, $8 FROM next RETURNING number";
/// With a new number: nodes may have followed others meanwhile.
const SETTLE: &str = "WITH next AS (
        UPDATE counter SET value = value + 1 WHERE name = 'slot_change' RETURNING value)
    UPDATE slot_change SET proposed = false, number = value FROM next
    WHERE number = $1 AND proposed RETURNING slot, number";
const WITHDRAW: &str = "DELETE FROM slot_change WHERE number = $1 AND proposed";
/// What of a slot no node needs any more.
const PRUNE: &str = "DELETE FROM slot_change c WHERE c.slot = $1 AND NOT c.proposed AND (
    (c.digest IS NOT NULL AND c.number < coalesce((
        SELECT min(k.number) FROM (SELECT number FROM slot_change
            WHERE slot = $1 AND digest IS NOT NULL AND NOT proposed ORDER BY number DESC LIMIT $2) k), 0))
    OR (c.digest IS NULL AND c.number < (SELECT max(number) FROM slot_change
        WHERE slot = $1 AND digest IS NULL AND NOT proposed)))";
const FORGET_SLOT: &str = "DELETE FROM slot_change WHERE slot = $1 AND NOT proposed";
const PRUNE_BYTES: &str = "DELETE FROM module m
    WHERE NOT EXISTS (SELECT FROM slot_change c WHERE c.digest = m.digest)";
const CHANGES: &str =
    "/* modules: changes */ SELECT number, slot, digest, cause, disabled, proposed, at
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

impl Operation for Propose {
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

impl Operation for Settle {
    type Outcome = Option<u64>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Option<u64>, Failure> {
        let Some(settled) = row(tx, SETTLE, &[&self.number]).await? else {
            return Ok(None);
        };
        let (slot, kept) = (settled.get::<_, &str>(0), i64::try_from(KEPT_VERSIONS));
        execute(tx, PRUNE, &[&slot, &kept.unwrap_or(i64::MAX)]).await?;
        execute(tx, PRUNE_BYTES, &[]).await?;
        if let Some(audited) = self.audited.clone() {
            audit::append(tx, audited, self.now).await?;
        }
        Ok(Some(settled.get::<_, i64>(1).unsigned_abs()))
    }
}

struct Withdraw {
    number: i64,
}

impl Operation for Withdraw {
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

impl Operation for ChangeSlot {
    type Outcome = u64;

    async fn apply(&self, tx: &Tx<'_>) -> Result<u64, Failure> {
        let slot = self.slot.as_str();
        let (content, proposer) = (&self.content, &self.proposer);
        if self.content == SlotContent::Removed {
            execute(tx, FORGET_SLOT, &[&slot]).await?;
        }
        let number = add(tx, &self.slot, content, false, proposer, self.now).await?;
        let kept = i64::try_from(KEPT_VERSIONS).unwrap_or(i64::MAX);
        execute(tx, PRUNE, &[&slot, &kept]).await?;
        execute(tx, PRUNE_BYTES, &[]).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(number)
    }
}

async fn add(
    tx: &Tx<'_>,
    slot: &Slot,
    content: &SlotContent,
    proposed: bool,
    proposer: &Proposer,
    now: Time,
) -> Result<u64, Failure> {
    let (digest, cause, disabled) = match content {
        SlotContent::Version { digest, cause } => (Some(&digest.0[..]), Some(cause), None),
        SlotContent::Disabled(disabled) => (None, None, Some(disabled)),
        SlotContent::Removed => (None, None, None),
    };
    let (slot, now) = (slot.as_str(), millis(now));
    let Proposer { name, incarnation } = proposer;
    let arguments: Arguments<'_> = &[
        &slot,
        &digest,
        &cause,
        &disabled,
        &proposed,
        name,
        incarnation,
        &now,
    ];
    let number = row(tx, ADD, arguments).await?;
    let number = number.map(|row| row.get::<_, i64>(0));
    Ok(number.unwrap_or_default().unsigned_abs())
}

impl PostgresStore {
    fn proposer(&self) -> Proposer {
        Proposer {
            name: self.standing.name.clone(),
            incarnation: self.standing.incarnation(),
        }
    }
}

impl SharedModules for PostgresStore {
    fn shares_modules(&self) -> bool {
        true
    }

    fn propose_version(&self, proposal: Proposal, now: Time) -> Answer<'_, Option<u64>> {
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
    ) -> Answer<'_, Option<u64>> {
        self.operate(Settle {
            number: crate::postgres::number(number),
            audited,
            now,
        })
    }

    fn withdraw_version(&self, number: u64) -> Answer<'_, ()> {
        let number = crate::postgres::number(number);
        self.operate(Withdraw { number })
    }

    fn change_slot(
        &self,
        slot: Slot,
        content: SlotContent,
        audited: Audited,
        now: Time,
    ) -> Answer<'_, u64> {
        self.operate(ChangeSlot {
            slot,
            content,
            proposer: self.proposer(),
            audited,
            now,
        })
    }

    fn slot_changes(&self, after: u64) -> Answer<'_, Vec<SlotChange>> {
        Box::pin(async move {
            let after = crate::postgres::number(after);
            let found = self.workers.read(CHANGES, &[&after]).await?;
            found.iter().map(change).collect()
        })
    }

    fn module_bytes(&self, digest: Digest) -> Answer<'_, Option<Vec<u8>>> {
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
    let content = match (digest, row.get::<_, Option<bool>>(4)) {
        (Some(digest), _) => SlotContent::Version {
            digest: Digest(digest),
            cause: row.get::<_, Option<String>>(3).unwrap_or_default(),
        },
        (None, Some(disabled)) => SlotContent::Disabled(disabled),
        (None, None) => SlotContent::Removed,
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
