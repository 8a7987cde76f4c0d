//! Rows of merchants.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kassette_domain::brand::Brand;
use kassette_domain::id::MerchantId;
use kassette_domain::merchant::{Merchant, SetRate};
use kassette_domain::money::{Currency, Margin};
use kassette_domain::policy::Policy;
use kassette_domain::site::VerifiedDomain;
use kassette_domain::time::Time;
use kassette_engine::IVec;
use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Sealer;
use crate::rows::source::RowSource;

/// A merchant's row. It is followed by the margin, if the merchant has one, or, if it has a brand, by the
/// optional margin and the brand.
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    id: MerchantId,
    name: Cow<'a, str>,
    live_approved: bool,
    rates: Cow<'a, BTreeMap<Currency, SetRate>>,
    policy: Cow<'a, Policy>,
    domains: Cow<'a, [VerifiedDomain]>,
    created_at: Time,
}

/// Encodes a merchant's row.
pub(crate) fn encode(sealer: &Sealer, merchant: &Merchant) -> Result<(Key, IVec), Fault> {
    let key = schema::merchant(merchant.id);
    let row = Written {
        id: merchant.id,
        name: Cow::Borrowed(&merchant.name),
        live_approved: merchant.live_approved,
        rates: Cow::Borrowed(&merchant.rates),
        policy: Cow::Borrowed(&merchant.policy),
        domains: Cow::Borrowed(&merchant.domains),
        created_at: merchant.created_at,
    };
    let row = match (merchant.policy.fx_margin, &merchant.brand) {
        (margin, brand) if *brand != Brand::default() => {
            records::encode(sealer, &key, &(row, margin, brand))?
        }
        (Some(margin), _) => records::encode(sealer, &key, &(row, margin))?,
        (None, _) => records::encode(sealer, &key, &row)?,
    };
    Ok((key, row))
}

/// Decodes a merchant's row.
pub(crate) fn decode(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<Merchant, Fault> {
    // The row is followed by a margin, or by an optional margin and a brand. The two cannot be confused: a
    // margin starts with its number of digits, and an optional one with 0 or 1, which no digit follows.
    let with_margin = records::decode_with_more(sealer, key, row)
        .map(|(row, margin): (Written<'_>, Option<Margin>)| (row, margin, Brand::default()));
    let (row, margin, brand) = match with_margin {
        Ok(read) => read,
        Err(_) => records::decode(sealer, key, row)?,
    };
    let mut policy = row.policy.into_owned();
    policy.fx_margin = margin;
    Ok(Merchant {
        id: row.id,
        name: row.name.into_owned(),
        live_approved: row.live_approved,
        rates: row.rates.into_owned(),
        policy,
        brand,
        domains: row.domains.into_owned(),
        created_at: row.created_at,
    })
}

pub(crate) fn load(source: &impl RowSource, id: MerchantId) -> Result<Option<Merchant>, Fault> {
    let key = schema::merchant(id);
    let row = source.get(&key)?;
    row.map(|row| decode(source.sealer(), &key, &row))
        .transpose()
}

/// Loads a merchant that must exist.
pub(crate) fn expect(source: &impl RowSource, id: MerchantId) -> Result<Merchant, Fault> {
    load(source, id)?.ok_or_else(|| records::damaged(&schema::merchant(id), "it is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::seal::MasterKey;

    fn sealer() -> Sealer {
        Sealer::new(&MasterKey::from_bytes([7; 32]))
    }

    fn merchant() -> Merchant {
        Merchant {
            id: MerchantId(7),
            name: "Shop".into(),
            live_approved: true,
            rates: BTreeMap::new(),
            policy: Policy::default(),
            brand: Brand::default(),
            domains: Vec::new(),
            created_at: Time::from_secs(1),
        }
    }

    #[test]
    fn a_merchant_without_a_margin_is_written_as_before_there_were_any() {
        let mut merchant = merchant();
        let (key, before) = encode(&sealer(), &merchant).unwrap();
        // Number, name, approval, rates; methods, choice, four limits and the fee rule of the policy;
        // domains, time.
        let layout = b"\x07\x04Shop\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\xe8\x07";
        assert_eq!(&before[records::HEADER..], layout);
        assert_eq!(decode(&sealer(), &key, &before), Ok(merchant.clone()));
        merchant.policy.fx_margin = Margin::parse("0.015").ok();
        let (key, row) = encode(&sealer(), &merchant).unwrap();
        assert!(row[records::HEADER..].starts_with(layout) && row.len() > before.len());
        assert_eq!(decode(&sealer(), &key, &row), Ok(merchant));
    }

    #[test]
    fn a_brand_is_kept_with_a_margin_and_without() {
        let mut merchant = merchant();
        for margin in [None, Some("0"), Some("0.015"), Some("0.5")] {
            merchant.policy.fx_margin = margin.map(|margin| Margin::parse(margin).unwrap());
            for logo in [None, Some(vec![]), Some(vec![0x31; 100])] {
                merchant.brand = Brand {
                    colour: Some("#12453a".parse().unwrap()),
                    logo: logo.map(|logo| logo.try_into().unwrap()),
                    shows_provider: true,
                    support: "help@shop.example".parse().ok(),
                };
                let (key, row) = encode(&sealer(), &merchant).unwrap();
                assert_eq!(decode(&sealer(), &key, &row).as_ref(), Ok(&merchant));
            }
            merchant.brand = Brand::default();
            let (key, row) = encode(&sealer(), &merchant).unwrap();
            assert_eq!(decode(&sealer(), &key, &row).as_ref(), Ok(&merchant));
        }
    }
}
