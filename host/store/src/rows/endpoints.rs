//! Rows of webhook endpoints. Their secrets are sealed.

use kassette_domain::id::{EndpointId, MerchantId, ResellerId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointCreator, EndpointSecrets, EventFilter};
use kassette_engine::IVec;
use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Sealer;
use crate::rows::stored::closed;

/// An endpoint. For a reseller's, the merchant is 0, which is never a merchant's number. [`More`] follows the
/// row, except in rows from before resellers had endpoints.
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

/// The second part of a row.
#[derive(Serialize, Deserialize)]
struct More {
    reseller: Option<ResellerId>,
    created_by: EndpointCreator,
    off: Vec<(Time, Option<Time>)>,
}

/// The merchant and the reseller in the row of an owner.
const fn parties(owner: KeyOwner) -> (MerchantId, Option<ResellerId>) {
    match owner {
        KeyOwner::Merchant(merchant) => (merchant, None),
        KeyOwner::Reseller(reseller) => (MerchantId(0), Some(reseller)),
    }
}

fn read(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<(Endpoint, Vec<u8>), Fault> {
    let (row, more): (EndpointRow, Option<More>) = records::decode_with_more(sealer, key, row)?;
    let More {
        reseller,
        created_by,
        off,
    } = more.unwrap_or(More {
        reseller: None,
        created_by: EndpointCreator::System,
        off: Vec::new(),
    });
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
        created_by,
        off,
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
    let more = More {
        reseller,
        created_by: endpoint.created_by,
        off: endpoint.off.clone(),
    };
    let row = records::encode(sealer, &key, &(row, more))?;
    Ok((key, row))
}

/// Reads an endpoint without its secrets.
pub(crate) fn decode(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<Endpoint, Fault> {
    read(sealer, key, row).map(|(endpoint, _)| endpoint)
}

/// Reads an endpoint with its secrets.
pub(crate) fn open(
    sealer: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<(Endpoint, EndpointSecrets), Fault> {
    let (endpoint, sealed) = read(sealer, key, row)?;
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
    use kassette_domain::id::{KeyId, OperatorId};

    use super::*;
    use crate::rows::seal::MasterKey;
    use crate::suite::fixtures::{NOW, endpoint, secrets};

    #[test]
    fn a_row_keeps_its_owner_and_its_creator() {
        let sealer = Sealer::new(&MasterKey::from_bytes([7; 32]));
        for created_by in [
            EndpointCreator::System,
            EndpointCreator::Operator(OperatorId::from_bytes([3; 16])),
            EndpointCreator::Key(KeyId::from_bytes([4; 16])),
        ] {
            let endpoint = Endpoint {
                created_by,
                ..endpoint("a", NOW)
            };
            let (key, row) = encode(&sealer, &endpoint, &secrets("a")).unwrap();
            assert_eq!(open(&sealer, &key, &row).unwrap(), (endpoint, secrets("a")));
        }
    }

    #[test]
    fn a_row_without_what_follows_it_is_a_merchant_s_of_unknown_creator() {
        let sealer = Sealer::new(&MasterKey::from_bytes([7; 32]));
        let endpoint = endpoint("a", NOW);
        let (key, row) = encode(&sealer, &endpoint, &secrets("a")).unwrap();
        let (head, _): (EndpointRow, Option<More>) =
            records::decode_with_more(&sealer, &key, &row).unwrap();
        let row = records::encode(&sealer, &key, &head).unwrap();
        let created_by = EndpointCreator::System;
        assert_eq!(
            decode(&sealer, &key, &row),
            Ok(Endpoint {
                created_by,
                ..endpoint
            })
        );
    }

    #[test]
    fn a_row_of_a_merchant_and_a_reseller_is_damaged() {
        let sealer = Sealer::new(&MasterKey::from_bytes([7; 32]));
        let own = Endpoint {
            owner: KeyOwner::Reseller(ResellerId(1)),
            ..endpoint("a", NOW)
        };
        let (key, row) = encode(&sealer, &own, &secrets("a")).unwrap();
        assert_eq!(decode(&sealer, &key, &row), Ok(own));
        let (head, more): (EndpointRow, Option<More>) =
            records::decode_with_more(&sealer, &key, &row).unwrap();
        let both = EndpointRow {
            merchant: MerchantId(1),
            ..head
        };
        let row = records::encode(&sealer, &key, &(both, more.unwrap())).unwrap();
        assert!(matches!(
            decode(&sealer, &key, &row),
            Err(Fault::Corrupt(_))
        ));
    }
}
