//! `releases/*.toml`: one published version of the shop plugin per file.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use kassette_domain::release::{Draft, Release};
use serde::Deserialize;

use super::{ConfigError, files, parse};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: String,
    download_url: String,
    sha256: String,
    size_bytes: u64,
    released_at: Moment,
    requires_wordpress: String,
    tested_wordpress: String,
    requires_woocommerce: String,
    requires_php: String,
    changelog_url: String,
}

/// A time, either quoted or as a TOML value.
#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a time such as 2026-11-20T09:00:00Z")]
pub(super) enum Moment {
    Text(String),
    Toml(toml::value::Datetime),
}

impl Moment {
    /// The time as written.
    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Toml(time) => time.to_string(),
        }
    }
}

impl File {
    fn draft(self) -> Draft {
        Draft {
            version: self.version,
            download_url: self.download_url,
            sha256: self.sha256,
            size_bytes: self.size_bytes,
            released_at: self.released_at.text(),
            requires_wordpress: self.requires_wordpress,
            tested_wordpress: self.tested_wordpress,
            requires_woocommerce: self.requires_woocommerce,
            requires_php: self.requires_php,
            changelog_url: self.changelog_url,
        }
    }
}

/// Returns the releases of a folder and the problems with the other files. `None` if the folder does not exist.
pub(super) fn read(folder: &Path) -> (Option<Vec<Release>>, Vec<ConfigError>) {
    if !folder.exists() {
        return (None, Vec::new());
    }
    let paths = match files(folder) {
        Ok(paths) => paths,
        Err(error) => return (Some(Vec::new()), vec![error]),
    };
    let mut errors = Vec::new();
    let mut known: Vec<(PathBuf, Release)> = Vec::new();
    for path in paths {
        let read = one(&path).and_then(|release| {
            let same =
                |(_, other): &&(PathBuf, Release)| other.precedence(&release) == Ordering::Equal;
            match known.iter().find(same) {
                None => Ok(release),
                Some((other, _)) => {
                    let why = format!(
                        "version: {} is published by {} already; remove one of the two",
                        release.version,
                        other.display()
                    );
                    Err(ConfigError::new(&path, why))
                }
            }
        });
        match read {
            Ok(release) => known.push((path, release)),
            Err(error) => errors.push(error.placed()),
        }
    }
    let releases = known.into_iter().map(|(_, release)| release).collect();
    (Some(releases), errors)
}

fn one(path: &Path) -> Result<Release, ConfigError> {
    let file: File = parse(path)?;
    Release::publish(file.draft()).map_err(|why| ConfigError::new(path, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"version = "1.9.0"
download_url = "https://downloads.example/plugin.zip"
sha256 = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
size_bytes = 412345
released_at = 2026-11-20T09:00:00Z
requires_wordpress = "6.4"
tested_wordpress = "6.8"
requires_woocommerce = "8.2"
requires_php = "8.1"
changelog_url = "https://downloads.example/changelog"
"#;

    fn folder(files: &[(&str, String)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn files_are_read_whatever_they_are_called() {
        let quoted = FILE
            .replace("1.9.0", "1.10.0")
            .replace("2026-11-20T09:00:00Z", "\"2026-11-21T09:00:00+01:00\"");
        let folder = folder(&[
            ("a.toml", FILE.into()),
            ("b.toml", quoted),
            ("c.txt", "?".into()),
        ]);
        let (releases, errors) = read(folder.path());
        assert!(errors.is_empty(), "{errors:?}");
        let latest = Release::latest(releases.iter().flatten()).unwrap();
        assert_eq!(latest.version.to_string(), "1.10.0");
        assert_eq!(latest.released_at.rfc3339(), "2026-11-21T08:00:00.000Z");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_file_and_line() {
        let folder = folder(&[
            ("a.toml", FILE.replace("\"6.8\"", "\"6.3\"")),
            (
                "b.toml",
                FILE.replace("2026-11-20T09:00:00Z", "2026-11-20T09:00:00"),
            ),
            ("c.toml", FILE.replace("2026-11-20T09:00:00Z", "7")),
            ("d.toml", FILE.replace("size_bytes", "size")),
            ("e.toml", FILE.into()),
            ("f.toml", FILE.replace("1.9.0", "1.9.0+again")),
        ]);
        let (releases, errors) = read(folder.path());
        let told: Vec<_> = errors
            .iter()
            .map(|error| {
                let name = Path::new(&error.path).file_name().unwrap();
                (name.to_str().unwrap(), error.line)
            })
            .collect();
        let expected = [
            ("a.toml", Some(7)),
            ("b.toml", Some(5)),
            ("c.toml", Some(5)),
            ("d.toml", Some(4)),
            ("f.toml", Some(1)),
        ];
        assert_eq!(told, expected, "{errors:?}");
        assert_eq!(releases.unwrap().len(), 1);
    }

    #[test]
    fn no_folder_is_not_an_empty_one() {
        let folder = folder(&[]);
        assert_eq!(read(folder.path()).0, Some(Vec::new()));
        assert_eq!(read(&folder.path().join("releases")).0, None);
    }
}
