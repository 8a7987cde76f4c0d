//! Format of a row: a version, a MAC over key and payload, the payload. Both stores use it, with the same
//! keys.

use kassette_engine::IVec;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Fault;
use crate::rows::seal::{ROW_MAC, Sealer};

/// Version of the payload layout. Postcard stores no field names: a change of a stored type needs another
/// number, and a reader for the old one.
const VERSION: u8 = 2;
/// Size of version and MAC, in bytes.
pub(crate) const HEADER: usize = 1 + ROW_MAC;

/// Maximum size of a row, in bytes. sled puts larger ones than about 128 KiB into separate files, which it
/// never syncs. The largest record is an attempt with a provider's form.
const MAX_ROW: usize = 96 * 1024;
// sled puts a page over a quarter of a segment into a separate file, which it does not sync. A page has at
// most twenty rows: it is split at seventeen, possibly after a merge with a smaller one.
const _: () = assert!(20 * (MAX_ROW + 512) < kassette_engine::SEGMENT_BYTES / 4);

/// Encodes a value for a row.
pub(crate) fn encode<T: Serialize>(sealer: &Sealer, key: &[u8], value: &T) -> Result<IVec, Fault> {
    let mut header = Vec::with_capacity(256);
    header.resize(HEADER, 0);
    let mut row = postcard::to_extend(value, header)
        .map_err(|error| Fault::Unavailable(format!("a record cannot be encoded: {error}")))?;
    if row.len() > MAX_ROW {
        return Err(Fault::Unavailable(format!(
            "a record of {} bytes is over the limit of {MAX_ROW}",
            row.len()
        )));
    }
    let mac = sealer.row_mac(key, &row[HEADER..]);
    row[0] = VERSION;
    row[1..HEADER].copy_from_slice(&mac);
    Ok(IVec::from(row))
}

/// Decodes a row.
pub(crate) fn decode<T: DeserializeOwned>(
    sealer: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<T, Fault> {
    match postcard::take_from_bytes(payload(sealer, key, row)?) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(damaged(key, "something follows it")),
        Err(_) => Err(formless(key)),
    }
}

/// Decodes a row that may have a second value. Rows from before that was introduced have none.
pub(crate) fn decode_with_more<T: DeserializeOwned, M: DeserializeOwned>(
    sealer: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<(T, Option<M>), Fault> {
    let (value, rest) =
        postcard::take_from_bytes(payload(sealer, key, row)?).map_err(|_| formless(key))?;
    match rest {
        [] => Ok((value, None)),
        rest => match postcard::take_from_bytes(rest) {
            Ok((more, [])) => Ok((value, Some(more))),
            _ => Err(formless(key)),
        },
    }
}

/// Decodes the first value of a row and ignores the rest.
pub(crate) fn decode_head<T: DeserializeOwned>(
    sealer: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<T, Fault> {
    let read = postcard::take_from_bytes(payload(sealer, key, row)?);
    read.map(|(head, _)| head).map_err(|_| formless(key))
}

/// Decodes a row without authentication, for statistics without a key.
pub(crate) fn decode_unauthenticated<T: DeserializeOwned>(row: &[u8]) -> Option<T> {
    postcard::from_bytes(row.get(HEADER..)?).ok()
}

fn formless(key: &[u8]) -> Fault {
    damaged(key, "it does not have its type's form")
}

/// Renews a row's MAC under another master key.
pub(crate) fn renew(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let payload = payload(old, key, row)?;
    let mac = new.row_mac(key, payload);
    Ok(IVec::from([&[VERSION], &mac[..], payload].concat()))
}

/// Payload of a row, after version and MAC were verified.
fn payload<'r>(sealer: &Sealer, key: &[u8], row: &'r [u8]) -> Result<&'r [u8], Fault> {
    let (header, payload) = row
        .split_at_checked(HEADER)
        .ok_or_else(|| damaged(key, "it is cut off"))?;
    if header[0] != VERSION {
        return Err(damaged(key, "its version is not known"));
    }
    if !sealer.is_row_mac(key, payload, &header[1..]) {
        return Err(damaged(key, "it is not authentic"));
    }
    Ok(payload)
}

/// Returns `None` for a damaged row, for callers that process other rows too: a damaged row must not block
/// others. The log describes the damage.
pub(crate) fn readable<T>(read: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Corrupt(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Finding about a row of PostgreSQL whose columns differ from its body.
pub(crate) const OTHER_COLUMNS: &str = "its columns say something else than its body";

/// Error for a damaged row. Keys contain ids and hashes, never secrets, but the error names only the kind.
pub(crate) fn damaged(key: &[u8], what: &str) -> Fault {
    let kind = key.split(|byte| *byte == b'/').next().unwrap_or_default();
    let fault = format!("a row of {}: {what}", String::from_utf8_lossy(kind));
    tracing::error!(store.row = %hex::encode(key), "{fault}");
    Fault::Corrupt(fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::seal::MasterKey;

    fn sealer(key: u8) -> Sealer {
        Sealer::new(&MasterKey::from_bytes([key; 32]))
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let row = encode(&sealer(1), b"pay/1", &("text".to_owned(), 7_u64)).unwrap();
        let read: (String, u64) = decode(&sealer(1), b"pay/1", &row).unwrap();
        assert_eq!(read, ("text".to_owned(), 7));
        for bit in 0..row.len() * 8 {
            let mut flipped = row.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<(String, u64)>(&sealer(1), b"pay/1", &flipped).is_err());
        }
    }

    #[test]
    fn a_row_in_another_place_or_cut_off_is_damage() {
        let row = encode(&sealer(1), b"pay/1", &7_u64).unwrap();
        assert!(decode::<u64>(&sealer(1), b"pay/2", &row).is_err());
        assert!(decode::<u64>(&sealer(1), b"pay/1", &row[..row.len() - 1]).is_err());
        assert!(decode::<u64>(&sealer(1), b"pay/1", &[]).is_err());
    }

    #[test]
    fn a_row_is_authentic_under_its_master_key_alone_and_may_be_brought_to_another() {
        let row = encode(&sealer(1), b"pay/1", &7_u64).unwrap();
        assert!(decode::<u64>(&sealer(2), b"pay/1", &row).is_err());
        let renewed = renew(&sealer(1), &sealer(2), b"pay/1", &row).unwrap();
        assert_eq!(decode::<u64>(&sealer(2), b"pay/1", &renewed), Ok(7));
        assert!(renew(&sealer(1), &sealer(2), b"pay/1", &renewed).is_err());
        // The MAC depends on the position at which the key ends and the payload starts.
        let (key, payload) = (b"pay/1\x07", b"");
        let mac = sealer(1).row_mac(b"pay/1", &[7]);
        assert!(!sealer(1).is_row_mac(key, payload, &mac));
    }

    /// As written by a later release.
    #[test]
    fn a_row_with_a_newer_part_is_refused_with_its_reason() {
        let why = |row: &[u8]| match decode::<u64>(&sealer(1), b"pay/1", row) {
            Err(Fault::Corrupt(why)) => why,
            other => panic!("{other:?}"),
        };
        let more = encode(&sealer(1), b"pay/1", &(7_u64, "more")).unwrap();
        assert!(why(&more).contains("something follows it"));
        let mut newer = encode(&sealer(1), b"pay/1", &7_u64).unwrap().to_vec();
        newer[0] += 1;
        assert!(why(&newer).contains("its version is not known"));
    }

    #[test]
    fn a_row_that_the_engine_would_not_sync_is_refused() {
        assert!(matches!(
            encode(&sealer(1), b"pay/1", &vec![0_u8; MAX_ROW]),
            Err(Fault::Unavailable(_))
        ));
    }

    /// `cargo test --release -p kassette-store --lib -- --ignored --nocapture the_cost_of_a_mac`
    #[test]
    #[ignore = "measured by hand"]
    fn the_cost_of_a_mac() {
        const TIMES: u32 = 100_000;
        let sealer = sealer(1);
        for length in [20, 300, 1000] {
            let (key, payload) = ([7_u8; 20], vec![7_u8; length]);
            let began = std::time::Instant::now();
            for _ in 0..TIMES {
                let mac = sealer.row_mac(&key, std::hint::black_box(&payload));
                assert!(sealer.is_row_mac(&key, &payload, &mac));
            }
            let mac = began.elapsed() / TIMES;
            // The previous solution: CRC-32 over the same bytes, written and compared.
            let began = std::time::Instant::now();
            for _ in 0..TIMES {
                let sum = || {
                    let mut sum = crc32fast::Hasher::new();
                    sum.update(&key);
                    sum.update(std::hint::black_box(&payload));
                    sum.finalize()
                };
                assert_eq!(sum(), sum());
            }
            let sum = began.elapsed() / TIMES;
            let ratio = mac.as_secs_f64() / sum.as_secs_f64();
            eprintln!(
                "{length} bytes: {mac:?} to make and to check a MAC, {sum:?} a CRC-32: {ratio:.0} times"
            );
        }
    }
}
