//! Releases of the shop plugin that an operator publishes, and the choice of the latest.

use std::cmp::Ordering;

use semver::Version;
use url::Url;

use crate::id::Digest;
use crate::time::Time;

/// Maximum length of a URL, in characters.
const MAX_URL: usize = 2048;
/// Maximum length of a version, in characters.
const MAX_VERSION: usize = 64;
/// Maximum size of the file that shops download, in bytes: far above any shop plugin's.
const MAX_SIZE: u64 = 1 << 30;

/// An invalid field of a release; the texts are for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadRelease {
    pub field: &'static str,
    /// The error and how to correct it.
    pub why: String,
}

/// An unchecked release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Semantic version 2.0.0: `1.4.2`.
    pub version: String,
    /// URL of the file.
    pub download_url: String,
    /// 64 lower-case hexadecimal characters.
    pub sha256: String,
    /// Bytes.
    pub size_bytes: u64,
    /// RFC 3339.
    pub released_at: String,
    /// Minimum WordPress version: `6.4`.
    pub requires_wordpress: String,
    /// Newest WordPress version with which it was tested.
    pub tested_wordpress: String,
    /// Minimum WooCommerce version.
    pub requires_woocommerce: String,
    /// Minimum PHP version.
    pub requires_php: String,
    /// URL of the changes, for people.
    pub changelog_url: String,
}

/// A checked release; only [`Release::publish`] creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Release {
    /// Semantic version.
    pub version: Version,
    /// Https URL of the file.
    pub download_url: String,
    /// SHA-256 of the file.
    pub sha256: Digest,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    pub released_at: Time,
    /// Minimum WordPress version.
    pub requires_wordpress: String,
    /// Newest WordPress version with which it was tested.
    pub tested_wordpress: String,
    /// Minimum WooCommerce version.
    pub requires_woocommerce: String,
    /// Minimum PHP version.
    pub requires_php: String,
    /// URL of the changes, for people.
    pub changelog_url: String,
}

impl Release {
    /// Checks a draft.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn publish(draft: Draft) -> Result<Self, BadRelease> {
        let version = version(&draft.version)?;
        let sha256 = Digest::parse(&draft.sha256)
            .ok_or_else(|| bad("sha256", "must be 64 lower-case hexadecimal characters"))?;
        if !(1..=MAX_SIZE).contains(&draft.size_bytes) {
            let why = format!("must be between 1 and {MAX_SIZE}");
            return Err(bad("size_bytes", why));
        }
        let released_at = Time::parse_rfc3339(&draft.released_at).ok_or_else(|| {
            bad(
                "released_at",
                "must be an RFC 3339 time with its offset, such as 2026-11-20T09:00:00Z",
            )
        })?;
        let release = Self {
            version,
            download_url: address("download_url", draft.download_url)?,
            sha256,
            size_bytes: draft.size_bytes,
            released_at,
            requires_wordpress: platform("requires_wordpress", draft.requires_wordpress)?,
            tested_wordpress: platform("tested_wordpress", draft.tested_wordpress)?,
            requires_woocommerce: platform("requires_woocommerce", draft.requires_woocommerce)?,
            requires_php: platform("requires_php", draft.requires_php)?,
            changelog_url: address("changelog_url", draft.changelog_url)?,
        };
        if numbers(&release.tested_wordpress) < numbers(&release.requires_wordpress) {
            return Err(bad(
                "tested_wordpress",
                "must not be older than requires_wordpress",
            ));
        }
        Ok(release)
    }

    /// The release announced to shops: the newest by semantic version. Pre-releases (`2.0.0-rc.1`) are excluded,
    /// because shops install announced releases automatically.
    pub fn latest<'r>(releases: impl IntoIterator<Item = &'r Self>) -> Option<&'r Self> {
        releases
            .into_iter()
            .filter(|release| release.version.pre.is_empty())
            .max_by(|a, b| a.precedence(b))
    }

    /// Compares versions. Versions that differ only in build metadata are equal.
    pub fn precedence(&self, other: &Self) -> Ordering {
        self.version.cmp_precedence(&other.version)
    }
}

fn bad(field: &'static str, why: impl Into<String>) -> BadRelease {
    BadRelease {
        field,
        why: why.into(),
    }
}

fn version(text: &str) -> Result<Version, BadRelease> {
    let version = Version::parse(text)
        .ok()
        .filter(|_| text.len() <= MAX_VERSION);
    version.ok_or_else(|| bad("version", "must be a semantic version such as 1.4.2"))
}

/// Checks an https URL for shops and people.
fn address(field: &'static str, text: String) -> Result<String, BadRelease> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
    let url = Url::parse(&text).ok().filter(|url| {
        text.chars().count() <= MAX_URL
            && !text.contains(odd)
            && url.scheme() == "https"
            && url.host_str().is_some()
            && url.username().is_empty()
            && url.password().is_none()
    });
    match url {
        Some(_) => Ok(text),
        None => Err(bad(field, "must be an https address without a user name")),
    }
}

/// Checks the version of a platform: one to four numbers.
fn platform(field: &'static str, text: String) -> Result<String, BadRelease> {
    match numbers(&text) {
        Some(_) => Ok(text),
        None => Err(bad(field, "must be a version such as 6.4 or 8.1.2")),
    }
}

/// `6.4.2` as numbers, without zeros at the end: `6.4` and `6.4.0` are equal. `None` for any other text.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let number = |part: &str| {
        let plain = !part.is_empty() && part.len() <= 6 && part.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| part.parse().ok()).flatten()
    };
    let mut numbers: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    if numbers.len() > 4 {
        return None;
    }
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(version: &str) -> Draft {
        Draft {
            version: version.into(),
            download_url: format!("https://downloads.example/plugin-{version}.zip"),
            sha256: "0f".repeat(32),
            size_bytes: 412_345,
            released_at: "2026-11-20T10:00:00+01:00".into(),
            requires_wordpress: "6.4".into(),
            tested_wordpress: "6.8.1".into(),
            requires_woocommerce: "8.2".into(),
            requires_php: "8.1".into(),
            changelog_url: "https://downloads.example/changelog".into(),
        }
    }

    fn release(version: &str) -> Release {
        Release::publish(draft(version)).unwrap()
    }

    #[test]
    fn the_latest_is_the_newest_by_semantic_version_and_no_pre_release() {
        let latest = |versions: &[&str]| {
            let releases: Vec<_> = versions.iter().map(|version| release(version)).collect();
            Release::latest(&releases).map(|latest| latest.version.to_string())
        };
        assert_eq!(
            latest(&["1.9.0", "1.10.0", "1.2.30"]).as_deref(),
            Some("1.10.0")
        );
        assert_eq!(latest(&["1.9.0", "2.0.0-rc.1"]).as_deref(), Some("1.9.0"));
        assert_eq!(latest(&["2.0.0-rc.1", "2.0.0"]).as_deref(), Some("2.0.0"));
        assert_eq!(latest(&["2.0.0-rc.1"]), None);
        assert_eq!(latest(&[]), None);
        let [plain, built] = [release("1.0.0"), release("1.0.0+linux")];
        assert_eq!(plain.precedence(&built), Ordering::Equal);
    }

    #[test]
    fn every_field_that_is_wrong_is_named() {
        type Spoil = fn(&mut Draft);
        let cases: [(&str, Spoil); 21] = [
            ("version", |d| d.version = "1.4".into()),
            ("version", |d| d.version = "v1.4.2".into()),
            ("version", |d| {
                d.version = format!("1.4.2+{}", "a".repeat(64))
            }),
            ("sha256", |d| d.sha256 = "0F".repeat(32)),
            ("sha256", |d| d.sha256 = "0f".repeat(31)),
            ("size_bytes", |d| d.size_bytes = 0),
            ("size_bytes", |d| d.size_bytes = MAX_SIZE + 1),
            ("released_at", |d| d.released_at = "2026-11-20".into()),
            ("released_at", |d| {
                d.released_at = "2026-11-20T09:00:00".into()
            }),
            ("download_url", |d| {
                d.download_url = "http://downloads.example/a".into()
            }),
            ("download_url", |d| {
                d.download_url = "https://me@downloads.example/a".into()
            }),
            ("download_url", |d| {
                d.download_url = "downloads.example".into()
            }),
            ("download_url", |d| {
                d.download_url = "https://downloads.example/ a".into()
            }),
            ("changelog_url", |d| {
                d.changelog_url = "ftp://downloads.example".into()
            }),
            ("changelog_url", |d| {
                d.changelog_url = format!("https://a.example/{}", "a".repeat(2048))
            }),
            ("requires_wordpress", |d| {
                d.requires_wordpress = "6.x".into()
            }),
            ("requires_wordpress", |d| {
                d.requires_wordpress = String::new()
            }),
            ("tested_wordpress", |d| d.tested_wordpress = "6.3.9".into()),
            ("requires_woocommerce", |d| {
                d.requires_woocommerce = "8..2".into()
            }),
            ("requires_php", |d| d.requires_php = "8.1.2.3.4".into()),
            ("requires_php", |d| d.requires_php = ">=8.1".into()),
        ];
        for (field, spoil) in cases {
            let mut spoilt = draft("1.4.2");
            spoil(&mut spoilt);
            let refused = Release::publish(spoilt.clone()).unwrap_err();
            assert_eq!(refused.field, field, "{spoilt:?}");
        }
    }

    #[test]
    fn a_platform_s_versions_are_compared_as_numbers() {
        assert!(numbers("6.10") > numbers("6.9.9"));
        assert_eq!(numbers("6.4"), numbers("6.4.0"));
    }
}
