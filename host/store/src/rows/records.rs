//! How a row is written: a version, a checksum over key and payload, the payload.

use kassette_engine::IVec;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Fault;

/// The version of the payloads' layout. Postcard names no fields: a change to a stored type needs
/// another number, and a reader for the old one.
const VERSION: u8 = 1;
/// Version and CRC-32.
const HEADER: usize = 5;

/// Longest row, in bytes. sled puts what is over about 128 KiB into files of its own, which it never
/// syncs; the largest record is an attempt with a vendor's form.
const MAX_ROW: usize = 96 * 1024;
// sled gives a page over a quarter of a segment a file of its own, which it does not sync. A page has at most
// twenty rows: it is split at seventeen, and once it was merged with a smaller one.
const _: () = assert!(20 * (MAX_ROW + 512) < kassette_engine::SEGMENT_BYTES / 4);

/// Over the key as well: a row that turns up elsewhere is damage too.
fn checksum(key: &[u8], payload: &[u8]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(key);
    crc.update(payload);
    crc.finalize().to_le_bytes()
}

/// Writes a value for a row.
pub(crate) fn encode<T: Serialize>(key: &[u8], value: &T) -> Result<IVec, Fault> {
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
    let sum = checksum(key, &row[HEADER..]);
    row[0] = VERSION;
    row[1..HEADER].copy_from_slice(&sum);
    Ok(IVec::from(row))
}

/// Reads a row back.
pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], row: &[u8]) -> Result<T, Fault> {
    match postcard::take_from_bytes(payload(key, row)?) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(damaged(key, "something follows it")),
        Err(_) => Err(formless(key)),
    }
}

/// Reads a row back behind which another value may stand: rows from before it was written have none.
pub(crate) fn decode_with_more<T: DeserializeOwned, M: DeserializeOwned>(
    key: &[u8],
    row: &[u8],
) -> Result<(T, Option<M>), Fault> {
    let (value, rest) = postcard::take_from_bytes(payload(key, row)?).map_err(|_| formless(key))?;
    match rest {
        [] => Ok((value, None)),
        rest => match postcard::take_from_bytes(rest) {
            Ok((more, [])) => Ok((value, Some(more))),
            _ => Err(formless(key)),
        },
    }
}

/// Reads what a row begins with, whatever follows.
pub(crate) fn decode_head<T: DeserializeOwned>(key: &[u8], row: &[u8]) -> Result<T, Fault> {
    let read = postcard::take_from_bytes(payload(key, row)?);
    read.map(|(head, _)| head).map_err(|_| formless(key))
}

fn formless(key: &[u8]) -> Fault {
    damaged(key, "it does not have its type's form")
}

/// What a row holds, once version and checksum are right.
fn payload<'r>(key: &[u8], row: &'r [u8]) -> Result<&'r [u8], Fault> {
    let (header, payload) = row
        .split_at_checked(HEADER)
        .ok_or_else(|| damaged(key, "it is cut off"))?;
    if header[0] != VERSION {
        return Err(damaged(key, "its version is not known"));
    }
    if header[1..] != checksum(key, payload) {
        return Err(damaged(key, "its checksum is wrong"));
    }
    Ok(payload)
}

/// What was read; none where it is damaged, for a caller that has other rows to look at too: one damaged row
/// must not stop more than itself. The log says what is wrong with it.
pub(crate) fn readable<T>(read: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Corrupt(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// A damaged row. Keys hold ids and hashes, never secrets; only the kind is told all the same.
pub(crate) fn damaged(key: &[u8], what: &str) -> Fault {
    let kind = key.split(|byte| *byte == b'/').next().unwrap_or_default();
    let fault = format!("a row of {}: {what}", String::from_utf8_lossy(kind));
    tracing::error!(store.row = %hex::encode(key), "{fault}");
    Fault::Corrupt(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_is_noticed() {
        let row = encode(b"pay/1", &("text".to_owned(), 7_u64)).unwrap();
        let read: (String, u64) = decode(b"pay/1", &row).unwrap();
        assert_eq!(read, ("text".to_owned(), 7));
        for bit in 0..row.len() * 8 {
            let mut flipped = row.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<(String, u64)>(b"pay/1", &flipped).is_err());
        }
    }

    #[test]
    fn a_row_in_another_place_or_cut_off_is_damage() {
        let row = encode(b"pay/1", &7_u64).unwrap();
        assert!(decode::<u64>(b"pay/2", &row).is_err());
        assert!(decode::<u64>(b"pay/1", &row[..row.len() - 1]).is_err());
        assert!(decode::<u64>(b"pay/1", &[]).is_err());
    }

    #[test]
    fn a_row_that_the_engine_would_not_sync_is_refused() {
        assert!(matches!(
            encode(b"pay/1", &vec![0_u8; MAX_ROW]),
            Err(Fault::Unavailable(_))
        ));
    }
}
