//! The engine's own rows, each of which holds a number: a version byte, a CRC-32 of key and number, and the number
//! with seven bits per byte, lowest first.

use sled::{IVec, Tree};

use crate::fault::Fault;

/// Key of the number of the last group.
pub const GROUP: &[u8] = b"meta/group";
/// Key of the row that is written only to test the disk.
pub const PROBE: &[u8] = b"meta/probe";

const VERSION: u8 = 1;

pub(crate) fn encode(key: &[u8], mut number: u64) -> IVec {
    let mut row = vec![VERSION, 0, 0, 0, 0];
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            row.push(low);
            break;
        }
        row.push(low | 0x80);
    }
    let sum = checksum(key, &row[5..]);
    row[1..5].copy_from_slice(&sum);
    IVec::from(row)
}

fn checksum(key: &[u8], number: &[u8]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(key);
    crc.update(number);
    crc.finalize().to_le_bytes()
}

/// Decodes a number. `None` if the row is damaged.
pub fn decode(key: &[u8], row: &[u8]) -> Option<u64> {
    let (head, bytes) = row.split_first_chunk::<5>()?;
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().enumerate() {
        let shift = u32::try_from(at * 7).ok()?;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
    }
    (encode(key, number) == row && head[0] == VERSION).then_some(number)
}

/// Number of the last group in a database, 0 if there was none.
pub(crate) fn last_group(rows: &Tree) -> Result<u64, Fault> {
    let Some(row) = rows.get(GROUP).map_err(Fault::database)? else {
        return Ok(0);
    };
    decode(GROUP, &row).ok_or_else(|| Fault::Corrupt("the number of the last group".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_reads_back_and_any_flipped_bit_is_noticed() {
        for number in [0, 1, 127, 128, 300, 1 << 40, u64::MAX] {
            let row = encode(GROUP, number);
            assert_eq!(decode(GROUP, &row), Some(number));
            assert_eq!(decode(PROBE, &row), None);
            for bit in 0..row.len() * 8 {
                let mut flipped = row.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode(GROUP, &flipped), None);
            }
        }
        assert_eq!(decode(GROUP, &[]), None);
    }
}
