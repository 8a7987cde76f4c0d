//! Lists of endpoints and deliveries, and what waits.

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
use crate::rows::schema;
use crate::{Backlog, DeliveryFilter, Fault, Listed, Oldest, Paging};

/// Most deliveries that one call looks at.
const MAX_SCAN: i64 = 2000;

/// Deliveries before `$2`, the newest first, at most `$3`. `$1` is the endpoint.
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

/// The same of those with status `$4` to the endpoints of the merchant `$6` or the reseller `$7` in the environment `$8`, as
/// far as these are named, among the newest `$5` whatever they are: the last of these, and how many they are, stand behind the
/// columns of each.
macro_rules! with_status {
    ($which:literal) => {
        concat!(
            "/* deliveries: list by status */
            WITH looked AS MATERIALIZED (
                SELECT id, status, endpoint FROM delivery d WHERE ",
            $which,
            " AND d.id < $2 ORDER BY d.id DESC LIMIT $5),
            hit AS (SELECT id FROM looked WHERE ($4::smallint IS NULL OR status = $4)
                AND ($6::bigint IS NULL OR endpoint IN (
                    SELECT e.id FROM endpoint e
                    WHERE e.merchant = $6 AND e.reseller = $7 AND e.environment = $8))
                ORDER BY id DESC LIMIT $3)
            SELECT ",
            delivery_columns!(),
            ", (SELECT id FROM looked ORDER BY id LIMIT 1), (SELECT count(*) FROM looked)
            FROM (VALUES (true)) AS always LEFT JOIN (hit JOIN delivery d USING (id)) ON true
            ORDER BY d.id DESC"
        )
    };
}

/// Which deliveries, and what the argument for the endpoint is then.
const OF_ALL: &str = newest!("$1::uuid IS NULL");
const OF_ENDPOINT: &str = newest!("d.endpoint = $1");
const EXHAUSTED: &str = newest!("d.endpoint = $1 AND d.status = 2");
const OF_ALL_WITH: &str = with_status!("$1::uuid IS NULL");
const OF_ENDPOINT_WITH: &str = with_status!("d.endpoint = $1");

/// What waits for an endpoint, the newest first, where that is little.
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

/// The column of a delivery's id.
const ID: usize = 0;
/// The first column behind those of a delivery.
const BEHIND: usize = 9;

/// Where a delivery stands in a list.
const fn list_position(id: Uuid) -> ListPosition {
    ListPosition(0, id)
}

fn placed(row: &Row) -> Result<(ListPosition, Delivery), Fault> {
    Ok((list_position(row.get(ID)), delivery(row)?))
}

/// Whether a row that is always there has a delivery.
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
        self.list_by_time(&tag, paging, sql, own, |row| {
            let endpoint = endpoints::plain(id(row, 2, EndpointId::from_bytes), row)?;
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
        let Some(asked) = ListQuery::read(&tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let (of, before) = (
            filter.endpoint.map(|id| uuid(id.as_bytes())),
            asked.before.1,
        );
        let sql = match (of, filter.status) {
            (Some(_), _) if filter.of.is_some() => OF_ENDPOINT_WITH,
            (None, _) if filter.of.is_some() => OF_ALL_WITH,
            (Some(_), Some(DeliveryStatus::Pending)) => {
                let sorted = MAX_SCAN + 1;
                let found = self
                    .requests
                    .read(PENDING, &[&of, &before, &asked.rows(), &sorted])
                    .await?;
                let count = found.first().map_or(0, |row| row.get::<_, i64>(BEHIND));
                if count < sorted {
                    let found = found.iter().filter(has_one).map(placed);
                    return Ok(asked.page(found.collect::<Result<_, _>>()?));
                }
                OF_ENDPOINT_WITH
            }
            (Some(_), Some(DeliveryStatus::Exhausted)) => EXHAUSTED,
            (Some(_), Some(_)) => OF_ENDPOINT_WITH,
            (None, Some(_)) => OF_ALL_WITH,
            (Some(_), None) => OF_ENDPOINT,
            (None, None) => OF_ALL,
        };
        if ![OF_ENDPOINT_WITH, OF_ALL_WITH].contains(&sql) {
            let found = self
                .requests
                .read(sql, &[&of, &before, &asked.rows()])
                .await?;
            let found = found.iter().map(placed).collect::<Result<_, _>>()?;
            return Ok(asked.page(found));
        }
        let status = filter.status.map(status_number);
        let (owner, world) = filter
            .of
            .map(|(owner, world)| (endpoints::owner(owner), environment(world)))
            .unzip();
        let (merchant, reseller) = owner.unzip();
        let (at_most, look_at) = (asked.rows(), MAX_SCAN);
        let rows = self
            .requests
            .read(
                sql,
                &[
                    &of, &before, &at_most, &status, &look_at, &merchant, &reseller, &world,
                ],
            )
            .await?;
        let found: Vec<_> = rows
            .iter()
            .filter(has_one)
            .map(placed)
            .collect::<Result<_, _>>()?;
        let last_looked = rows
            .first()
            .filter(|row| row.get::<_, i64>(BEHIND + 1) >= MAX_SCAN);
        Ok(match last_looked {
            // A page can be short, and say all the same where the next one begins.
            Some(row) if found.len() <= asked.limit => {
                let items = found.into_iter().map(|(_, item)| item).collect();
                asked.page_up_to(items, row.get::<_, Option<Uuid>>(BEHIND).map(list_position))
            }
            _ => asked.page(found),
        })
    }

    /// Endpoints that something waits for, with the time when the first of it is due.
    pub(crate) async fn list_waiting(
        &self,
        after: Option<EndpointId>,
        at_most: usize,
    ) -> Result<Vec<(EndpointId, Time)>, Fault> {
        // One look at the index for each endpoint, however much waits for it.
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

    /// What waits, counted.
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
                // What waits for a deleted endpoint is about to be cancelled.
                None => continue,
                Some(1) => Environment::Live,
                Some(_) => Environment::Test,
            };
            oldest.note(environment, time(row.get(1)));
        }
        Ok(Backlog { pending, oldest })
    }
}
