//! Checks of the figures of payments.

use kassette_domain::figures::Figures;
use tokio_postgres::Row;

use crate::postgres::columns::environment;
use crate::postgres::errors::OpenError;
use crate::postgres::time;
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::rows::seal::Secrets;
use crate::rows::{records, schema};

const FIGURES: &str = "/* verify: figures */ SELECT environment, begin, body FROM figures";

pub(super) async fn read(reading: &mut Reading<'_>) -> Result<(), OpenError> {
    reading.each("figures", FIGURES, figures).await
}

fn figures(row: &Row, secrets: &Secrets) -> CheckedRow {
    let key = schema::figures(environment(row, 0), time(row.get(1)));
    let looked = records::decode::<Figures>(&secrets.sealer, &key, row.get(2));
    (key, looked.map(|_| Vec::new()))
}
