//! `Directory` on PostgreSQL, account switches and the audit log.

pub(crate) mod keys;
pub(crate) mod merchants;
pub(crate) mod operators;

use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::id::{AccountId, KeyId, MerchantId, OperatorId};
use kassette_domain::key::{ApiKey, KeyOwner, TokenHash};
use kassette_domain::merchant::Merchant;
use kassette_domain::operator::Operator;
use kassette_domain::time::Time;

use crate::postgres::database::{Failure, TransactionWork, Tx, execute};
use crate::postgres::directory::keys::{Issue, Revoke, Rotate};
use crate::postgres::directory::merchants::{CreateMerchant, ReplaceMerchant};
use crate::postgres::directory::operators::{CreateOperator, RemoveOperator};
use crate::postgres::{PostgresStore, audit};
use crate::rows;
use crate::{Directory, Fault, KeyIssued, Listed, NewMerchant, Paging, Replaced, StoreFuture};

struct SwitchAccount {
    account: AccountId,
    enabled: bool,
    audited: Audited,
    now: Time,
}

impl TransactionWork for SwitchAccount {
    type Outcome = ();

    async fn apply(&self, tx: &Tx<'_>) -> Result<(), Failure> {
        let sql = "INSERT INTO account_switch (account, body) VALUES ($1, $2)
            ON CONFLICT (account) DO UPDATE SET body = $2";
        let key = rows::schema::switch(&self.account);
        let body = rows::records::encode(tx.sealer(), &key, &(&self.account, self.enabled))?;
        execute(tx, sql, &[&self.account.as_str(), &&body[..]]).await?;
        audit::append(tx, self.audited.clone(), self.now)
            .await
            .map(drop)
    }
}

/// An audit entry about a change outside of the store.
struct Line {
    audited: Audited,
    now: Time,
}

impl TransactionWork for Line {
    type Outcome = AuditEntry;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<AuditEntry, Failure> {
        audit::append(tx, self.audited.clone(), self.now).await
    }
}

impl Directory for PostgresStore {
    fn directory_version(&self) -> Option<u64> {
        self.node_state.directory()
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
        Box::pin(self.merchant_read(id))
    }

    fn merchants(&self, paging: Paging) -> StoreFuture<'_, Listed<Merchant>> {
        Box::pin(self.merchants_listed(paging))
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
        Box::pin(self.key_read(hash))
    }

    fn key_by_id(&self, id: KeyId) -> StoreFuture<'_, Option<ApiKey>> {
        Box::pin(self.key_read_by_id(id))
    }

    fn keys(&self, owner: KeyOwner, paging: Paging) -> StoreFuture<'_, Listed<ApiKey>> {
        Box::pin(self.keys_listed(owner, paging))
    }

    fn keys_seen(&self, seen: Vec<(TokenHash, Time)>) -> StoreFuture<'_, ()> {
        self.run_to_end(async move |store| store.keys_noted(seen).await)
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
        Box::pin(self.operator_read(hash))
    }

    fn operators(&self, paging: Paging) -> StoreFuture<'_, Listed<Operator>> {
        Box::pin(self.operators_listed(paging))
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
        Box::pin(async {
            let found = self
                .requests
                .read("SELECT account, body FROM account_switch", &[])
                .await?;
            let each = found.iter().map(|row| {
                let account = account(row.get(0))?;
                let key = rows::schema::switch(&account);
                rows::switch(&self.secrets.sealer, &key, row.get(1), account)
            });
            each.collect()
        })
    }

    fn audit(&self, audited: Audited, now: Time) -> StoreFuture<'_, AuditEntry> {
        self.operate(Line { audited, now })
    }

    fn audit_log(&self, paging: Paging) -> StoreFuture<'_, Listed<AuditEntry>> {
        Box::pin(async move {
            let sql =
                "SELECT number, body FROM audit WHERE number < $1 ORDER BY number DESC LIMIT $2";
            self.list_by_number(b"aud/", paging, sql, |sealer, row| {
                let key = rows::schema::audit(row.get::<_, i64>(0).unsigned_abs());
                rows::audit::decode(sealer, &key, row.get(1))
            })
            .await
        })
    }
}

/// Parses a stored account id.
pub(crate) fn account(text: &str) -> Result<AccountId, Fault> {
    AccountId::parse(text).map_err(|_| Fault::Corrupt("the name of an account".into()))
}
