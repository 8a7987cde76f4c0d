//! `Connects` on PostgreSQL.

use std::sync::Arc;

use kassette_domain::audit::Audited;
use kassette_domain::connect::{CodeUse, ConnectCode, ShopConnection};
use kassette_domain::id::MerchantId;
use kassette_domain::key::TokenHash;
use kassette_domain::time::Time;
use kassette_domain::webhook::Endpoint;
use tokio_postgres::Row;

use crate::connects::{LISTED_FOR, told, verify};
use crate::postgres::database::{Database, Failure, TransactionWork, Tx, execute, row};
use crate::postgres::directory::keys::{self, environment};
use crate::postgres::directory::merchants;
use crate::postgres::lists::ListPosition;
use crate::postgres::webhooks::endpoints;
use crate::postgres::{PostgresStore, audit, millis, number, uuid};
use crate::rows::records::OTHER_COLUMNS;
use crate::rows::seal::{Sealer, Secrets};
use crate::rows::{records, schema};
use crate::{
    CodeIssued, CodeUsed, ConnectExchange, Connects, Exchanged, Fault, Listed, Paging, StoreFuture,
};

/// Maximum number of codes that one sweep deletes.
const SWEPT: i64 = 256;
/// Number of expired codes that each issue deletes; more than one, so that the table does not grow.
const SWEPT_BY_ISSUE: i64 = 16;

/// Deletes codes that expired by `$1`, at most `$2`.
const SWEEP: &str = "/* connect codes: sweep */ DELETE FROM connect_code WHERE hash IN (
    SELECT hash FROM connect_code WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING 1";

/// Deletes a batch of codes that expired long ago; returns whether there may be more.
pub(crate) async fn sweep(database: &Database, now: Time) -> Result<bool, Fault> {
    let swept = database
        .repeat(SWEEP, &[&millis(now.before(LISTED_FOR)), &SWEPT])
        .await?;
    Ok(i64::try_from(swept.len()).is_ok_and(|swept| swept >= SWEPT))
}

/// Decodes a code from its columns `hash` and `body`.
fn code(sealer: &Sealer, row: &Row) -> Result<ConnectCode, Fault> {
    let hash = row.get::<_, &[u8]>(0).try_into().map(TokenHash);
    let hash = hash.map_err(|_| Fault::Corrupt("the hash of a connect code".into()))?;
    records::decode(sealer, &schema::connect::code(hash), row.get(1))
}

/// Loads a redeemable code and locks it until the transaction ends.
async fn live(tx: &Tx<'_>, hash: TokenHash, now: Time) -> Result<Option<ConnectCode>, Failure> {
    let sql =
        "/* connect code: lock */ SELECT hash, body FROM connect_code WHERE hash = $1 FOR UPDATE";
    let found = row(tx, sql, &[&&hash.0[..]]).await?;
    let found = found.map(|found| code(tx.sealer(), &found)).transpose()?;
    Ok(found.filter(|code| code.is_live(now)))
}

async fn replace(tx: &Tx<'_>, code: &ConnectCode) -> Result<(), Failure> {
    let body = records::encode(tx.sealer(), &schema::connect::code(code.hash), code)?;
    let sql = "/* connect code: update */ UPDATE connect_code SET body = $2 WHERE hash = $1";
    execute(tx, sql, &[&&code.hash.0[..], &&body[..]]).await?;
    Ok(())
}

struct IssueCode {
    code: ConnectCode,
    audited: Audited,
    now: Time,
}

impl TransactionWork for IssueCode {
    type Outcome = CodeIssued;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<CodeIssued, Failure> {
        let code = &self.code;
        let Some(merchant) = merchants::load(tx, code.merchant).await? else {
            return Ok(CodeIssued::NoSuchMerchant);
        };
        if !merchant.may_use(code.environment) {
            return Ok(CodeIssued::NotLiveApproved);
        }
        let ended = millis(self.now.before(LISTED_FOR));
        execute(tx, SWEEP, &[&ended, &SWEPT_BY_ISSUE]).await?;
        let body = records::encode(tx.sealer(), &schema::connect::code(code.hash), code)?;
        let sql = "/* connect code: insert */ INSERT INTO connect_code
            (hash, id, merchant, created_at, expires_at, body)
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
        let (hash, id) = (&code.hash.0[..], uuid(code.id.as_bytes()));
        let (made, ends) = (millis(code.created_at), millis(code.expires_at));
        let of = number(code.merchant.0);
        if execute(tx, sql, &[&hash, &id, &of, &made, &ends, &&body[..]]).await? == 0 {
            return Err(Fault::Unavailable("the connect code is in use".into()).into());
        }
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(CodeIssued::Done(code.clone()))
    }
}

struct UseCode {
    hash: TokenHash,
    used: CodeUse,
    now: Time,
}

impl TransactionWork for UseCode {
    type Outcome = CodeUsed;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<CodeUsed, Failure> {
        let Some(mut code) = live(tx, self.hash, self.now).await? else {
            return Ok(CodeUsed::Dead);
        };
        if !code.note(self.used) {
            return Ok(CodeUsed::NoMore);
        }
        replace(tx, &code).await?;
        Ok(CodeUsed::Counted(code))
    }
}

struct Redeem {
    exchange: ConnectExchange,
    audited: Audited,
    now: Time,
    secrets: Arc<Secrets>,
}

impl TransactionWork for Redeem {
    /// Also contains the connection that was replaced, if any.
    type Outcome = (Exchanged, Option<ShopConnection>);

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let ConnectExchange {
            code: hash,
            key,
            endpoint,
            endpoint_secrets,
            domain,
        } = &self.exchange;
        let Some(mut code) = live(tx, *hash, self.now).await? else {
            return Ok((Exchanged::Dead, None));
        };
        let merchant_key = schema::merchant(code.merchant);
        let merchant = merchants::load(tx, code.merchant).await?;
        let mut merchant =
            merchant.ok_or_else(|| records::damaged(&merchant_key, "it is missing"))?;
        if !merchant.may_use(code.environment) {
            return Ok((Exchanged::NotLiveApproved, None));
        }
        // All checks come before the first write.
        let before = connection(tx, &code).await?;
        let leaving = before.as_ref().map(|before| before.endpoint);
        let others = endpoints::beside(tx, endpoint, leaving).await?;
        if let Some(same) = Endpoint::at(&others, &endpoint.url) {
            return Ok((Exchanged::EndpointTaken(same.id), None));
        }
        if others.len() >= Endpoint::MAX_PER_OWNER {
            return Ok((Exchanged::TooManyEndpoints, None));
        }
        if !verify(&mut merchant, domain.clone()) {
            return Ok((Exchanged::TooManyDomains, None));
        }
        let mut cancelled = 0;
        if let Some(before) = &before {
            let deleted = endpoints::delete(tx, before.endpoint).await?;
            cancelled = deleted.map_or(0, |deleted| deleted.cancelled);
            keys::revoke(tx, before.key, self.now).await?;
        }
        let made = ShopConnection {
            merchant: code.merchant,
            environment: code.environment,
            origin: code.origin.clone(),
            code: code.id,
            key: key.id,
            endpoint: endpoint.id,
            connected_at: self.now,
        };
        code.redeemed_at = Some(self.now);
        replace(tx, &code).await?;
        keys::write_new(tx, key).await?;
        endpoints::write_new(tx, &self.secrets.sealer, endpoint, endpoint_secrets).await?;
        merchants::save(tx, &merchant).await?;
        connect(tx, &made).await?;
        let audited = Audited {
            before: before.as_ref().map(told),
            ..self.audited.clone()
        };
        audit::append(tx, audited, self.now).await?;
        let done = Exchanged::Done {
            connection: made,
            cancelled,
        };
        Ok((done, before))
    }
}

/// The connection from the last exchange for the code's merchant, environment and site.
async fn connection(tx: &Tx<'_>, code: &ConnectCode) -> Result<Option<ShopConnection>, Failure> {
    let sql = "/* connection */ SELECT body FROM connection
        WHERE merchant = $1 AND environment = $2 AND origin = $3";
    let (merchant, world) = (number(code.merchant.0), environment(code.environment));
    let found = row(
        tx,
        sql,
        &[&merchant, &world, &code.origin.as_str().as_bytes()],
    )
    .await?;
    let key = schema::connect::connection(code.merchant, code.environment, &code.origin);
    Ok(found
        .map(|found| records::decode(tx.sealer(), &key, found.get(0)))
        .transpose()?)
}

async fn connect(tx: &Tx<'_>, made: &ShopConnection) -> Result<(), Failure> {
    let key = schema::connect::connection(made.merchant, made.environment, &made.origin);
    let body = records::encode(tx.sealer(), &key, made)?;
    let sql = "/* connection: save */ INSERT INTO connection (merchant, environment, origin, body)
        VALUES ($1, $2, $3, $4) ON CONFLICT (merchant, environment, origin) DO UPDATE SET body = $4";
    let (merchant, world) = (number(made.merchant.0), environment(made.environment));
    execute(
        tx,
        sql,
        &[
            &merchant,
            &world,
            &made.origin.as_str().as_bytes(),
            &&body[..],
        ],
    )
    .await?;
    Ok(())
}

impl Connects for PostgresStore {
    fn issue_connect_code(
        &self,
        code: ConnectCode,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, CodeIssued> {
        self.operate(IssueCode { code, audited, now })
    }

    fn connect_code(&self, hash: TokenHash) -> StoreFuture<'_, Option<ConnectCode>> {
        Box::pin(async move {
            let sql = "/* connect code */ SELECT hash, body FROM connect_code WHERE hash = $1";
            let found = self.requests.read_one(sql, &[&&hash.0[..]]).await?;
            found
                .map(|found| code(&self.secrets.sealer, &found))
                .transpose()
        })
    }

    fn connect_codes(
        &self,
        merchant: MerchantId,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<ConnectCode>> {
        Box::pin(async move {
            let tag = [b"connect/".as_slice(), &merchant.0.to_be_bytes()].concat();
            let sql =
                "/* connect codes: list */ SELECT hash, body, created_at, id FROM connect_code
                WHERE merchant = $1 AND (created_at, id) < ($2, $3)
                ORDER BY created_at DESC, id DESC LIMIT $4";
            self.list_by_time(&tag, paging, sql, &[&number(merchant.0)], |sealer, row| {
                let code = code(sealer, row)?;
                if code.merchant != merchant {
                    let key = schema::connect::code(code.hash);
                    return Err(records::damaged(&key, OTHER_COLUMNS));
                }
                Ok((ListPosition(row.get(2), row.get(3)), code))
            })
            .await
        })
    }

    fn use_connect_code(
        &self,
        hash: TokenHash,
        used: CodeUse,
        now: Time,
    ) -> StoreFuture<'_, CodeUsed> {
        self.operate(UseCode { hash, used, now })
    }

    fn exchange(
        &self,
        exchange: ConnectExchange,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Exchanged> {
        let redeem = Redeem {
            exchange,
            audited,
            now,
            secrets: Arc::clone(&self.secrets),
        };
        self.run_to_end(async move |store| {
            let (exchanged, before) = store.requests.transact(&redeem).await?;
            if let Some(before) = before {
                // The worker ends deliveries that still wait for the earlier endpoint.
                store.claims.ring(&[before.endpoint], Time::default());
            }
            Ok(exchanged)
        })
    }
}
