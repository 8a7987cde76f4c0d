//! Payments by what an operator knows of them.
//!
//! One that names an attempt or a reference is found by its row. All others go along an index from where the period
//! ends to where it begins; what no index holds is compared on the way, for a bounded number of payments, after which
//! the page ends with a cursor.

use kassette_domain::id::{AccountId, Digest, MerchantId, ResellerId};
use kassette_domain::key::Environment;
use kassette_domain::payment::Payment;
use uuid::Uuid;

use crate::postgres::database::Arguments;
use crate::postgres::directory::{account, keys};
use crate::postgres::lists::{ListPosition, ListQuery};
use crate::postgres::payments::stored::{self, COLUMNS, FROM};
use crate::postgres::{PostgresStore, millis, number, uuid};
use crate::{Fault, Listed, Paging, PaymentFilter};

/// Most payments that one call looks at.
const MAX_SCAN: i64 = 2000;

/// Where a payment stands in lists.
fn list_position(created_at: i64, number: i64) -> ListPosition {
    ListPosition(
        created_at,
        Uuid::from_u128(u128::from(number.unsigned_abs())),
    )
}

/// The number of a payment at a position.
fn number_of(position: ListPosition) -> i64 {
    i64::try_from(position.1.as_u128()).unwrap_or(i64::MAX)
}

/// Which list a filter goes along: its tag for cursors, and where its payments come from.
fn list(filter: &PaymentFilter) -> (Vec<u8>, &'static str) {
    let along = |condition| {
        match condition {
        'r' => {
            "(SELECT f.created_at, f.number, f.id FROM reference r JOIN payment f ON f.id = r.payment
                WHERE r.reference = $9
              UNION (SELECT created_at, number, payment FROM search_reference
                WHERE reference = $9 AND (created_at, number) < ($1, $2)
                ORDER BY created_at DESC, number DESC LIMIT $3)) f"
        }
        't' => "(SELECT f.created_at, f.number, f.id FROM payment f WHERE id = (SELECT payment FROM attempt WHERE id = $8)) f",
        'o' => "(SELECT created_at, number, id FROM payment WHERE order_id = $5) f",
        'm' => "(SELECT created_at, number, id FROM payment WHERE merchant = $4) f",
        _ => "(SELECT created_at, number, id FROM payment) f",
    }
    };
    let tagged = |kind: char, of: &[u8]| {
        let hash = Digest::of(of).0;
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
            merchant: Some(merchant),
            ..
        } => tagged('m', &merchant.0.to_be_bytes()),
        _ => tagged('a', b""),
    }
}

impl PostgresStore {
    /// One page of the payments that a filter finds.
    pub(super) async fn search(
        &self,
        filter: PaymentFilter,
        paging: Paging,
    ) -> Result<Listed<Payment>, Fault> {
        let (tag, from) = list(&filter);
        let Some(asked) = ListQuery::read(&tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let of_attempt =
            filter.account.is_some() || filter.attempt.is_some() || filter.reference.is_some();
        // What the index does not hold; where there is nothing of the kind no payment is passed over.
        let passes = of_attempt
            || filter.status.is_some()
            || filter.environment.is_some()
            || (filter.merchant.is_some() && filter.order_id.is_some());
        let scan = if passes { MAX_SCAN } else { asked.rows() };
        let sql = format!(
            "WITH w AS MATERIALIZED (SELECT created_at, number, id FROM {from}
                WHERE (created_at, number) < ($1, $2) AND created_at >= $11 AND created_at < $12
                ORDER BY created_at DESC, number DESC LIMIT $3)
            SELECT {COLUMNS}, w.created_at, w.number FROM w
                LEFT JOIN (payment p LEFT JOIN due d ON d.payment = p.id) ON p.id = w.id
                AND ($4::bigint IS NULL OR p.merchant = $4) AND ($5::bytea IS NULL OR p.order_id = $5)
                AND ($6::smallint IS NULL OR p.status = $6) AND ($7::smallint IS NULL OR p.environment = $7)
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
        ];
        let rows = self.requests.read(&sql, arguments).await?;
        let sealer = &self.secrets.sealer;
        asked.page_of_looked(
            scan,
            rows.iter().map(|row| {
                let is_found = row.get::<_, Option<Uuid>>(0).is_some();
                let payment = is_found.then(|| stored::payment(sealer, row)).transpose()?;
                Ok((list_position(row.get(3), row.get(4)), payment))
            }),
        )
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
        let Some(asked) = ListQuery::read(&tag, &paging) else {
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
            let position = list_position(row.get(3), row.get(4));
            Ok((position, stored::payment(sealer, row)?))
        });
        Ok(asked.page(each.collect::<Result<_, Fault>>()?))
    }

    pub(super) async fn accounts(&self) -> Result<Vec<AccountId>, Fault> {
        // From one account to the next along the index, however many attempts each has.
        let sql = "WITH RECURSIVE each (account) AS (
                (SELECT account FROM attempt WHERE in_use ORDER BY account LIMIT 1)
                UNION ALL SELECT (SELECT a.account FROM attempt a WHERE a.in_use AND a.account > each.account
                    ORDER BY a.account LIMIT 1) FROM each WHERE each.account IS NOT NULL)
            SELECT account FROM each WHERE account IS NOT NULL";
        let rows = self.workers.read(sql, &[]).await?;
        rows.iter().map(|row| account(row.get(0))).collect()
    }
}
