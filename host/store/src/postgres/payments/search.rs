//! Search of payments by operators.
//!
//! A filter with an attempt or a reference uses its row. Other filters scan an index from the end of the period
//! to its start. Conditions that no index covers are compared for a bounded number of payments, after which the
//! page ends with a cursor.

use std::collections::HashSet;

use kassette_domain::id::{
    AccountId, AttemptId, DeliveryId, Digest, EventId, MerchantId, PaymentId, RefundId, ResellerId,
};
use kassette_domain::key::Environment;
use kassette_domain::payment::Payment;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::columns::{id, payment_id};
use crate::postgres::database::Arguments;
use crate::postgres::directory::{account, keys};
use crate::postgres::lists::{ListPosition, ListQuery};
use crate::postgres::payments::stored::{self, COLUMN_COUNT, COLUMNS, FROM};
use crate::postgres::webhooks::outbox;
use crate::postgres::{PostgresStore, millis, number, uuid};
use crate::rows::stored::open_attempt;
use crate::rows::{records, schema};
use crate::{Fault, FoundId, IdPrefix, Listed, MAX_FOUND, Paging, PaymentFilter, SearchKey};

/// Maximum number of payments that one call reads.
const MAX_SCAN: i64 = 2000;

/// Maximum number of payments that one call reads for a search key, because nearly all match.
const MAX_MARKED: i64 = 500;

/// Position of a payment in lists.
fn list_position(created_at: i64, number: i64) -> ListPosition {
    ListPosition(
        created_at,
        Uuid::from_u128(u128::from(number.unsigned_abs())),
    )
}

/// The number of a payment at a list position.
fn number_of(position: ListPosition) -> i64 {
    i64::try_from(position.1.as_u128()).unwrap_or(i64::MAX)
}

/// The list that a filter uses: its tag for cursors, and the source of its payments in SQL.
/// `mark` is the mark of the search key.
fn list(filter: &PaymentFilter, mark: &[u8]) -> (Vec<u8>, &'static str) {
    let along = |condition| {
        match condition {
        'r' => {
            "(SELECT f.created_at, f.number, f.id FROM reference r JOIN payment f ON f.id = r.payment
                WHERE r.reference = $9
              UNION (SELECT created_at, number, payment FROM search_reference
                WHERE reference = $9 AND (created_at, number) < ($1, $2)
                ORDER BY created_at DESC, number DESC LIMIT $3)) f"
        }
        's' => {
            "(SELECT created_at, number, payment AS id FROM search_mark WHERE mark = $14) f"
        }
        'c' => {
            "(SELECT f.created_at, f.number, f.id FROM reseller r
                JOIN payment f ON f.owner_kind = 1 AND f.owner = r.id AND f.reference = $14) f"
        }
        't' => "(SELECT f.created_at, f.number, f.id FROM payment f WHERE id = (SELECT payment FROM attempt WHERE id = $8)) f",
        'o' => "(SELECT created_at, number, id FROM payment WHERE order_id = $5) f",
        'm' => "(SELECT created_at, number, id FROM payment WHERE merchant = $4) f",
        _ => "(SELECT created_at, number, id FROM payment) f",
    }
    };
    let tagged = |kind: char, of: &[u8]| {
        let hash = Digest::hash(of).0;
        (
            [&b"pay/"[..], &[kind as u8], &hash[..8]].concat(),
            along(kind),
        )
    };
    match filter {
        PaymentFilter {
            attempt: Some(attempt),
            ..
        } => tagged('t', attempt.as_bytes()),
        PaymentFilter {
            reference: Some(reference),
            ..
        } => tagged('r', reference.as_bytes()),
        PaymentFilter {
            order_id: Some(order),
            ..
        } => tagged('o', order.as_bytes()),
        PaymentFilter {
            search: Some(SearchKey::ClientRef(client_ref)),
            ..
        } => tagged('c', client_ref.as_bytes()),
        PaymentFilter {
            search: Some(_), ..
        } => tagged('s', mark),
        PaymentFilter {
            merchant: Some(merchant),
            ..
        } => tagged('m', &merchant.0.to_be_bytes()),
        _ => tagged('a', b""),
    }
}

impl PostgresStore {
    /// Returns one page of the payments that match a filter.
    pub(super) async fn search(
        &self,
        filter: PaymentFilter,
        paging: Paging,
    ) -> Result<Listed<Payment>, Fault> {
        let mark = filter.search.as_ref().map(|key| match key {
            SearchKey::ClientRef(client_ref) => client_ref.clone().into_bytes(),
            key => {
                let mark = self.secrets.marker.search(key);
                mark.unwrap_or_default().to_vec()
            }
        });
        let (tag, from) = list(&filter, mark.as_deref().unwrap_or_default());
        let Some(asked) = ListQuery::read(&self.secrets.sealer, &tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let of_attempt =
            filter.account.is_some() || filter.attempt.is_some() || filter.reference.is_some();
        // Conditions that the index does not cover. Without them, the scan skips no payment.
        let passes = of_attempt
            || filter.status.is_some()
            || filter.environment.is_some()
            || (filter.merchant.is_some() && filter.order_id.is_some());
        let scan = match passes {
            true if filter.search.is_some() => MAX_MARKED,
            true => MAX_SCAN,
            false => asked.rows(),
        };
        let sql = format!(
            "WITH w AS MATERIALIZED (SELECT created_at, number, id FROM {from}
                WHERE (created_at, number) < ($1, $2) AND created_at >= $11 AND created_at < $12
                ORDER BY created_at DESC, number DESC LIMIT $3)
            SELECT {COLUMNS}, w.created_at, w.number FROM w
                LEFT JOIN (payment p LEFT JOIN due d ON d.payment = p.id) ON p.id = w.id
                AND ($4::bigint IS NULL OR p.merchant = $4) AND ($5::bytea IS NULL OR p.order_id = $5)
                AND ($6::smallint IS NULL OR p.status = $6) AND ($7::smallint IS NULL OR p.environment = $7)
                AND ($14::bytea IS NULL OR true)
                AND (NOT $13 OR EXISTS (SELECT FROM attempt a WHERE a.payment = p.id
                    AND ($8::uuid IS NULL OR a.id = $8) AND ($10::text IS NULL OR a.account = $10)
                    AND ($9::bytea IS NULL
                        OR EXISTS (SELECT FROM reference r WHERE r.payment = p.id AND r.ordinal = a.ordinal AND r.reference = $9)
                        OR EXISTS (SELECT FROM search_reference s WHERE s.reference = $9 AND s.created_at = p.created_at
                            AND s.number = p.number AND s.ordinal = a.ordinal))))
            ORDER BY w.created_at DESC, w.number DESC"
        );
        let arguments: Arguments<'_> = &[
            &asked.before.0,
            &number_of(asked.before),
            &scan,
            &filter.merchant.map(|merchant| number(merchant.0)),
            &filter.order_id.as_ref().map(|order| order.as_bytes()),
            &filter.status.map(stored::status),
            &filter.environment.map(keys::environment),
            &filter.attempt.map(|attempt| uuid(attempt.as_bytes())),
            &filter
                .reference
                .as_ref()
                .map(|reference| reference.as_bytes()),
            &filter.account.as_ref().map(AccountId::as_str),
            &filter.since.map_or(i64::MIN, millis),
            &filter.until.map_or(i64::MAX, millis),
            &of_attempt,
            &mark,
        ];
        let rows = self.requests.read(&sql, arguments).await?;
        let sealer = &self.secrets.sealer;
        let with = match filter.search.as_ref().filter(|key| key.is_of_attempt()) {
            Some(key) => Some(self.with_attempts_that_fit(key, &rows).await?),
            None => None,
        };
        asked.page_of_looked(
            scan,
            rows.iter().map(|row| {
                let is_found = row.get::<_, Option<Uuid>>(0).is_some();
                let payment = is_found.then(|| stored::payment(sealer, row)).transpose()?;
                let search = filter.search.as_ref();
                let payment = payment
                    .filter(|payment| search.is_none_or(|key| key.fits(payment)))
                    .filter(|payment| with.as_ref().is_none_or(|with| with.contains(&payment.id)));
                Ok((
                    list_position(row.get(COLUMN_COUNT), row.get(COLUMN_COUNT + 1)),
                    payment,
                ))
            }),
        )
    }

    /// Payments in `rows` with an attempt that matches the key.
    async fn with_attempts_that_fit(
        &self,
        key: &SearchKey,
        rows: &[Row],
    ) -> Result<HashSet<PaymentId>, Fault> {
        let ids: Vec<Uuid> = rows.iter().filter_map(|row| row.get(0)).collect();
        let sql = "SELECT payment, ordinal, body FROM attempt WHERE payment = ANY($1)";
        let mut fitting = HashSet::new();
        for row in self.requests.read(sql, &[&ids]).await? {
            let payment = payment_id(&row, 0);
            let ordinal = u8::try_from(row.get::<_, i16>(1)).unwrap_or(u8::MAX);
            let of = schema::attempt(payment, ordinal);
            let attempt = open_attempt(&self.secrets.sealer, &of, row.get(2))?;
            if key.fits_attempt(&attempt) {
                fitting.insert(payment);
            }
        }
        Ok(fitting)
    }

    /// Objects whose ids have a prefix.
    pub(super) async fn ids(&self, prefix: IdPrefix) -> Result<Vec<FoundId>, Fault> {
        let of = |table: &str, columns: &str| {
            format!(
                "SELECT {columns} FROM {table} WHERE id BETWEEN $1 AND $2 ORDER BY id DESC LIMIT $3"
            )
        };
        let most = i64::try_from(MAX_FOUND).unwrap_or_default();
        let (first, last) = (uuid(&prefix.first), uuid(&prefix.last));
        let read = async |table, columns| {
            let sql = of(table, columns);
            self.requests.read(&sql, &[&first, &last, &most]).await
        };
        let mut found = Vec::new();
        for row in read("payment", "id").await? {
            found.push(FoundId::Payment(payment_id(&row, 0)));
        }
        for row in read("attempt", "id, payment").await? {
            let attempt = id(&row, 0, AttemptId::from_bytes);
            found.push(FoundId::Attempt(attempt, payment_id(&row, 1)));
        }
        for row in read("refund", "id, payment").await? {
            let refund = id(&row, 0, RefundId::from_bytes);
            found.push(FoundId::Refund(refund, payment_id(&row, 1)));
        }
        let unknown = |key: &[u8]| records::damaged(key, "its kind is not known");
        for row in read("event", "id, payment, kind").await? {
            let event = id(&row, 0, EventId::from_bytes);
            let kind = outbox::kind(row.get(2));
            let kind = kind.ok_or_else(|| unknown(&schema::event_index(event)))?;
            found.push(FoundId::Event(event, payment_id(&row, 1), kind));
        }
        for row in read("delivery", "id, payment, kind, status").await? {
            let delivery = id(&row, 0, DeliveryId::from_bytes);
            let of = (outbox::kind(row.get(2)), outbox::status(row.get(3)));
            let (Some(kind), Some(status)) = of else {
                return Err(unknown(&schema::webhooks::delivery(delivery)));
            };
            let payment = payment_id(&row, 1);
            found.push(FoundId::Delivery(delivery, payment, kind, status));
        }
        Ok(found)
    }

    /// One page of the payments that a reseller made for a merchant in an environment.
    pub(crate) async fn payments_of_reseller(
        &self,
        reseller: ResellerId,
        merchant: MerchantId,
        environment: Environment,
        paging: Paging,
    ) -> Result<Listed<Payment>, Fault> {
        let (of, to) = (number(reseller.0), number(merchant.0));
        let world = keys::environment(environment);
        let numbers = [of.to_be_bytes(), to.to_be_bytes()].concat();
        let tag = [b"resold/".as_slice(), &numbers, &world.to_be_bytes()].concat();
        let Some(asked) = ListQuery::read(&self.secrets.sealer, &tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let (at, behind) = (asked.before.0, number_of(asked.before));
        let sql = format!(
            "SELECT {COLUMNS}, p.created_at, p.number FROM {FROM}
                WHERE p.owner_kind = 1 AND p.owner = $1 AND p.merchant = $2 AND p.environment = $3
                    AND (p.created_at, p.number) < ($4, $5)
                ORDER BY p.created_at DESC, p.number DESC LIMIT $6"
        );
        let arguments: Arguments<'_> = &[&of, &to, &world, &at, &behind, &asked.rows()];
        let found = self.requests.read(&sql, arguments).await?;
        let sealer = &self.secrets.sealer;
        let each = found.iter().map(|row| {
            let position = list_position(row.get(COLUMN_COUNT), row.get(COLUMN_COUNT + 1));
            Ok((position, stored::payment(sealer, row)?))
        });
        asked.page(each.collect::<Result<_, Fault>>()?)
    }

    pub(super) async fn accounts(&self) -> Result<Vec<AccountId>, Fault> {
        // Skips from one account to the next in the index, however many attempts each has.
        let sql = "WITH RECURSIVE each (account) AS (
                (SELECT account FROM attempt WHERE in_use ORDER BY account LIMIT 1)
                UNION ALL SELECT (SELECT a.account FROM attempt a WHERE a.in_use AND a.account > each.account
                    ORDER BY a.account LIMIT 1) FROM each WHERE each.account IS NOT NULL)
            SELECT account FROM each WHERE account IS NOT NULL";
        let rows = self.workers.read(sql, &[]).await?;
        rows.iter().map(|row| account(row.get(0))).collect()
    }
}
