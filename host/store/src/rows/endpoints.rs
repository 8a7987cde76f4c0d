//! Webhook endpoints as rows: their secrets are sealed.

use kassette_domain::id::{EndpointId, MerchantId, ResellerId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointSecrets, EventFilter};
use kassette_engine::IVec;
use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Sealer;
use crate::rows::stored::closed;

/// A merchant's endpoint. For a reseller's, the merchant is 0, which is no merchant's number, and the reseller's
/// number follows the row. Older rows have no such suffix. An older program takes a reseller's row for damaged,
/// and never for a merchant's.
#[derive(Serialize, Deserialize)]
struct EndpointRow {
    id: EndpointId,
    merchant: MerchantId,
    environment: Environment,
    url: String,
    event_types: EventFilter,
    enabled: bool,
    created_at: Time,
    /// [`EndpointSecrets`].
    sealed: Vec<u8>,
}

/// The merchant of a row, and the reseller behind it.
const fn parties(owner: KeyOwner) -> (MerchantId, Option<ResellerId>) {
    match owner {
        KeyOwner::Merchant(merchant) => (merchant, None),
        KeyOwner::Reseller(reseller) => (MerchantId(0), Some(reseller)),
    }
}

fn read(key: &[u8], row: &[u8]) -> Result<(Endpoint, Vec<u8>), Fault> {
    let (row, reseller): (EndpointRow, Option<ResellerId>) = records::decode_with_more(key, row)?;
    let owner = reseller.map_or(KeyOwner::Merchant(row.merchant), KeyOwner::Reseller);
    if parties(owner).0 != row.merchant {
        return Err(records::damaged(key, "it is a merchant's and a reseller's"));
    }
    let endpoint = Endpoint {
        id: row.id,
        owner,
        environment: row.environment,
        url: row.url,
        event_types: row.event_types,
        enabled: row.enabled,
        created_at: row.created_at,
    };
    Ok((endpoint, row.sealed))
}

/// Encodes an endpoint's row.
pub(crate) fn encode(
    sealer: &Sealer,
    endpoint: &Endpoint,
    secrets: &EndpointSecrets,
) -> Result<(Key, IVec), Fault> {
    let key = schema::webhooks::endpoint(endpoint.id);
    let (merchant, reseller) = parties(endpoint.owner);
    let row = EndpointRow {
        id: endpoint.id,
        merchant,
        environment: endpoint.environment,
        url: endpoint.url.clone(),
        event_types: endpoint.event_types.clone(),
        enabled: endpoint.enabled,
        created_at: endpoint.created_at,
        sealed: sealer.seal(&key, secrets)?,
    };
    let row = match reseller {
        None => records::encode(&key, &row)?,
        Some(reseller) => records::encode(&key, &(row, reseller))?,
    };
    Ok((key, row))
}

/// Reads an endpoint without its secrets.
pub(crate) fn decode(key: &[u8], row: &[u8]) -> Result<Endpoint, Fault> {
    read(key, row).map(|(endpoint, _)| endpoint)
}

/// Reads an endpoint with its secrets.
pub(crate) fn open(
    sealer: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<(Endpoint, EndpointSecrets), Fault> {
    let (endpoint, sealed) = read(key, row)?;
    let secrets = sealer
        .open(key, &sealed)
        .map_err(|unopened| closed(key, unopened))?;
    Ok((endpoint, secrets))
}

/// Seals an endpoint's secrets under another key.
pub(crate) fn reseal(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let (endpoint, secrets) = open(old, key, row)?;
    encode(new, &endpoint, &secrets).map(|(_, row)| row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::seal::MasterKey;
    use crate::suite::fixtures::{NOW, endpoint, secrets};

    /// As it was written before resellers had endpoints.
    #[derive(Serialize)]
    struct Before {
        plain: Plain,
        sealed: Vec<u8>,
    }

    #[derive(Serialize)]
    struct Plain {
        id: EndpointId,
        merchant: MerchantId,
        environment: Environment,
        url: String,
        event_types: EventFilter,
        enabled: bool,
        created_at: Time,
    }

    #[test]
    fn a_row_from_before_resellers_had_endpoints_is_read_and_written_as_it_was() {
        let sealer = Sealer::new(&MasterKey::from_bytes([7; 32]));
        let endpoint = endpoint("a", NOW);
        let key = schema::webhooks::endpoint(endpoint.id);
        let before = Before {
            plain: Plain {
                id: endpoint.id,
                merchant: MerchantId(1),
                environment: endpoint.environment,
                url: endpoint.url.clone(),
                event_types: endpoint.event_types.clone(),
                enabled: endpoint.enabled,
                created_at: endpoint.created_at,
            },
            sealed: sealer.seal(&key, &secrets("a")).unwrap(),
        };
        let row = records::encode(&key, &before).unwrap();
        let (read, read_secrets) = open(&sealer, &key, &row).unwrap();
        assert_eq!((&read, &read_secrets), (&endpoint, &secrets("a")));
        let (_, again) = encode(&sealer, &read, &read_secrets).unwrap();
        // Sealing draws a nonce: what is sealed is as long and another text.
        let plain = |row: &IVec| row[5..row.len() - before.sealed.len()].to_vec();
        assert_eq!((again.len(), plain(&again)), (row.len(), plain(&row)));
    }

    #[test]
    fn a_reseller_s_row_is_no_merchant_s_to_a_program_of_before() {
        let sealer = Sealer::new(&MasterKey::from_bytes([7; 32]));
        let own = Endpoint {
            owner: KeyOwner::Reseller(ResellerId(1)),
            ..endpoint("a", NOW)
        };
        let (key, row) = encode(&sealer, &own, &secrets("a")).unwrap();
        assert_eq!(decode(&key, &row), Ok(own));
        let as_before: Result<EndpointRow, _> = records::decode(&key, &row);
        assert!(matches!(as_before, Err(Fault::Corrupt(_))));
        let (head, _): (EndpointRow, Option<ResellerId>) =
            records::decode_with_more(&key, &row).unwrap();
        let both = (
            EndpointRow {
                merchant: MerchantId(1),
                ..head
            },
            ResellerId(1),
        );
        let row = records::encode(&key, &both).unwrap();
        assert!(matches!(decode(&key, &row), Err(Fault::Corrupt(_))));
    }
}
