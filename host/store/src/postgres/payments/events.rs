//! A merchant's events, in pages.

use kassette_domain::event::Event;
use kassette_domain::payment::Payment;
use uuid::Uuid;

use crate::postgres::directory::keys;
use crate::postgres::lists::{ListPosition, ListQuery};
use crate::postgres::payments::stored::{self, COLUMNS, EVENT};
use crate::postgres::{PostgresStore, millis, number};
use crate::rows::stored::EventRow;
use crate::rows::wants::number_of;
use crate::rows::{records, schema};
use crate::{EventsAsked, Fault, Listed, Paging};

/// Most events that one call looks at.
const MAX_SCAN: i64 = 2000;

impl PostgresStore {
    /// One page of a merchant's events.
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
        let Some(asked) = ListQuery::read(&tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let kind = of.kind.map(|kind| i16::from(number_of(kind)));
        let scan = if kind.is_some() {
            MAX_SCAN
        } else {
            asked.rows()
        };
        let ListPosition(at, id) = asked.before;
        let since = of.since.map_or(i64::MIN, millis);
        let sql = format!(
            "/* events: list */ WITH w AS MATERIALIZED (SELECT created_at, id, kind, payment, ordinal FROM event
                WHERE merchant = $1 AND environment = $2 AND (created_at, id) < ($3, $4) AND created_at >= $5
                ORDER BY created_at DESC, id DESC LIMIT $6)
            SELECT {COLUMNS}, w.created_at, w.id, w.ordinal, t.body FROM w
                LEFT JOIN (payment p LEFT JOIN due d ON d.payment = p.id)
                    ON p.id = w.payment AND ($7::smallint IS NULL OR w.kind = $7)
                LEFT JOIN timeline t ON t.payment = p.id AND t.kind = {EVENT} AND t.ordinal = w.ordinal
            ORDER BY w.created_at DESC, w.id DESC"
        );
        let rows = self
            .requests
            .read(&sql, &[&merchant, &world, &at, &id, &since, &scan, &kind])
            .await?;
        asked.page_of_looked(
            scan,
            rows.iter().map(|row| {
                let place = ListPosition(row.get(3), row.get(4));
                if row.get::<_, Option<Uuid>>(0).is_none() {
                    return Ok((place, None));
                }
                let payment = stored::payment(&self.secrets.sealer, row)?;
                let ordinal = u16::try_from(row.get::<_, i32>(5)).unwrap_or(u16::MAX);
                let key = schema::event(payment.id, ordinal);
                let event: Option<&[u8]> = row.get(6);
                let event = event.ok_or_else(|| records::damaged(&key, "it is missing"))?;
                let event: EventRow = records::decode(&key, event)?;
                Ok((place, Some((event.event(payment.id), payment))))
            }),
        )
    }
}
