//! A merchant's events, in pages.

use std::cmp::Reverse;

use kassette_domain::event::Event;
use kassette_domain::id::PaymentId;
use kassette_domain::payment::Payment;
use uuid::Uuid;

use crate::postgres::directory::keys;
use crate::postgres::lists::{ListPosition, ListQuery};
use crate::postgres::payments::stored::{self, COLUMN_COUNT, COLUMNS, EVENT};
use crate::postgres::{PostgresStore, millis, number, uuid};
use crate::rows::records::OTHER_COLUMNS;
use crate::rows::stored::EventRow;
use crate::rows::wants::number_of;
use crate::rows::{records, schema};
use crate::{EventsAsked, Fault, Listed, Paging};

/// Maximum number of events that one call reads.
const MAX_SCAN: i64 = 2000;

impl PostgresStore {
    /// Returns one page of a merchant's events.
    pub(super) async fn events_listed(
        &self,
        of: EventsAsked,
        paging: Paging,
    ) -> Result<Listed<(Event, Payment)>, Fault> {
        let (merchant, world) = (number(of.merchant.0), keys::environment(of.environment));
        let tag = [
            b"event/".as_slice(),
            &merchant.to_be_bytes(),
            &world.to_be_bytes(),
        ]
        .concat();
        let Some(asked) = ListQuery::read(&self.secrets.sealer, &tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        if let Some(payments) = &of.payments {
            return self.events_of_payments(&of, payments, &asked).await;
        }
        let kind = of.kind.map(|kind| i16::from(number_of(kind)));
        let scan = if kind.is_some() {
            MAX_SCAN
        } else {
            asked.rows()
        };
        let ListPosition(at, id) = asked.before;
        let since = of.since.map_or(i64::MIN, millis);
        let until = of.until.map_or(i64::MAX, millis);
        let sql = format!(
            "/* events: list */ WITH w AS MATERIALIZED (SELECT created_at, id, kind, payment, ordinal FROM event
                WHERE merchant = $1 AND environment = $2 AND (created_at, id) < ($3, $4) AND created_at >= $5 AND created_at < $8
                ORDER BY created_at DESC, id DESC LIMIT $6)
            SELECT {COLUMNS}, w.created_at, w.id, w.ordinal, t.body, w.kind FROM w
                LEFT JOIN (payment p LEFT JOIN due d ON d.payment = p.id)
                    ON p.id = w.payment AND ($7::smallint IS NULL OR w.kind = $7)
                LEFT JOIN timeline t ON t.payment = p.id AND t.kind = {EVENT} AND t.ordinal = w.ordinal
            ORDER BY w.created_at DESC, w.id DESC"
        );
        let rows = self
            .requests
            .read(
                &sql,
                &[&merchant, &world, &at, &id, &since, &scan, &kind, &until],
            )
            .await?;
        asked.page_of_looked(
            scan,
            rows.iter().map(|row| {
                let place = ListPosition(row.get(COLUMN_COUNT), row.get(COLUMN_COUNT + 1));
                if row.get::<_, Option<Uuid>>(0).is_none() {
                    return Ok((place, None));
                }
                let payment = stored::payment(&self.secrets.sealer, row)?;
                let ordinal =
                    u16::try_from(row.get::<_, i32>(COLUMN_COUNT + 2)).unwrap_or(u16::MAX);
                let key = schema::event(payment.id, ordinal);
                if number(payment.merchant.0) != merchant
                    || keys::environment(payment.environment) != world
                {
                    return Err(records::damaged(&key, "it is listed at another merchant"));
                }
                let event: Option<&[u8]> = row.get(COLUMN_COUNT + 3);
                let event = event.ok_or_else(|| records::damaged(&key, "it is missing"))?;
                let event: EventRow = records::decode(&self.secrets.sealer, &key, event)?;
                let event = event.event(payment.id);
                let listed = (millis(event.created_at), uuid(event.id.as_bytes()));
                let kind = i16::from(number_of(event.kind));
                if (place.0, place.1) != listed || kind != row.get::<_, i16>(COLUMN_COUNT + 4) {
                    return Err(records::damaged(&key, OTHER_COLUMNS));
                }
                Ok((place, Some((event, payment))))
            }),
        )
    }

    /// Returns one page of the events of some payments of any merchants.
    async fn events_of_payments(
        &self,
        of: &EventsAsked,
        payments: &[PaymentId],
        asked: &ListQuery<'_>,
    ) -> Result<Listed<(Event, Payment)>, Fault> {
        let ids: Vec<Uuid> = payments.iter().map(|id| uuid(id.as_bytes())).collect();
        let sql = format!(
            "/* events: of payments */ SELECT {COLUMNS}, t.ordinal, t.body
                FROM payment p LEFT JOIN due d ON d.payment = p.id
                JOIN timeline t ON t.payment = p.id AND t.kind = {EVENT}
            WHERE p.id = ANY($1)"
        );
        let mut found = Vec::new();
        for row in &self.requests.read(&sql, &[&ids]).await? {
            let payment = stored::payment(&self.secrets.sealer, row)?;
            if (payment.merchant, payment.environment) != (of.merchant, of.environment) {
                continue;
            }
            let ordinal = u16::try_from(row.get::<_, i32>(COLUMN_COUNT)).unwrap_or(u16::MAX);
            let key = schema::event(payment.id, ordinal);
            let event: EventRow =
                records::decode(&self.secrets.sealer, &key, row.get(COLUMN_COUNT + 1))?;
            let event = event.event(payment.id);
            let place = ListPosition(millis(event.created_at), uuid(event.id.as_bytes()));
            if of.fits(event.kind, event.created_at) && place < asked.before {
                found.push((place, (event, payment)));
            }
        }
        found.sort_unstable_by_key(|(place, _)| Reverse(*place));
        asked.page(found)
    }
}
