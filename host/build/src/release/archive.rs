//! Packs the archive. The same files give the same bytes.

use std::io;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::Files;

/// Modification time of all files unless `SOURCE_DATE_EPOCH` is set: the start of the year 2000, as Unix time in
/// seconds.
const MADE_AT: u64 = 946_684_800;

/// Packs files below one folder, in order of their paths and owned by root.
pub(super) fn pack(folder: &str, files: &Files, compression: u32) -> io::Result<Vec<u8>> {
    let made_at = std::env::var("SOURCE_DATE_EPOCH").ok();
    let made_at = made_at.and_then(|seconds| seconds.parse().ok());
    let made_at = made_at.unwrap_or(MADE_AT);
    let level = Compression::new(compression);
    // This gzip header contains no time and no name.
    let gzip = GzBuilder::new().write(Vec::new(), level);
    let mut tar = Builder::new(gzip);
    for (path, (mode, bytes)) in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(*mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(made_at);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, format!("{folder}/{path}"), bytes.as_slice())?;
    }
    tar.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_same_files_give_the_same_bytes_which_hold_them_with_their_modes() {
        let files = Files::from([
            ("kassette".to_owned(), (0o755, b"program".to_vec())),
            ("config/x.toml".to_owned(), (0o644, Vec::new())),
        ]);
        let packed = pack("kassette-1", &files, 6).unwrap();
        assert_eq!(packed, pack("kassette-1", &files, 6).unwrap());
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&packed[..]));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let path = entry.path().unwrap().display().to_string();
            let (mode, size) = (entry.header().mode().unwrap(), bytes.len());
            found.push((path, mode, size));
        }
        let expected = [
            ("kassette-1/config/x.toml".to_owned(), 0o644, 0),
            ("kassette-1/kassette".to_owned(), 0o755, 7),
        ];
        assert_eq!(found, expected);
    }
}
