//! Lists of endpoints and deliveries, and the backlog.

use kassette_domain::id::EndpointId;
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryStatus, Endpoint};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::deliveries::MAX_WAITING;
use crate::postgres::columns::id;
use crate::postgres::database::Arguments;
use crate::postgres::directory::keys::environment;
use crate::postgres::lists::{ListPosition, ListQuery};
use crate::postgres::webhooks::endpoints;
use crate::postgres::webhooks::outbox::{delivery, delivery_columns, status_number};
use crate::postgres::{PostgresStore, time, uuid};
use crate::rows::records::{self, OTHER_COLUMNS};
use crate::rows::schema;
use crate::rows::seal::Sealer;
use crate::{Backlog, DeliveryFilter, Fault, Listed, Oldest, Paging};

/// Maximum number of deliveries that one call reads.
const MAX_SCAN: i64 = 2000;

/// Deliveries before `$2`, newest first, at most `$3`. `$1` is the endpoint.
macro_rules! newest {
    ($which:literal) => {
        concat!(
            "/* deliveries: list */ SELECT ",
            delivery_columns!(),
            " FROM delivery d WHERE ",
            $which,
            " AND d.id < $2 ORDER BY d.id DESC LIMIT $3"
        )
    };
}

/// At most `$3` deliveries before `$2` that match a filter, among the newest `$4` of `from`. Two more columns contain
/// the last delivery read and the number of deliveries read.
fn filtered(from: &str) -> String {
    format!(
        "/* deliveries: list by filter */
        WITH looked AS MATERIALIZED (
            SELECT id FROM {from} AND id < $2 AND id >= $5 AND id < $6 ORDER BY id DESC LIMIT $4),
        hit AS (SELECT id FROM looked JOIN delivery USING (id)
            WHERE ($1::uuid IS NULL OR endpoint = $1) AND ($7::smallint IS NULL OR status = $7)
                AND (NOT $8 OR status = 2 OR status = 0 AND attempts > 0)
                AND ($9::uuid IS NULL OR payment = $9) AND ($10::uuid IS NULL OR event = $10)
                AND ($11::bigint IS NULL OR endpoint IN ({OWN}))
            ORDER BY id DESC LIMIT $3)
        SELECT {COLUMNS}, (SELECT id FROM looked ORDER BY id LIMIT 1), (SELECT count(*) FROM looked)
        FROM (VALUES (true)) AS always LEFT JOIN (hit JOIN delivery d USING (id)) ON true
        ORDER BY d.id DESC"
    )
}

const COLUMNS: &str = delivery_columns!();
/// An owner's endpoints.
const OWN: &str = "SELECT e.id FROM endpoint e
    WHERE e.merchant = $11 AND e.reseller = $12 AND ($13::smallint IS NULL OR e.environment = $13)";
/// The newest deliveries to each of an owner's endpoints.
const TO_OWN: &str = "endpoint e, LATERAL (SELECT d.id FROM delivery d
        WHERE d.endpoint = e.id AND d.id < $2 AND d.id >= $5 AND d.id < $6 ORDER BY d.id DESC LIMIT $4) d
    WHERE e.merchant = $11 AND e.reseller = $12 AND ($13::smallint IS NULL OR e.environment = $13)";

/// Queries for all deliveries, with a null endpoint `$1`, and for an endpoint's.
const OF_ALL: &str = newest!("$1::uuid IS NULL");
const OF_ENDPOINT: &str = newest!("d.endpoint = $1");
const EXHAUSTED: &str = newest!("d.endpoint = $1 AND d.status = 2");

/// Deliveries that wait for an endpoint, newest first, if they are few.
const PENDING: &str = concat!(
    "/* deliveries: list pending */
    WITH waiting AS MATERIALIZED (
        SELECT id FROM delivery WHERE endpoint = $1 AND status = 0 ORDER BY next_at, id LIMIT $4)
    SELECT ",
    delivery_columns!(),
    ", (SELECT count(*) FROM waiting)
    FROM (VALUES (true)) AS always LEFT JOIN (
        SELECT d.* FROM waiting JOIN delivery d USING (id) WHERE d.id < $2 ORDER BY d.id DESC LIMIT $3) d ON true
    ORDER BY d.id DESC"
);

/// Index of the id column.
const ID: usize = 0;
/// Index of the first column after those of a delivery.
const BEHIND: usize = 9;

/// Position of a delivery in a list.
const fn list_position(id: Uuid) -> ListPosition {
    ListPosition(0, id)
}

fn placed(sealer: &Sealer, row: &Row) -> Result<(ListPosition, Delivery), Fault> {
    Ok((list_position(row.get(ID)), delivery(sealer, row)?))
}

/// Whether the outer join found a delivery.
fn has_one(row: &&Row) -> bool {
    row.get::<_, Option<Uuid>>(ID).is_some()
}

impl PostgresStore {
    /// An owner's endpoints, in one environment or in both, newest first.
    pub(crate) async fn list_endpoints(
        &self,
        owner: KeyOwner,
        of: Option<Environment>,
        paging: Paging,
    ) -> Result<Listed<Endpoint>, Fault> {
        let tag = schema::webhooks::endpoints_of(owner);
        let sql = "/* endpoints: list */ SELECT body, created_at, id FROM endpoint
            WHERE merchant = $1 AND reseller = $2 AND (created_at, id) < ($4, $5)
                AND ($3::smallint IS NULL OR environment = $3)
            ORDER BY created_at DESC, id DESC LIMIT $6";
        let ((merchant, reseller), world) = (endpoints::owner(owner), of.map(environment));
        let own: Arguments<'_> = &[&merchant, &reseller, &world];
        self.list_by_time(&tag, paging, sql, own, |sealer, row| {
            let endpoint = endpoints::plain(sealer, id(row, 2, EndpointId::from_bytes), row)?;
            if endpoint.owner != owner {
                let key = schema::webhooks::endpoint(endpoint.id);
                return Err(records::damaged(&key, OTHER_COLUMNS));
            }
            Ok((ListPosition(row.get(1), row.get(2)), endpoint))
        })
        .await
    }

    /// Deliveries, newest first.
    pub(crate) async fn list_deliveries(
        &self,
        filter: DeliveryFilter,
        paging: Paging,
    ) -> Result<Listed<Delivery>, Fault> {
        let mut tag = b"delivery/".to_vec();
        if let Some(endpoint) = filter.endpoint {
            tag.extend(endpoint.as_bytes());
        }
        let Some(asked) = ListQuery::read(&self.secrets.sealer, &tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let (of, before) = (
            filter.endpoint.map(|id| uuid(id.as_bytes())),
            asked.before.1,
        );
        let plain = DeliveryFilter {
            endpoint: filter.endpoint,
            status: filter.status,
            ..DeliveryFilter::default()
        };
        let sql = match (of, filter.status) {
            _ if filter != plain => None,
            (Some(_), Some(DeliveryStatus::Pending)) => {
                let sorted = MAX_SCAN + 1;
                let found = self
                    .requests
                    .read(PENDING, &[&of, &before, &asked.rows(), &sorted])
                    .await?;
                let count = found.first().map_or(0, |row| row.get::<_, i64>(BEHIND));
                if count < sorted {
                    let found = found
                        .iter()
                        .filter(has_one)
                        .map(|row| placed(&self.secrets.sealer, row));
                    return asked.page(found.collect::<Result<_, _>>()?);
                }
                None
            }
            (Some(_), Some(DeliveryStatus::Exhausted)) => Some(EXHAUSTED),
            (_, Some(_)) => None,
            (Some(_), None) => Some(OF_ENDPOINT),
            (None, None) => Some(OF_ALL),
        };
        if let Some(sql) = sql {
            let found = self
                .requests
                .read(sql, &[&of, &before, &asked.rows()])
                .await?;
            let found = found
                .iter()
                .map(|row| placed(&self.secrets.sealer, row))
                .collect::<Result<_, _>>()?;
            return asked.page(found);
        }
        let from = match filter {
            DeliveryFilter {
                payment: Some(_), ..
            } => "delivery WHERE payment = $9".to_owned(),
            DeliveryFilter { event: Some(_), .. } => "delivery WHERE event = $10".to_owned(),
            DeliveryFilter {
                endpoint: Some(_), ..
            } => "delivery WHERE endpoint = $1".to_owned(),
            DeliveryFilter { of: Some(_), .. } => {
                format!("(SELECT d.id FROM {TO_OWN}) t WHERE true")
            }
            _ => "delivery WHERE true".to_owned(),
        };
        let sql = filtered(&from);
        let (owner, world) = filter
            .of
            .map(|(owner, world)| (endpoints::owner(owner), world.map(environment)))
            .unzip();
        let (merchant, reseller) = owner.unzip();
        let drawn = |at: Time| uuid(schema::webhooks::first_delivery_id(at).as_bytes());
        let rows = self
            .requests
            .read(
                &sql,
                &[
                    &of,
                    &before,
                    &asked.rows(),
                    &MAX_SCAN,
                    &filter.since.map_or(Uuid::nil(), drawn),
                    &filter.until.map_or(Uuid::max(), drawn),
                    &filter.status.map(status_number),
                    &filter.failed,
                    &filter.payment.map(|id| uuid(id.as_bytes())),
                    &filter.event.map(|id| uuid(id.as_bytes())),
                    &merchant,
                    &reseller,
                    &world.flatten(),
                ],
            )
            .await?;
        let found: Vec<_> = rows
            .iter()
            .filter(has_one)
            .map(|row| placed(&self.secrets.sealer, row))
            .collect::<Result<_, _>>()?;
        let last_looked = rows
            .first()
            .filter(|row| row.get::<_, i64>(BEHIND + 1) >= MAX_SCAN);
        match last_looked {
            // A short page can still have a next page.
            Some(row) if found.len() <= asked.limit => {
                let items = found.into_iter().map(|(_, item)| item).collect();
                asked.page_up_to(items, row.get::<_, Option<Uuid>>(BEHIND).map(list_position))
            }
            _ => asked.page(found),
        }
    }

    /// Endpoints with waiting deliveries, with the due time of the first one.
    pub(crate) async fn list_waiting(
        &self,
        after: Option<EndpointId>,
        at_most: usize,
    ) -> Result<Vec<(EndpointId, Time)>, Fault> {
        // One index lookup per endpoint, whatever the size of its backlog.
        let sql = "/* endpoints: waiting */
            WITH RECURSIVE waiting AS (
                (SELECT endpoint, next_at FROM delivery WHERE status = 0 AND endpoint > $1
                    ORDER BY endpoint, next_at LIMIT 1)
                UNION ALL
                SELECT n.endpoint, n.next_at FROM waiting w, LATERAL (
                    SELECT endpoint, next_at FROM delivery WHERE status = 0 AND endpoint > w.endpoint
                    ORDER BY endpoint, next_at LIMIT 1) n)
            SELECT endpoint, next_at FROM waiting LIMIT $2";
        let after = after.map_or(Uuid::nil(), |id| uuid(id.as_bytes()));
        let at_most = i64::try_from(at_most.min(MAX_WAITING)).unwrap_or_default();
        let found = self.workers.read(sql, &[&after, &at_most]).await?;
        let each = found
            .iter()
            .map(|row| (id(row, 0, EndpointId::from_bytes), time(row.get(1))));
        let waiting: Vec<_> = each.collect();
        self.claims.found_waiting(&waiting);
        Ok(waiting)
    }

    /// Counts waiting deliveries.
    pub(crate) async fn count_waiting(&self) -> Result<Backlog, Fault> {
        let sql = "/* deliveries: backlog */
            SELECT w.count, w.oldest, e.environment
            FROM (SELECT endpoint, count(*) AS count, min(created_at) AS oldest
                FROM delivery WHERE status = 0 GROUP BY endpoint) w
            LEFT JOIN endpoint e ON e.id = w.endpoint";
        let (mut pending, mut oldest) = (0, Oldest::default());
        for row in self.workers.read(sql, &[]).await? {
            pending += u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
            let environment = match row.get::<_, Option<i16>>(2) {
                // Deliveries of a deleted endpoint will be cancelled.
                None => continue,
                Some(1) => Environment::Live,
                Some(_) => Environment::Test,
            };
            oldest.note(environment, time(row.get(1)));
        }
        Ok(Backlog { pending, oldest })
    }
}
