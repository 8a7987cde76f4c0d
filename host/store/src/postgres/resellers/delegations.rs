//! Delegations of merchants to resellers, and the permissions that follow from them.

use kassette_domain::audit::Audited;
use kassette_domain::delegation::{
    self, DelegatedMerchant, Delegation, DelegationDecision, DelegationStatus,
};
use kassette_domain::id::{InvitationId, MerchantId, ResellerId};
use kassette_domain::key::Environment;
use kassette_domain::reseller::{Reseller, ResellerNotAllowed, may_process, may_refund, may_work};
use kassette_domain::time::Time;
use tokio_postgres::Row;

use crate::postgres::columns::{id, merchant_id, reseller_id};
use crate::postgres::database::{Database, Failure, TransactionWork, Tx, execute, row};
use crate::postgres::directory::merchants;
use crate::postgres::lists::{ListPosition, ListQuery};
use crate::postgres::resellers::registry;
use crate::postgres::{PostgresStore, audit, millis, number, uuid};
use crate::rows::invitations::InvitationRow;
use crate::rows::seal::Sealer;
use crate::rows::{self, records, schema};
use crate::{Fault, Listed, Paging};

/// Maximum number of rows of a reseller's list that one call reads.
const MAX_SCAN: usize = 2000;

pub(super) const ONE: &str = "/* delegation */ SELECT reseller, merchant, body FROM delegation
    WHERE reseller = $1 AND merchant = $2";

/// Decodes a delegation from the columns `reseller`, `merchant` and `body`, starting at column `at`. `None` if
/// the outer join has found none.
pub(super) fn joined(sealer: &Sealer, row: &Row, at: usize) -> Result<Option<Delegation>, Fault> {
    if row.get::<_, Option<i64>>(at).is_none() {
        return Ok(None);
    }
    let key = schema::resellers::delegation(reseller_id(row, at), merchant_id(row, at + 1));
    records::decode(sealer, &key, row.get(at + 2)).map(Some)
}

async fn load(
    tx: &Tx<'_>,
    reseller: ResellerId,
    merchant: MerchantId,
) -> Result<Option<Delegation>, Failure> {
    let found = row(tx, ONE, &[&number(reseller.0), &number(merchant.0)]).await?;
    Ok(found
        .map(|found| joined(tx.sealer(), &found, 0))
        .transpose()?
        .flatten())
}

async fn save(tx: &Tx<'_>, delegation: &Delegation) -> Result<(), Failure> {
    let key = schema::resellers::delegation(delegation.reseller, delegation.merchant);
    let body = records::encode(tx.sealer(), &key, delegation)?;
    let sql = "/* delegation: save */ INSERT INTO delegation
        (reseller, merchant, authorized, invitation, created_at, body) VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (reseller, merchant) DO UPDATE SET authorized = $3, invitation = $4, body = $6";
    let (reseller, merchant) = (number(delegation.reseller.0), number(delegation.merchant.0));
    let authorized = delegation.status() == DelegationStatus::Authorized;
    let invitation = delegation.invitation.map(|id| uuid(id.as_bytes()));
    let made = millis(delegation.created_at);
    execute(
        tx,
        sql,
        &[
            &reseller,
            &merchant,
            &authorized,
            &invitation,
            &made,
            &&body[..],
        ],
    )
    .await?;
    Ok(())
}

/// Grants a delegation, in the transaction of its cause. Call within a change of the directory.
pub(super) async fn authorize(
    tx: &Tx<'_>,
    (reseller, merchant): (ResellerId, MerchantId),
    invitation: Option<InvitationId>,
    refunds: Option<bool>,
    audited: Audited,
    now: Time,
) -> Result<Delegation, Failure> {
    let known = load(tx, reseller, merchant).await?;
    let before = known.clone();
    let mut delegation = match known {
        Some(mut delegation) => {
            delegation.authorize(invitation, now);
            delegation
        }
        None => Delegation::authorized(reseller, merchant, invitation, now),
    };
    delegation.refunds = refunds.unwrap_or(delegation.refunds);
    save(tx, &delegation).await?;
    let audited = delegation::told(audited, before.as_ref(), &delegation);
    audit::append(tx, audited, now).await?;
    Ok(delegation)
}

/// An operator's decision about a delegation.
pub(super) struct SetDelegation {
    pub(super) reseller: ResellerId,
    pub(super) merchant: MerchantId,
    pub(super) decision: DelegationDecision,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for SetDelegation {
    type Outcome = Option<Delegation>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let (between, audited) = ((self.reseller, self.merchant), self.audited.clone());
        if registry::load(tx, self.reseller).await?.is_none()
            || merchants::load(tx, self.merchant).await?.is_none()
        {
            return Ok(None);
        }
        if let DelegationDecision::Authorize { refunds } = self.decision {
            return authorize(tx, between, None, refunds, audited, self.now)
                .await
                .map(Some);
        }
        let Some(mut delegation) = load(tx, self.reseller, self.merchant).await? else {
            return Ok(None);
        };
        let before = delegation.clone();
        delegation.revoke(self.now);
        save(tx, &delegation).await?;
        let audited = delegation::told(audited, Some(&before), &delegation);
        audit::append(tx, audited, self.now).await?;
        Ok(Some(delegation))
    }
}

/// The reseller, its delegation from the merchant, and the merchant, which may be approved for live.
const BARS: &str = "/* delegation: bars */
    SELECT r.body, d.reseller, d.merchant, d.body, m.body
    FROM reseller r
        LEFT JOIN delegation d ON d.reseller = r.id AND d.merchant = $2
        LEFT JOIN merchant m ON m.id = $2
    WHERE r.id = $1";

/// Reason why a reseller may not work for a merchant. `None` if it may.
pub(crate) async fn bars(
    database: &Database,
    reseller: ResellerId,
    merchant: MerchantId,
    environment: Environment,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    let may = |who: &Reseller, delegation: Option<&Delegation>, _: bool| {
        may_work(who, delegation, environment)
    };
    barred(database, reseller, merchant, may).await
}

/// Reason why a reseller may not refund its payments of a merchant. `None` if it may.
pub(crate) async fn bars_refund(
    database: &Database,
    reseller: ResellerId,
    merchant: MerchantId,
    environment: Environment,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    let may = |who: &Reseller, delegation: Option<&Delegation>, _: bool| {
        may_refund(who, delegation, environment)
    };
    barred(database, reseller, merchant, may).await
}

/// Reason why a reseller may not create a payment for a merchant: in live, the merchant must be approved too.
pub(crate) async fn bars_creation(
    database: &Database,
    reseller: ResellerId,
    merchant: MerchantId,
    environment: Environment,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    let may = |who: &Reseller, delegation: Option<&Delegation>, approved: bool| {
        may_process(who, delegation, approved, environment)
    };
    barred(database, reseller, merchant, may).await
}

/// Applies a rule to a reseller, its delegation and the merchant's approval for live; returns the reason for a
/// refusal.
async fn barred(
    database: &Database,
    reseller: ResellerId,
    merchant: MerchantId,
    may: impl Fn(&Reseller, Option<&Delegation>, bool) -> Result<(), ResellerNotAllowed>,
) -> Result<Option<ResellerNotAllowed>, Fault> {
    let found = database
        .read_one(BARS, &[&number(reseller.0), &number(merchant.0)])
        .await?;
    let Some(found) = found else {
        return Ok(Some(ResellerNotAllowed::NotAuthorized));
    };
    let who = registry::decode(database.sealer(), reseller, found.get(0))?;
    let delegation = joined(database.sealer(), &found, 1)?;
    let body: Option<&[u8]> = found.get(4);
    let approved = body.map(|body| merchants::decode(database.sealer(), merchant, body));
    let approved = approved
        .transpose()?
        .is_some_and(|merchant| merchant.live_approved);
    Ok(may(&who, delegation.as_ref(), approved).err())
}

/// Relations of reseller `$1` before the position `($2, $3)`, newest first, at most `$4`: its invitations with
/// their outcomes, and merchants that an operator authorized without an invitation.
const LIST: &str = "/* delegations: list */
    SELECT l.at, l.id, l.invitation, l.body, d.reseller, d.merchant, d.body, m.body
    FROM (
        (SELECT created_at AS at, id, true AS invitation, body, merchant FROM invitation
            WHERE reseller = $1 AND (created_at, id) < ($2, $3) ORDER BY created_at DESC, id DESC LIMIT $4)
        UNION ALL
        (SELECT created_at, lpad(to_hex(merchant), 32, '0')::uuid, false, NULL, merchant FROM delegation
            WHERE reseller = $1 AND invitation IS NULL
                AND (created_at, lpad(to_hex(merchant), 32, '0')::uuid) < ($2, $3)
            ORDER BY created_at DESC, merchant DESC LIMIT $4)
        ) l
        LEFT JOIN delegation d ON d.reseller = $1 AND d.merchant = l.merchant
        LEFT JOIN merchant m ON m.id = l.merchant AND NOT l.invitation
    ORDER BY l.at DESC, l.id DESC LIMIT $4";

impl PostgresStore {
    /// The merchants of a reseller, newest first.
    pub(super) async fn list_merchants(
        &self,
        reseller: ResellerId,
        paging: Paging,
        now: Time,
    ) -> Result<Listed<DelegatedMerchant>, Fault> {
        let tag = [b"delegated/".as_slice(), &reseller.0.to_be_bytes()].concat();
        let Some(asked) = ListQuery::read(&self.secrets.sealer, &tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let mut before = asked.before;
        let (mut found, mut looked) = (Vec::new(), 0);
        loop {
            let ListPosition(at, id) = before;
            let arguments: crate::postgres::database::Arguments<'_> =
                &[&number(reseller.0), &at, &id, &asked.rows()];
            let rows = self.requests.read(LIST, arguments).await?;
            for row in &rows {
                before = ListPosition(row.get(0), row.get(1));
                found.extend(shown(&self.secrets.sealer, row, now)?.map(|shown| (before, shown)));
            }
            looked += rows.len();
            if rows.len() <= asked.limit || found.len() > asked.limit {
                return asked.page(found);
            }
            if looked >= MAX_SCAN {
                let items = found.into_iter().map(|(_, item)| item).collect();
                return asked.page_up_to(items, Some(before));
            }
        }
    }
}

/// A row of a reseller's list. `None` for an invitation that a later one replaces.
fn shown(sealer: &Sealer, row: &Row, now: Time) -> Result<Option<DelegatedMerchant>, Fault> {
    let delegation = joined(sealer, row, 4)?;
    if !row.get::<_, bool>(2) {
        let delegation =
            delegation.ok_or_else(|| Fault::Corrupt("a delegation is missing".into()))?;
        let key = schema::merchant(delegation.merchant);
        let merchant: Option<&[u8]> = row.get(7);
        let merchant = merchant.ok_or_else(|| records::damaged(&key, "it is missing"))?;
        return Ok(Some(DelegatedMerchant {
            merchant: Some(delegation.merchant),
            business_name: rows::merchants::decode(sealer, &key, merchant)?.name,
            status: delegation.status(),
            authorized_at: Some(delegation.authorized_at),
            client_ref: None,
            invitation: None,
            refunds: delegation.refunds,
            created_at: delegation.created_at,
        }));
    }
    let id = id(row, 1, InvitationId::from_bytes);
    let invitation: InvitationRow =
        records::decode(sealer, &schema::resellers::invitation(id), row.get(3))?;
    Ok(invitation.delegated(id, delegation, now))
}
