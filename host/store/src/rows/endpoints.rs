//! Webhook endpoints as rows: their secrets are sealed.

use kassette_domain::webhook::{Endpoint, EndpointSecrets};
use kassette_engine::IVec;
use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Sealer;
use crate::rows::stored::closed;

/// An endpoint's row.
#[derive(Serialize, Deserialize)]
struct EndpointRow {
    plain: Endpoint,
    /// [`EndpointSecrets`].
    sealed: Vec<u8>,
}

/// Encodes an endpoint's row.
pub(crate) fn encode(
    sealer: &Sealer,
    endpoint: &Endpoint,
    secrets: &EndpointSecrets,
) -> Result<(Key, IVec), Fault> {
    let key = schema::webhooks::endpoint(endpoint.id);
    let row = EndpointRow {
        plain: endpoint.clone(),
        sealed: sealer.seal(&key, secrets)?,
    };
    let row = records::encode(&key, &row)?;
    Ok((key, row))
}

/// Reads an endpoint without its secrets.
pub(crate) fn decode(key: &[u8], row: &[u8]) -> Result<Endpoint, Fault> {
    records::decode(key, row).map(|row: EndpointRow| row.plain)
}

/// Reads an endpoint with its secrets.
pub(crate) fn open(
    sealer: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<(Endpoint, EndpointSecrets), Fault> {
    let EndpointRow { plain, sealed } = records::decode(key, row)?;
    let secrets = sealer
        .open(key, &sealed)
        .map_err(|unopened| closed(key, unopened))?;
    Ok((plain, secrets))
}

/// Seals an endpoint's secrets under another key.
pub(crate) fn reseal(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let (plain, secrets) = open(old, key, row)?;
    encode(new, &plain, &secrets).map(|(_, row)| row)
}
