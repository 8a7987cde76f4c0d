//! `Directory` on sled, and the operations on merchants and account switches.

pub(crate) mod api_keys;
pub(crate) mod checks;
pub(crate) mod operators;

use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::id::{AccountId, KeyId, MerchantId, OperatorId};
use kassette_domain::key::{ApiKey, KeyOwner, TokenHash};
use kassette_domain::merchant::Merchant;
use kassette_domain::operator::Operator;
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation, Span};

use crate::rows::source::{RowSource, Save as _};
use crate::rows::{self, merchants, records, schema};
use crate::sled::audit::{self, Audit};
use crate::sled::lists::{Order, TIME_AND_ID};
use crate::sled::memory::{Memory, Rows, View};
use crate::sled::merchants::api_keys::{Issue, Revoke, Rotate, SEEN_AT_ONCE, Seen};
use crate::sled::merchants::operators::{CreateOperator, RemoveOperator};
use crate::sled::store::SledStore;
use crate::{
    Directory, Fault, KeyIssued, Listed, MAX_SEEN, NewMerchant, Paging, Replaced, StoreFuture,
};

/// Bytes of a number.
const NUMBER: usize = 8;
/// Maximum number of account switches: one per account that was ever configured.
const MAX_SWITCHES: usize = 10_000;

struct CreateMerchant {
    merchant: Merchant,
    audited: Audited,
    now: Time,
}

impl Operation<Memory> for CreateMerchant {
    type Outcome = Merchant;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Merchant, Fault> {
        let last: u64 = rows.load(schema::MERCHANT_COUNT)?.unwrap_or_default();
        let id = MerchantId(last + 1);
        let merchant = Merchant {
            id,
            ..self.merchant
        };
        rows.save(schema::MERCHANT_COUNT.to_vec(), &id.0)?;
        let (key, row) = merchants::encode(rows.sealer(), &merchant)?;
        rows.put(key, row);
        let audited = Audited {
            object: format!("merchant/{id}"),
            ..self.audited
        };
        audit::append(rows, audited, self.now)?;
        Ok(merchant)
    }
}

struct ReplaceMerchant {
    before: Merchant,
    after: Merchant,
    audited: Audited,
    now: Time,
}

impl Operation<Memory> for ReplaceMerchant {
    type Outcome = Replaced<Merchant>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let Some(stored) = merchants::load(rows, self.before.id)? else {
            return Ok(Replaced::Unknown);
        };
        if stored != self.before {
            return Ok(Replaced::Stale);
        }
        let after = Merchant {
            id: stored.id,
            ..self.after
        };
        let (key, row) = merchants::encode(rows.sealer(), &after)?;
        rows.put(key, row);
        audit::append(rows, self.audited, self.now)?;
        Ok(Replaced::Done(after))
    }
}

struct SwitchAccount {
    account: AccountId,
    enabled: bool,
    audited: Audited,
    now: Time,
}

impl Operation<Memory> for SwitchAccount {
    type Outcome = ();

    fn apply(self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        rows.save(
            schema::switch(&self.account),
            &(&self.account, self.enabled),
        )?;
        audit::append(rows, self.audited, self.now).map(drop)
    }
}

/// Returns a key with its last-used time. Does not wait until that time is durable, because keys are read
/// with every request and their times are written all the time.
fn key_at(view: &View<'_>, hash: TokenHash) -> Result<Option<ApiKey>, Fault> {
    let Some(mut key) = view.load::<ApiKey>(&schema::api_key(hash))? else {
        return Ok(None);
    };
    let seen = schema::api_key_seen(hash);
    if let Some(row) = view.get(&seen)? {
        key.last_used_at = Some(records::decode(view.sealer(), &seen, &row)?);
    }
    Ok(Some(key))
}

fn key_of_index(view: &View<'_>, index: &[u8], row: &IVec) -> Result<Option<ApiKey>, Fault> {
    key_at(view, records::decode(view.sealer(), index, row)?)
}

impl Directory for SledStore {
    fn directory_version(&self) -> Option<u64> {
        Some(self.directory())
    }

    fn create_merchant(
        &self,
        new: NewMerchant,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Merchant> {
        self.operate(CreateMerchant {
            merchant: new.merchant,
            audited,
            now,
        })
    }

    fn merchant(&self, id: MerchantId) -> StoreFuture<'_, Option<Merchant>> {
        self.read(move |view| merchants::load(view, id))
    }

    fn merchants(&self, paging: Paging) -> StoreFuture<'_, Listed<Merchant>> {
        let order = Order::Backwards;
        self.list(
            schema::MERCHANTS,
            NUMBER,
            order,
            &paging,
            |view, key, row| merchants::decode(view.sealer(), key, row).map(Some),
        )
    }

    fn replace_merchant(
        &self,
        before: Merchant,
        after: Merchant,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Replaced<Merchant>> {
        self.operate(ReplaceMerchant {
            before,
            after,
            audited,
            now,
        })
    }

    fn issue_key(&self, key: ApiKey, audited: Audited, now: Time) -> StoreFuture<'_, KeyIssued> {
        self.operate(Issue { key, audited, now })
    }

    fn rotate_key(
        &self,
        old: KeyId,
        new: ApiKey,
        old_ends: Time,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, KeyIssued> {
        self.operate(Rotate {
            old,
            new,
            old_ends,
            audited,
            now,
        })
    }

    fn revoke_key(
        &self,
        id: KeyId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<ApiKey>> {
        self.operate(Revoke { id, audited, now })
    }

    fn key(&self, hash: TokenHash) -> StoreFuture<'_, Option<ApiKey>> {
        self.read(move |view| key_at(view, hash))
    }

    fn key_by_id(&self, id: KeyId) -> StoreFuture<'_, Option<ApiKey>> {
        self.read(move |view| match view.load(&schema::api_key_index(id))? {
            Some(hash) => key_at(view, hash),
            None => Ok(None),
        })
    }

    fn keys(&self, owner: KeyOwner, paging: Paging) -> StoreFuture<'_, Listed<ApiKey>> {
        let prefix = schema::api_keys_of(owner);
        self.list(&prefix, TIME_AND_ID, Order::Keys, &paging, key_of_index)
    }

    fn keys_seen(&self, seen: Vec<(TokenHash, Time)>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut seen = seen.into_iter().take(MAX_SEEN).peekable();
            while seen.peek().is_some() {
                let some = seen.by_ref().take(SEEN_AT_ONCE).collect();
                self.engine.hand_over(Seen(some))?;
            }
            Ok(())
        })
    }

    fn create_operator(
        &self,
        operator: Operator,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Operator>> {
        self.operate(CreateOperator {
            operator,
            audited,
            now,
        })
    }

    fn operator(&self, hash: TokenHash) -> StoreFuture<'_, Option<Operator>> {
        self.read(move |view| view.load(&schema::operator(hash)))
    }

    fn operators(&self, paging: Paging) -> StoreFuture<'_, Listed<Operator>> {
        let (prefix, order) = (schema::OPERATORS, Order::Keys);
        self.list(prefix, TIME_AND_ID, order, &paging, |view, key, row| {
            let hash: TokenHash = records::decode(view.sealer(), key, row)?;
            view.load(&schema::operator(hash))
        })
    }

    fn remove_operator(
        &self,
        id: OperatorId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Operator>> {
        self.operate(RemoveOperator { id, audited, now })
    }

    fn switch_account(
        &self,
        account: AccountId,
        enabled: bool,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, ()> {
        self.operate(SwitchAccount {
            account,
            enabled,
            audited,
            now,
        })
    }

    fn account_switches(&self) -> StoreFuture<'_, Vec<(AccountId, bool)>> {
        let all = self.rows_of(Span::prefix(schema::SWITCHES), Order::Keys, MAX_SWITCHES);
        Box::pin(async move {
            let rows = all.await?;
            rows.iter()
                .map(|(key, row)| {
                    let account = schema::account_of_switch(key)
                        .ok_or_else(|| records::damaged(key, "it is of no account"))?;
                    rows::switch(&self.secrets.sealer, key, row, account)
                })
                .collect()
        })
    }

    fn audit(&self, audited: Audited, now: Time) -> StoreFuture<'_, AuditEntry> {
        self.operate(Audit { audited, now })
    }

    fn audit_log(&self, paging: Paging) -> StoreFuture<'_, Listed<AuditEntry>> {
        let order = Order::Backwards;
        self.list(schema::AUDIT, NUMBER, order, &paging, |view, key, row| {
            audit::decode(view.sealer(), key, row).map(Some)
        })
    }
}
